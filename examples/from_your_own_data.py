"""From a table of transitions to a policy that you can print, save and follow.

The file has one line per possible outcome of an action in a state:

    idstatefrom,idaction,idstateto,probability,reward

pump.csv describes a pump over twelve weeks. States: 1 as new, 2 worn, 3 failing, 4 down; actions: 1 runs the pump, 2
services it. Running a worn pump earns 10 in most weeks, and in one week of ten the pump breaks down.

    python examples/from_your_own_data.py                                   # pump.csv
    python examples/from_your_own_data.py model.csv --horizon 30 --start 9 --tau 0.05 --out policy.csv
"""

import argparse
import csv
from pathlib import Path

import bqrl

HERE = Path(__file__).parent


def main(file: Path, horizon: int, start: str, tau: float, out: Path | None, quick: bool) -> None:
    mdp = bqrl.load(file, horizon=horizon, start=start)  # start: the id as the file writes it, hence a string
    print(mdp)
    plan = bqrl.solve(mdp, tau, secondary="mean")  # among the policies with the best quantile, the best mean
    neutral = bqrl.solve(mdp, tau, planner="expected")
    print(f"\n{plan}\n\n{plan.compare(neutral)}\n")

    rows = plan.policy.table(mdp)  # one row per decision that can occur, with the ids of the file
    places = [(row["stage"], row["state"]) for row in rows]
    split = [row for row, place in zip(rows, places, strict=True) if places.count(place) > 1]
    print(f"The policy has {len(rows)} rows. Rows in which the action depends on the rewards earned so far:")
    for row in split[:6]:
        earned = f"earned {row['earned_from']:g} to {row['earned_to']:g}"
        print(f"  stage {row['stage']}, state {row['state']}, {earned:<20} -> action {row['action']}")
    if out is not None:
        with out.open("w", newline="") as sheet:
            writer = csv.DictWriter(sheet, fieldnames=list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        print(f"wrote {out}")

    # Following the policy by hand: the memory is the amount still needed.
    memory, s = plan.policy.start(), mdp.start
    for h, (reward, s_next) in enumerate([(10.0, 0), (10.0, 1), (2.0, 0)][: 1 if quick else 3]):
        if file != HERE / "pump.csv":
            break
        action = plan.policy.act(h, s, memory)
        print(f"stage {h + 1}, state {mdp.state_label(s)}, {memory:g} still needed: action {mdp.action_label(action)}")
        memory, s = plan.policy.next(memory, h, s, action, reward, s_next), s_next


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", type=Path, default=HERE / "pump.csv")
    parser.add_argument("--horizon", type=int, default=12, help="number of stages")
    parser.add_argument("--start", default="1", help="first state, as the file writes it")
    parser.add_argument("--tau", type=float, default=0.1, help="share of runs that may end below the promise")
    parser.add_argument("--out", type=Path, help="write the policy to this .csv file")
    parser.add_argument("--quick", action="store_true", help="follow the policy for one stage only")
    main(**vars(parser.parse_args()))
