"""Draw the pictures of the documentation: `python docs/make_images.py [NAME ...]`, all of them without a name.

Every number in a picture is computed here by the library, so a picture that no longer fits its page shows up as a
changed file. The learning curves take about a minute, the others a few seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from bqrl.reports.style import FAINT, INK, PALETTE, QUIET, SIZE, head, new_figure, tidy

import bqrl

IMAGES = Path(__file__).parent / "images"
BLUE, RED, GREEN = PALETTE[:3]
GOLD = PALETTE[4]
TAU = 0.1
OFFERS = 24


def small_game(win: float = 0.55, rounds: int = 5) -> bqrl.MDP:
    """The game of the idea page: take 1 for sure, or 3 with probability `win` and else nothing."""
    moves = [(0, 0, 0, 1.0, 1.0), (0, 1, 0, win, 3.0), (0, 1, 0, 1.0 - win, 0.0)]
    return bqrl.MDP(moves, horizon=rounds, state_names=["game"], action_names=["safe", "risky"])


def guarantee_curve() -> Any:
    """The best offer for every certainty against two other ways to choose a policy."""
    mdp = bqrl.envs.make("AssetSelling")
    curve = bqrl.guarantee_curve(mdp)
    neutral = bqrl.solve(mdp, TAU, planner="expected").law
    levels = np.arange(0.0025, 1.0, 0.0025)
    greedy = np.array([bqrl.solve(mdp, tau, planner="greedy").value for tau in levels.tolist()])

    figure = new_figure(6.4, 3.7)
    axes = figure.add_subplot()
    steps, best = curve.steps
    axes.step(np.r_[steps, 1.0], np.r_[best, best[-1]] * OFFERS, where="post", color=INK, linewidth=2.0)
    jumps, values = np.r_[0.0, neutral.running], np.r_[neutral.values, neutral.values[-1]]
    axes.step(jumps, values * OFFERS, where="post", color=BLUE, linewidth=1.5, linestyle=(0, (4, 2)))
    axes.plot(levels, greedy * OFFERS, color=RED, linewidth=1.5, drawstyle="steps-mid")
    at = [float(curve(TAU)), neutral.quantile(TAU), bqrl.solve(mdp, TAU, planner="greedy").value]
    names = [("exact optimum", INK), ("risk-neutral policy", BLUE), ("the paper's greedy planner", RED)]
    axes.axvline(TAU, color=QUIET, linewidth=0.8, linestyle=":")
    for value, (_, colour) in zip(at, names, strict=True):
        axes.plot([TAU], [value * OFFERS], "o", color=colour, markersize=5.5, markeredgecolor="white", zorder=5)
    for y, value, (name, colour) in zip((14.2, 11.8, 9.4), at, names, strict=True):
        axes.text(0.28, y, name, color=colour, fontsize=SIZE + 0.5, fontweight="bold", va="center")
        axes.text(0.98, y, f"offer {value * OFFERS:.0f} in 9 of 10 runs", color=colour, ha="right", va="center")
    tidy(axes, "level τ: share of runs that may end below the promise", "promised offer (0 to 24)")
    axes.set_xlim(0.0, 1.0)
    axes.set_ylim(3.5, 24.8)
    axes.set_yticks(range(4, 25, 4))
    told = "Ten stages, uniform offers 0 to 24, first offer 5. Black: no policy can promise more."
    head(figure, "Asset selling: the offer that you can count on", told, axes)
    return figure


def target_space() -> Any:
    """The small game with the amount still needed as a coordinate, and the shortfall of every first target."""
    game = small_game()
    curve = bqrl.guarantee_curve(game, keep=True)
    target = curve(TAU)
    H, top = game.H, 9
    figure = new_figure(7.6, 4.1)
    left, right = figure.subplots(1, 2, width_ratios=[1.9, 1.0])
    fills = {"safe": "#CFE6F5", "risky": "#FBE3B3"}
    policy = curve.policy(TAU)
    shortfall = curve.sweep.values
    met = {(0, int(target))}
    for h in range(H):
        for need in range(top + 1):
            column = int(policy.column(h, float(need)))
            short = float(shortfall[h][0, column])
            action = game.action_label(int(policy.actions[h][0, column]))
            lost, done = short > 1.0 - 1e-12, need == 0
            colour = "#E3E3E3" if lost else "#DDF0E4" if done else fills[action]
            left.add_patch(_cell(h, need, colour))
            text = "lost" if lost else "done" if done else f"{action}\n{100 * short:.3g} %"
            on_path = (h, need) in met
            left.text(h, need, text, ha="center", va="center", fontsize=SIZE - 2.2, color=INK if on_path else QUIET,
                      fontweight="bold" if on_path else "normal", linespacing=0.95)  # fmt: skip
            if on_path and not done:
                pays = [0] if lost else [1] if action == "safe" else [3, 0]
                for pay in pays:
                    after = max(need - pay, 0)
                    met.add((h + 1, after))
                    left.annotate("", (h + 0.70, after), (h + 0.33, need), zorder=4,
                                  arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 0.9, "mutation_scale": 7,
                                              "shrinkA": 0, "shrinkB": 0})  # fmt: skip
            elif on_path:
                met.add((h + 1, 0))
    for need in range(top + 1):
        left.add_patch(_cell(H, need, "#DDF0E4" if need == 0 else "#E3E3E3"))
        left.text(H, need, "reached" if need == 0 else "short", ha="center", va="center", fontsize=SIZE - 2.2,
                  color=INK if (H, need) in met else QUIET, fontweight="bold" if (H, need) in met else "normal")  # fmt: skip
    tidy(left, "round", "amount still needed", grid=False)
    left.set_xlim(-0.5, H + 0.5)
    left.set_ylim(-0.5, top + 0.5)
    left.set_xticks(range(H + 1), [*map(str, range(1, H + 1)), "end"])
    left.set_yticks(range(top + 1))
    left.set_title(
        "Best move and smallest chance to fall short",
        loc="left",
        fontsize=SIZE,
        color=QUIET,
        pad=6,
    )

    xs = np.arange(4, 11)
    heights = curve.shortfall[np.searchsorted(curve.points, xs)]
    right.barh(xs, heights, color=[GREEN if x == target else "#BFBFBF" for x in xs], height=0.62)
    for x, height in zip(xs.tolist(), heights.tolist(), strict=True):
        right.text(
            (TAU if x == target else height) + 0.015,
            x,
            f"{100 * height:.3g} %",
            va="center",
            fontsize=SIZE - 1.5,
            color=INK,
        )
    right.axvline(TAU, color=RED, linewidth=1.2)
    right.text(TAU + 0.015, 10.62, "τ = 10 %", color=RED, fontsize=SIZE - 1, va="center", fontweight="bold")
    tidy(right, "chance to fall short", "target x", grid=False)
    right.set_xlim(0.0, 0.78)
    right.set_xticks([0.0, 0.2, 0.4, 0.6], ["0 %", "20 %", "40 %", "60 %"])
    right.set_ylim(3.4, 10.95)
    right.set_yticks(xs)
    right.set_title("The highest target below τ wins", loc="left", fontsize=SIZE, color=QUIET, pad=6)
    share = 100.0 * (1.0 - curve.shortfall[int(target)])
    head(figure, f"Ask for {target:.0f} and follow what is still needed: {share:.1f} % of runs get there")
    return figure


def _cell(x: float, y: float, colour: str) -> Any:
    from matplotlib.patches import Rectangle

    return Rectangle((x - 0.5, y - 0.5), 1.0, 1.0, facecolor=colour, edgecolor="white", linewidth=1.2)


def buffer_dial() -> Any:
    """The best buffered quantile from VaR to CVaR, and what the policies for the two ends give."""
    mdp = bqrl.envs.make("AssetSelling")
    curve = bqrl.guarantee_curve(mdp)
    margin = curve.margin(TAU).below
    betas = np.unique(np.r_[np.linspace(0.0, TAU, 41), margin])
    plans = [bqrl.solve(mdp, TAU, beta) for beta in betas.tolist()]
    ends = {"planned for VaR": (plans[0].law, BLUE), "planned for CVaR": (plans[-1].law, RED)}

    figure = new_figure(6.0, 3.5)
    axes = figure.add_subplot()
    axes.axvspan(0.0, margin, color=FAINT, alpha=0.6, linewidth=0)
    axes.text(margin / 2, 0.555, "margin", fontsize=SIZE - 0.5, color=QUIET, ha="center", va="center")
    for name, (law, colour) in ends.items():
        worth = [law.buffered_quantile(TAU, beta) for beta in betas.tolist()]
        axes.plot(betas, worth, color=colour, linewidth=1.4, linestyle=(0, (4, 2)), label=name)
    axes.plot(betas, [plan.value for plan in plans], color=INK, linewidth=2.0, label="best policy for each buffer")
    axes.plot([0.0], [plans[0].value], "o", color=INK, markersize=6, clip_on=False, zorder=5)
    axes.plot([TAU], [plans[-1].value], "o", color=INK, markersize=6, clip_on=False, zorder=5)
    axes.text(0.0025, plans[0].value + 0.012, f"VaR {plans[0].value:.3f}", fontsize=SIZE, color=INK, fontweight="bold")
    axes.text(TAU - 0.003, plans[-1].value - 0.017, f"CVaR {plans[-1].value:.3f}", fontsize=SIZE, color=INK,
              fontweight="bold", ha="right")  # fmt: skip
    tidy(axes, "buffer β", "buffered 0.1-quantile of the return")
    axes.set_xlim(0.0, TAU)
    axes.set_ylim(0.53, 0.83)
    axes.legend(loc="lower left", bbox_to_anchor=(0.17, 0.02), frameon=False, fontsize=SIZE - 0.5)
    told = "Asset selling, τ = 0.1. A buffer narrower than the margin changes nothing."
    head(figure, "One dial from the quantile (VaR) to CVaR", told, axes)
    return figure


def learning() -> Any:
    """Cumulative gap of UCB-BQRL with both planners and of UCBVI."""
    mdp, episodes, seeds = bqrl.envs.make("AssetSelling"), 2000, range(1, 6)
    runs: list[tuple[str, str, dict[str, str], str]] = [
        ("UCB-BQRL, target planner", "ucb-bqrl", {"planner": "target"}, INK),
        ("UCBVI (for the mean)", "ucbvi", {}, BLUE),
        ("UCB-BQRL, greedy planner", "ucb-bqrl", {"planner": "greedy"}, RED),
    ]
    figure = new_figure(6.0, 3.5)
    axes = figure.add_subplot()
    for name, learner, params, colour in runs:
        gaps = np.array([bqrl.learn(mdp, learner, TAU, episodes, seed, **params).gap() for seed in seeds]).cumsum(
            axis=1
        )
        axes.plot(gaps.mean(axis=0), color=colour, linewidth=1.8)
        axes.fill_between(
            np.arange(episodes), gaps.min(axis=0), gaps.max(axis=0), color=colour, alpha=0.15, linewidth=0
        )
        last = float(gaps[:, -1].mean())
        axes.text(episodes * 1.01, last, f"{last:.0f}", color=colour, fontsize=SIZE, va="center")
        x, y = {INK: (0.98, last + 55.0), BLUE: (0.98, last - 90.0), RED: (0.70, last - 80.0)}[colour]
        axes.text(x * episodes, y, name, color=colour, fontsize=SIZE, ha="right", va="center", fontweight="bold")
    tidy(axes, "episode", "cumulative gap of the 0.1-quantile")
    axes.set_xlim(0, episodes)
    axes.set_ylim(0.0, None)
    told = "Exact optimum minus exact quantile of the policy in force; mean and range of 5 seeds."
    head(figure, "Learning asset selling: regret of the 0.1-quantile", told, axes)
    return figure


PICTURES: dict[str, Callable[[], Any]] = {
    "guarantee_curve": guarantee_curve,
    "target_space": target_space,
    "buffer_dial": buffer_dial,
    "learning": learning,
}


def main(names: list[str]) -> None:
    """Draw the named pictures."""
    IMAGES.mkdir(exist_ok=True)
    for name in names or list(PICTURES):
        place = IMAGES / f"{name}.png"
        PICTURES[name]().savefig(place, dpi=160, metadata={"Software": None})
        print(f"{place.relative_to(IMAGES.parents[1])}: {place.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
