"""What a planner returns: a policy, what it is worth, and a proof of how far it can be from the optimum."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from bqrl.laws.bracket import LawBracket
from bqrl.laws.functionals import MASS_TOL, Margin, as_number
from bqrl.laws.law import Law
from bqrl.mdp.policy import Policy

if TYPE_CHECKING:
    from rich.table import Table

TIED = "a probability ties with the level up to rounding"  # said of plans that are not certain
GAP_TOL = 1e-9  # objective values this close, relative to the returns' size, are equal


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """A policy for the (buffered) tau-quantile and what is known of it."""

    tau: float
    beta: float  # 0: the plain quantile
    planner: str
    policy: Policy
    law: Law | LawBracket  # of the return under `policy` in the given problem
    value: float  # true objective value of `policy`; bracketed: proven lower value; robust: guaranteed value
    upper: float | None  # proven upper bound on the optimum over all policies, None where the planner proves none
    nominal: float  # objective value of `policy` in the given problem itself
    certain: bool  # whether floating-point error can not have changed the answer
    exact: bool  # False: value and upper are a bracket, because no exact grid of returns fits
    attitude: str = "nominal"  # "nominal", "optimistic" or "robust"
    seconds: float = 0.0
    notes: tuple[str, ...] = ()
    details: dict[str, Any] = field(default_factory=dict)  # what one planner alone knows: sweeps, widths, frontier

    @property
    def gap(self) -> float | None:
        """How far `value` can be from the optimum; None where the planner proves no upper bound."""
        return None if self.upper is None else max(0.0, self.upper - self.value)

    @property
    def margin(self) -> Margin:
        """How far the level lies inside its atom: tau - P(G < x) and P(G <= x) - tau at the quantile x."""
        if self.beta == 0.0 and self.attitude == "nominal" and isinstance(self.law, Law):
            return Margin(self.tau - self.law.shortfall(self.value), float(self.law.cdf(self.value)) - self.tau)
        return (self.law if isinstance(self.law, Law) else self.law.lower).margin(self.tau)

    @property
    def mean(self) -> float:
        """Mean return of the policy (a proven lower value where the law is bracketed)."""
        return (self.law if isinstance(self.law, Law) else self.law.lower).mean()

    @property
    def objective(self) -> str:
        """What was maximised, in words."""
        return objective_name(self.tau, self.beta)

    def compare(self, other: Plan) -> Comparison:
        """The two return laws side by side."""
        if not isinstance(other, Plan):
            raise TypeError(f"compare needs another plan, got {type(other).__name__}; solve makes one")
        return Comparison((self, other))

    def with_time(self, seconds: float) -> Plan:
        """The same plan with its running time."""
        return replace(self, seconds=seconds)

    def summary(self) -> dict[str, Any]:
        """The plan's numbers for JSON."""
        return {
            "objective": self.objective,
            "tau": self.tau,
            "beta": self.beta,
            "planner": self.planner,
            "attitude": self.attitude,
            "value": self.value,
            "upper": self.upper,
            "gap": self.gap,
            "nominal": self.nominal,
            "certain": self.certain,
            "exact": self.exact,
            "margin": {"below": self.margin.below, "above": self.margin.above},
            "mean": self.mean,
            "policy": self.policy.kind,
            "seconds": self.seconds,
            "notes": list(self.notes),
        }

    def rows(self) -> list[dict[str, Any]]:
        """One row with the numbers of `summary`."""
        flat = {key: value for key, value in self.summary().items() if key not in ("margin", "notes")}
        return [flat | {"margin_below": self.margin.below, "margin_above": self.margin.above}]

    def to_frame(self) -> Any:
        """The row as a pandas DataFrame."""
        from bqrl.results.views import frame

        return frame(self.rows())

    def chart(self) -> Any:
        """The law of the return, and the guarantee curve if there is one, as an Altair chart; requires "plots"."""
        from bqrl.results.views import plan_view

        return plan_view(self)

    def _repr_html_(self) -> str:
        from bqrl.results.views import plan_html

        return plan_html(self)

    def __str__(self) -> str:
        lines = [f"{self.objective} by {self.planner}" + ("" if self.attitude == "nominal" else f", {self.attitude}")]
        lines.append(f"  value    {self.value:.6g}" + ("" if self.exact else "  (proven lower value)"))
        if self.upper is not None:
            tight = (
                "  (optimal)"
                if self.attitude == "nominal"
                and self.gap is not None
                and self.gap <= GAP_TOL * max(1.0, abs(self.value))
                else ""
            )
            lines.append(f"  upper    {self.upper:.6g}{tight}")
        if self.attitude != "nominal":
            lines.append(f"  nominal  {self.nominal:.6g}  (the same policy in the model as given)")
        below, above = self.margin
        lines.append(f"  margin   {below:.3g} below, {above:.3g} above the level {self.tau:g}")
        lines.append(f"  certain  {'yes' if self.certain else 'no: a probability ties with the level up to rounding'}")
        lines.append(f"  mean     {self.mean:.6g}")
        lines.append(f"  policy   {self.policy!r}")
        lines.append(f"  time     {self.seconds:.3g} s")
        lines += [f"  note     {note}" for note in self.notes]
        return "\n".join(lines)

    def __repr__(self) -> str:
        upper = "" if self.upper is None else f", upper={self.upper:.6g}"
        return f"Plan({self.objective}: value={self.value:.6g}{upper}, {self.policy.kind} policy by {self.planner})"


@dataclass(frozen=True, slots=True, eq=False)
class Comparison:
    """Return laws of several plans beside each other; prints as a table."""

    plans: tuple[Plan, ...]
    levels: tuple[float, ...] = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99)

    def rows(self) -> list[dict[str, Any]]:
        """One row a statistic: its name and its value under each plan (lower values where a law is bracketed)."""
        laws = [plan.law if isinstance(plan.law, Law) else plan.law.lower for plan in self.plans]
        rows = [{"statistic": "mean", "values": [law.mean() for law in laws]}]
        rows += [
            {"statistic": f"{tau:g}-quantile", "values": [law.quantile(tau) for law in laws]} for tau in self.levels
        ]
        ends = [("worst", 0), ("best", -1)]
        return rows + [{"statistic": name, "values": [float(law.values[i]) for law in laws]} for name, i in ends]

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame, one column per plan."""
        from bqrl.results.views import comparison_frame

        return comparison_frame(self)

    def _repr_html_(self) -> str:
        from bqrl.results.views import comparison_html

        return comparison_html(self)

    def __rich__(self) -> Table:
        from rich.table import Table

        table = Table(title="Return")
        table.add_column("statistic")
        for plan in self.plans:
            table.add_column(_heading(plan), justify="right")
        for row in self.rows():
            table.add_row(row["statistic"], *(f"{value:.6g}" for value in row["values"]))
        return table

    def __str__(self) -> str:
        head = ["statistic", *map(_heading, self.plans)]
        body = [[row["statistic"], *(f"{value:.6g}" for value in row["values"])] for row in self.rows()]
        widths = [max(len(line[i]) for line in [head, *body]) for i in range(len(head))]
        return "\n".join(
            "  ".join(
                cell.ljust(w) if i == 0 else cell.rjust(w) for i, (cell, w) in enumerate(zip(line, widths, strict=True))
            )
            for line in [head, *body]
        )


def _heading(plan: Plan) -> str:
    what = plan.planner if plan.attitude == "nominal" else f"{plan.attitude} {plan.planner}"
    return f"{what}, {plan.objective}" + (" (lower values)" if isinstance(plan.law, LawBracket) else "")


def objective_name(tau: float, beta: float) -> str:
    """What is maximised, in words."""
    if beta == 0.0:
        return f"{tau:g}-quantile"
    return f"CVaR at {tau:g}" if beta == tau else f"{tau:g}-quantile buffered by {beta:g}"


def objective_value(law: Law, tau: float, beta: float) -> float:
    """The (buffered) tau-quantile of a law."""
    return law.quantile(tau) if beta == 0.0 else law.buffered_quantile(tau, beta)


def level_error(law: Law, tau: float, beta: float, gamma: float) -> float:
    """How far the buffered quantile of a law can be off: its masses have a relative error of `gamma`.

    Where a level comes as close as MASS_TOL to a step of the distribution function, it was taken for level with it.
    """
    distances = np.abs(np.cumsum(law.probabilities)[:-1] - np.array([[tau - beta], [tau]]))
    taken = MASS_TOL if np.any(distances <= 2 * MASS_TOL) else 0.0
    return (gamma + taken) * max(1.0, float(np.ptp(law.values))) / beta


def check_levels(tau: Any, beta: Any) -> tuple[float, float]:
    """The levels as floats, tau in (0, 1) and beta in [0, tau]; else one clear line."""
    for name, number in (("tau", tau), ("beta", beta)):
        if isinstance(number, bool):
            raise TypeError(f"{name} must be a number, got {number!r}")
    tau, beta = as_number(tau, "tau", "a number"), as_number(beta, "beta", "a number")
    if not 0.0 < tau < 1.0:
        raise ValueError(f"tau must lie strictly between 0 and 1, got {tau:g}")
    if not 0.0 <= beta <= tau:
        raise ValueError(
            f"beta must lie in [0, tau] = [0, {tau}], got {beta}; beta = tau is CVaR, beta = 0 the quantile"
        )
    return tau, beta
