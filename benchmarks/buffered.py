"""The buffered certificate in sweeps: value, proven upper bound and policy, against one policy sweep of the same problem."""

from __future__ import annotations

from _problems import dense, sparse
from timing import interleaved, machine, table

from bqrl.mdp.find_grid import returns_grid
from bqrl.planners.buffered import plan_buffered
from bqrl.planners.sweep import sweep

LEVELS = ((0.1, 0.03), (0.1, 0.1), (0.5, 0.05), (0.9, 0.2))


def main() -> None:
    print(machine())
    problems = {
        "dense S=50, A=5, H=20": dense(50, 5, 20, 5),
        "sparse S=500, A=4, 8 successors, H=20": sparse(500, 4, 8, 20, 5),
        "by outcome S=200, A=4, 8 successors, H=20": sparse(200, 4, 8, 20, 5, by_outcome=True),
    }
    rows = []
    for name, mdp in problems.items():
        columns = returns_grid(mdp)
        plans = [plan_buffered(mdp, tau, beta) for tau, beta in LEVELS]
        one, *certificates = interleaved(
            lambda mdp=mdp, columns=columns: sweep(mdp, columns),
            *(lambda mdp=mdp, tau=tau, beta=beta: plan_buffered(mdp, tau, beta) for tau, beta in LEVELS),
            repetitions=5,
        )
        for (tau, beta), plan, seconds in zip(LEVELS, plans, certificates, strict=True):
            gap = plan.upper - plan.value
            rows.append(
                (
                    f"{name}, {columns.size[0]} points",
                    tau,
                    beta,
                    one,
                    plan.details["sweeps"],
                    seconds,
                    seconds / one,
                    gap,
                )
            )
    table(
        "Buffered certificate (bar: the time of 40 sweeps)",
        ("problem", "tau", "beta", "one sweep", "sweeps done", "certificate", "in sweeps", "gap left"),
        rows,
    )


if __name__ == "__main__":
    main()
