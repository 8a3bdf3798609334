"""Learners on asset selling, T = 2000, every policy scored exactly, beside public implementations in the same run.

The peers need an older Gymnasium (rlberry) or torch (Stable-Baselines3), so they live in environments of their own, which
this script makes on first use beside the project's: .venv-rlberry, and .venv-sb3 with the flag --sb3.

`--against CHECKOUT` compares with another checkout of this project instead: both take turns in fresh processes, with counts per
stage and the same multiplier of the radius, and the least CPU time per episode of either counts.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

import bqrl
from bqrl.learners.run import Run

HERE = Path(__file__).parent
ROOT = HERE.parent
PEERS = {
    "rlberry": ["rlberry-scool==0.7.3", "gymnasium==0.29.1"],
    "sb3": ["torch==2.13.0", "stable-baselines3==2.9.2", "sb3-contrib==2.9.2"],
}
OURS = [
    ("ucbvi", {}, 30, "rlberry UCBVI"),
    ("q-learning", {}, 30, "rlberry UCBVI"),
    ("sarsa", {}, 30, "rlberry UCBVI"),
    ("thompson", {}, 12, "rlberry UCBVI"),
    ("ucb-bqrl", {"planner": "greedy"}, 12, "rlberry UCBVI"),
    ("ucb-bqrl", {"planner": "target"}, 3, "rlberry UCBVI"),
    ("psrl", {}, 3, "rlberry UCBVI"),
    ("ppo", {}, 10, "ppo"),
    ("trpo", {}, 10, "trpo"),
]
PACE = """
import json, sys, time, bqrl
learner, params, episodes = json.loads(sys.argv[1])
mdp = bqrl.envs.make("AssetSelling")
try:
    bqrl.learn(mdp, learner, 0.1, 30, 1, progress=False, **params)  # compile
except TypeError:  # an earlier version that always counts per stage
    params.pop("stationary")
    bqrl.learn(mdp, learner, 0.1, 30, 1, progress=False, **params)
best = {}
for seed in (7, 8, 9) * 4:
    begun = time.process_time()
    bqrl.learn(mdp, learner, 0.1, episodes, seed, progress=False, **params)
    best[seed] = min(best.get(seed, float("inf")), time.process_time() - begun)
print(1e3 * sum(best.values()) / len(best) / episodes)
"""


def compare_checkouts(other: Path, episodes: int, rounds: int = 3) -> None:
    """Print the CPU time per episode of the other checkout and of this one, taking turns, and its ratio."""
    print(f"asset selling, {episodes} episodes, tau 0.1: CPU milliseconds per episode, least of {rounds} rounds")
    print(f"{'learner':28}{'other':>9}{'this':>9}{'this / other':>14}")
    for learner, params, *_ in OURS:
        given = params | ({"stationary": False} if learner in ("ucb-bqrl", "ucbvi", "thompson") else {})
        given |= {"c_conf": 0.008} if params.get("planner") == "target" else {}
        least = {other: float("inf"), ROOT: float("inf")}
        for place in [*least] * rounds:
            paths = {"PYTHONPATH": str(place / "src"), "NUMBA_NUM_THREADS": "1"}
            call = [sys.executable, "-c", PACE, json.dumps([learner, given, episodes])]
            done = subprocess.run(call, capture_output=True, text=True, env={**os.environ, **paths})
            least[place] = min(least[place], float(done.stdout) if done.returncode == 0 else float("inf"))
        title = learner + (f" ({params['planner']})" if params else "")
        before, ratio = "-", "-"  # of a learner that the other checkout does not have
        if least[other] < float("inf"):
            before, ratio = f"{least[other]:.3f}", f"{least[ROOT] / least[other]:.2f}"
        print(f"{title:28}{before:>9}{least[ROOT]:9.3f}{ratio:>14}", flush=True)


def peer_python(name: str) -> Path | None:
    """Python of a peer's environment, made on first use; None where it cannot be installed."""
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    if not (folder / ".ready").exists():
        print(f"making {folder.name} (once)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        done = subprocess.run([python, "-m", "pip", "install", "-qq", "--disable-pip-version-check", *PEERS[name]])
        if done.returncode:
            print(f"   {name} could not be installed: its rows are left out")
            return None
        (folder / ".ready").touch()
    return python


def peer_seconds(name: str, script: str, episodes: int) -> dict[str, float]:
    python = peer_python(name)
    if python is None:
        return {}
    out = subprocess.run([python, HERE / "peers" / script, str(episodes)], capture_output=True, text=True, check=True)
    lines = [line.split() for line in out.stdout.splitlines() if len(line.split()) == 2]
    return {key: float(value) for key, value in lines if key in ("seconds", "ppo", "trpo")}


def our_seconds(learner: str, params: dict, episodes: int) -> float:
    mdp = bqrl.envs.make("AssetSelling")
    bqrl.learn(mdp, learner, 0.1, 30, 1, progress=False, **params)  # compile
    best = float("inf")
    for seed in (7, 8, 9):
        begun = time.perf_counter()
        bqrl.learn(mdp, learner, 0.1, episodes, seed, progress=False, **params)
        best = min(best, time.perf_counter() - begun)
    return best


def wide_problem(S: int = 20, A: int = 4, H: int = 20, points: int = 1000, seed: int = 0) -> bqrl.MDP:
    """A random problem whose returns have about `points` grid points."""
    rng = np.random.default_rng(seed)
    P = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            P[s, a, rng.choice(S, 3, replace=False)] = rng.dirichlet(np.ones(3))
    return bqrl.MDP(P, rng.integers(0, points // H + 1, (S, A)).astype(float), horizon=H)


def planning_ratio(tau: float, episodes: int = 60) -> tuple[float, float, float]:
    """Seconds of one plan of psrl and of one guarantee curve of the same model, and sweeps per plan, in one run."""
    mdp = wide_problem()
    run = Run(mdp, "psrl", tau, episodes, 1)
    run.step()
    bqrl.guarantee_curve(mdp.with_probability(run.learner.draw()))  # compile
    plan, curve, sweeps = 0.0, 0.0, 0.0
    for _ in range(episodes - 1):
        begun = time.process_time()
        run.learner.plan()
        plan += time.process_time() - begun
        sweeps += run.learner.notes()["sweeps"]
        model = mdp.with_probability(run.learner.draw())
        begun = time.process_time()
        bqrl.guarantee_curve(model)
        curve += time.process_time() - begun
        run.step()
    return plan / (episodes - 1), curve / (episodes - 1), sweeps / (episodes - 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=2000)
    parser.add_argument("--sb3", action="store_true", help="also PPO and TRPO of Stable-Baselines3 (installs torch)")
    parser.add_argument("--against", type=Path, metavar="CHECKOUT", help="another checkout of this project")
    given = parser.parse_args()
    if given.against is not None:
        compare_checkouts(given.against.resolve(), given.episodes)
        return
    peers = {"rlberry UCBVI": peer_seconds("rlberry", "rlberry_ucbvi.py", given.episodes).get("seconds")}
    if given.sb3:
        peers |= peer_seconds("sb3", "sb3_policy_gradients.py", given.episodes)
    print(f"asset selling, {given.episodes} episodes of ten stages, tau 0.1, best of three runs")
    print(f"{'learner':28}{'seconds':>9}{'peer':>18}{'seconds':>9}{'ratio':>8}{'bar':>6}")
    for learner, params, bar, peer in OURS:
        ours, theirs = our_seconds(learner, params, given.episodes), peers.get(peer)
        title = learner + (f" ({params['planner']})" if params else "")
        ratio = f"{theirs / ours:8.1f}" if theirs else "       -"
        print(f"{title:28}{ours:9.3f}{peer:>18}{theirs or float('nan'):9.2f}{ratio}{bar:6}")
    print("\npsrl on a wide grid (S=20, A=4, H=20, about 1,000 points): one plan against one guarantee curve, bar 5")
    for tau in (0.1, 0.25, 0.5, 0.75, 0.9):
        plan, curve, sweeps = planning_ratio(tau)
        print(
            f"tau {tau:g}: plan {1e3 * plan:.1f} ms ({sweeps:.1f} sweeps), curve {1e3 * curve:.1f} ms, ratio {plan / curve:.1f}"
        )


if __name__ == "__main__":
    main()
