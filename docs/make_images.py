"""Draw the pictures of the documentation: `python docs/make_images.py [NAME ...]`, all of them without a name.

Every number in a picture is computed here by the library, so a picture that no longer fits its page shows up as a
changed file. The learning curves take about a minute, the others a few seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np

import bqrl
from bqrl.learners.replan import centred_window
from bqrl.results.charts import BLUE, GREEN, GREY, RED, image, with_title
from bqrl.results.plan_charts import Steps, curve_chart

IMAGES = Path(__file__).parent / "images"
TAU = 0.1
OFFERS = 24
FILLS = {"safe": "#CFE6F5", "risky": "#FBE3B3", "done": "#DDF0E4", "lost": "#E3E3E3"}


def small_game(win: float = 0.55, rounds: int = 5) -> bqrl.MDP:
    """The game of the idea page: take 1 for sure, or 3 with probability `win` and else nothing."""
    moves = [(0, 0, 0, 1.0, 1.0), (0, 1, 0, win, 3.0), (0, 1, 0, 1.0 - win, 0.0)]
    return bqrl.MDP(moves, horizon=rounds, state_names=["game"], action_names=["safe", "risky"])


def guarantee_curve() -> Any:
    """The best offer for every certainty against two other ways to choose a policy; on the site a slider moves the level."""
    mdp = bqrl.envs.make("AssetSelling")
    curve = bqrl.guarantee_curve(mdp)
    levels = np.arange(0.0, 1.0, 0.0025)
    greedy = np.array([bqrl.solve(mdp, tau, planner="greedy").value for tau in (levels + 0.00125).tolist()])
    neutral = Steps.of(bqrl.solve(mdp, TAU, planner="expected").law)
    others = {"risk-neutral policy": neutral, "the paper's greedy planner": Steps(levels, greedy)}
    in_offers = {name: Steps(steps.levels, steps.values * OFFERS) for name, steps in others.items()}
    shown = [TAU, *(round(0.05 * k, 2) for k in range(1, 20) if k != 2)]  # the first is chosen at first
    plans = [replace(bqrl.solve(mdp, tau), value=curve(tau) * OFFERS) for tau in shown]
    chart = curve_chart(replace(curve, points=curve.points * OFFERS), plans, in_offers)
    said = []
    for tau, plan in zip(shown, plans, strict=True):
        values = [float(steps.at([tau])[0]) for steps in in_offers.values()]
        text = [f"In {100 * (1 - tau):.0f} of 100 runs at least:", f"best policy {plan.value:.0f}"]
        said.append(
            {"tau": tau, "text": [*text, *(f"{name} {value:.0f}" for name, value in zip(others, values, strict=True))]}
        )
    words = alt.Chart(alt.Data(values=said)).transform_filter("datum.tau == tau")
    words = words.mark_text(align="right", fontSize=13, lineHeight=18).encode(
        x=alt.value(alt.expr("width - 12")), y=alt.value(alt.expr("height - 70")), text="text:N"
    )
    chart = alt.layer(*chart.layer, words).add_params(
        alt.param(
            name="tau",
            value=TAU,
            bind=alt.binding_range(min=0.05, max=0.95, step=0.05, name="runs that may fall short"),
        )
    )
    note = "Ten stages, uniform offers 0 to 24, first offer 5. No policy guarantees more than the solid line."
    return with_title(chart, "Asset selling: the offer that is guaranteed at each level", note)


def target_space() -> Any:
    """The small game with the amount still needed as a coordinate, and the shortfall of every first target."""
    game = small_game()
    curve = bqrl.guarantee_curve(game, keep=True)
    target, policy, H, top = curve(TAU), curve.policy(TAU), game.H, 9
    met, cells, moves = {(0, int(target))}, [], []
    for h in range(H + 1):
        for need in range(top + 1):
            if h == H:
                kind, text = ("done", "reached") if need == 0 else ("lost", "short")
            else:
                column = int(policy.column(h, float(need)))
                short = float(curve.sweep.values[h][0, column])
                action = game.action_label(int(policy.actions[h][0, column]))
                kind = "lost" if short > 1.0 - 1e-12 else "done" if need == 0 else action
                text = kind if kind in ("lost", "done") else f"{action} {100 * short:.3g} %"
            on_path = (h, need) in met
            cells.append({"h": h, "need": need, "kind": kind, "text": text, "met": on_path})
            if on_path and h < H:
                pays = [0] if kind in ("lost", "done") else [1] if kind == "safe" else [3, 0]
                after = [max(need - pay, 0) for pay in pays]
                met |= {(h + 1, each) for each in after}
                moves += [{"h": h + 0.42, "need": need, "h2": h + 0.58, "need2": each} for each in after]
    x = alt.X("h:Q", title="round", scale=alt.Scale(domain=[-0.5, H + 0.5]), axis=alt.Axis(
        values=list(range(H + 1)), grid=False, labelExpr=f"datum.value == {H} ? 'end' : datum.value + 1"))  # fmt: skip
    y = alt.Y(
        "need:Q", title="amount still needed", scale=alt.Scale(domain=[-0.5, top + 0.5]), axis=alt.Axis(grid=False)
    )
    base = alt.Chart(alt.Data(values=cells))
    fill = alt.Color("kind:N", scale=alt.Scale(domain=list(FILLS), range=list(FILLS.values())), legend=None)
    size = {"width": 68, "height": 28, "stroke": "white"}
    left = alt.layer(
        base.mark_rect(**size).encode(x=x, y=y, color=fill),
        alt.Chart(alt.Data(values=moves))
        .mark_rule(strokeWidth=2, opacity=0.5, color="black")
        .encode(x=x, y=y, x2="h2:Q", y2="need2:Q"),
        base.transform_filter("datum.met")
        .mark_text(fontSize=10, fontWeight="bold", color="black")
        .encode(x=x, y=y, text="text:N"),
        base.transform_filter("!datum.met").mark_text(fontSize=10, color=GREY).encode(x=x, y=y, text="text:N"),
    ).properties(width=420, height=300, title="Best action and smallest probability of a shortfall")

    xs = np.arange(4, 11)
    heights = curve.shortfall[np.searchsorted(curve.points, xs)].tolist()
    pairs = zip(xs.tolist(), heights, strict=True)
    bars = [{"x": n, "short": p, "label": f"{100 * p:.3g} %", "best": n == target} for n, p in pairs]
    across = alt.X(
        "short:Q",
        title="probability of a shortfall",
        axis=alt.Axis(format=".0%", grid=False),
        scale=alt.Scale(domain=[0, 0.8]),
    )
    down = alt.Y("x:O", title="target x", sort="descending")
    chosen = alt.condition("datum.best", alt.value(GREEN), alt.value("#BFBFBF"))
    bar = alt.Chart(alt.Data(values=bars))
    right = alt.layer(
        bar.mark_bar(size=20).encode(x=across, y=down, color=chosen),
        bar.mark_text(align="left", dx=4).encode(x=across, y=down, text="label:N"),
        alt.Chart(alt.Data(values=[{"short": TAU}])).mark_rule(color=RED, strokeWidth=1.5).encode(x=across),
    ).properties(width=200, height=300, title=f"Largest target below τ = {100 * TAU:g} %")
    share = 100.0 * (1.0 - curve.shortfall[int(target)])
    text = f"Target {target:.0f}: the best policy reaches it in {share:.1f} % of the runs"
    return with_title(alt.hconcat(left, right), text, "")


def buffer_dial() -> Any:
    """The best buffered quantile from VaR to CVaR, and what the policies for the two ends give."""
    mdp = bqrl.envs.make("AssetSelling")
    margin = bqrl.guarantee_curve(mdp).margin(TAU).below
    betas = np.unique(np.r_[np.linspace(0.0, TAU, 41), margin]).tolist()
    plans = [bqrl.solve(mdp, TAU, beta) for beta in betas]
    names = ["best policy for each buffer", "planned for VaR", "planned for CVaR"]
    rows = [{"beta": beta, "value": plan.value, "policy": names[0]} for beta, plan in zip(betas, plans, strict=True)]
    for name, law in zip(names[1:], (plans[0].law, plans[-1].law), strict=True):
        rows += [{"beta": beta, "value": law.buffered_quantile(TAU, beta), "policy": name} for beta in betas]
    x = alt.X("beta:Q", title="buffer β", scale=alt.Scale(domain=[0, TAU]))
    y = alt.Y("value:Q", title="buffered 0.1-quantile of the return", scale=alt.Scale(domain=[0.53, 0.83]))
    colour = alt.Color(
        "policy:N", title=None, scale=alt.Scale(domain=names, range=[GREY, BLUE, RED]), legend=alt.Legend(orient="top")
    )
    dash = alt.StrokeDash("policy:N", title=None, scale=alt.Scale(domain=names, range=[[1, 0], [6, 3], [6, 3]]))
    ends = [
        {"beta": 0.0, "value": plans[0].value, "label": f"VaR {plans[0].value:.3f}"},
        {"beta": TAU, "value": plans[-1].value, "label": f"CVaR {plans[-1].value:.3f}"},
    ]
    marked, bold = alt.Chart(alt.Data(values=ends)), {"fontWeight": "bold"}
    band = alt.Chart(alt.Data(values=[{"beta": 0.0, "to": margin}])).mark_rect(opacity=0.15, color=GREY)
    chart = alt.layer(
        band.encode(x=x, x2="to:Q"),
        alt.Chart(alt.Data(values=rows)).mark_line(strokeWidth=2, clip=True).encode(x=x, y=y, color=colour, strokeDash=dash),
        marked.mark_point(filled=True, size=90, color=GREY, opacity=1).encode(x=x, y=y),
        marked.transform_filter("datum.beta == 0").mark_text(align="left", dx=8, dy=-8, **bold).encode(x=x, y=y, text="label:N"),
        marked.transform_filter("datum.beta > 0").mark_text(align="right", dx=-8, dy=14, **bold).encode(x=x, y=y, text="label:N"),
    ).properties(width=520, height=280)  # fmt: skip
    note = "Asset selling, τ = 0.1. A buffer narrower than the margin (shaded) changes nothing."
    return with_title(chart, "One dial from the quantile (VaR) to CVaR", note)


def window() -> Any:
    """The windows of levels for which the default learner plans, over the shortfall of every target."""
    tau, curve = 0.5, bqrl.guarantee_curve(bqrl.envs.make("AssetSelling", distribution="two-humped"))
    first = int(np.searchsorted(curve.points, 10 / OFFERS - 1e-9))
    pairs = zip(curve.points[first:-1].tolist(), curve.shortfall[first:-1].tolist(), strict=False)
    bars = [{"x": round(x * OFFERS), "short": short, "best": abs(x - curve(tau)) < 1e-9} for x, short in pairs]
    bands = []
    for t in (10, 100, 1000):
        level, buffer = centred_window(tau, t)
        bands.append({"low": level - buffer, "high": level, "label": f"episode {t}", "t": t})
    x = alt.X("x:O", title="target offer", axis=alt.Axis(labelAngle=0))
    y = alt.Y(
        "short:Q", title="probability of a shortfall", axis=alt.Axis(format=".0%"), scale=alt.Scale(domain=[0, 1])
    )
    chosen = alt.condition("datum.best", alt.value(GREEN), alt.value("#BFBFBF"))
    band, high = alt.Chart(alt.Data(values=bands)), alt.Y("high:Q", title="probability of a shortfall")
    chart = alt.layer(
        band.mark_rect(opacity=0.13, color=BLUE).encode(
            y=alt.Y("low:Q", title="probability of a shortfall"), y2="high:Q"
        ),
        alt.Chart(alt.Data(values=bars)).mark_bar().encode(x=x, y=y, color=chosen),
        alt.Chart(alt.Data(values=[{"short": tau}])).mark_rule(color=RED, strokeWidth=1.5).encode(y=y),
        band.mark_text(align="left", baseline="top", dx=6, dy=4, color=BLUE).encode(
            x=alt.value(0), y=high, text="label:N"
        ),
    ).properties(width=520, height=300)
    note = "Two-humped offers, τ = 50 % (red). Bars: smallest probability of a shortfall of each target; green: the best target."
    return with_title(chart, "The window narrows to the level as the shortfalls become known", note)


def learning() -> Any:
    """Cumulative gap of the default learner, of UCB-BQRL with both planners and of UCBVI."""
    learners = [
        ("PSRL", "psrl", {}),
        ("UCB-BQRL", "ucb-bqrl", {"planner": "target", "c_conf": 0.008}),
        ("UCB-BQRL, greedy planner", "ucb-bqrl", {"planner": "greedy"}),
        ("UCBVI", "ucbvi", {}),
    ]
    experiment = bqrl.compare("AssetSelling", learners, TAU, 2000, seeds=range(1, 6))
    note = f"Exact optimum minus exact quantile of the current policy, summed. Band: {experiment.band}."
    return with_title(experiment.chart("gap"), "Learning asset selling: regret of the 0.1-quantile", note)


PICTURES: dict[str, Callable[[], Any]] = {
    "guarantee_curve": guarantee_curve,
    "target_space": target_space,
    "buffer_dial": buffer_dial,
    "window": window,
    "learning": learning,
}


def main(names: list[str]) -> None:
    """Draw the named pictures."""
    IMAGES.mkdir(exist_ok=True)
    for name in names or list(PICTURES):
        place = IMAGES / f"{name}.png"
        place.write_bytes(image(PICTURES[name](), "png"))
        print(f"{place.relative_to(IMAGES.parents[1])}: {place.stat().st_size / 1024:.0f} KiB")


if __name__ == "__main__":
    main(sys.argv[1:])
