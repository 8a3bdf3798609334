"""Theory experiments as a Result: one view per experiment with its headline, remarks, captions and charts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from bqrl.results import theory_charts as charts
from bqrl.results.charts import specified
from bqrl.results.result import Result, Table, versions
from bqrl.results.words import listed, number, percent
from bqrl.study.theory_spec import EXPERIMENTS, TheorySpec

QUICK = "Quick run: few and short runs; these are not the numbers of the full experiments."
FLAT, LINEAR = 0.25, 0.9  # exponents of growth below which regret is called flat, and above which linear
RHO = charts.RHO
TITLES = {"tau": "τ", "rho": RHO}  # of columns

Found = Mapping[str, Any]


class View(NamedTuple):
    """How an experiment is shown."""

    headline: Callable[[Found], str]  # what it shows, in one sentence
    remarks: Callable[[Found], list[str]]  # what a reader must know beside the headline
    captions: Mapping[str, str]  # of its tables
    charts: Mapping[str, Callable[[Found, str], Any]]


def theory_result(spec: TheorySpec, found: Mapping[str, Found]) -> tuple[Result, list[str]]:
    """Theory experiments as a Result.

    Parameters
    ----------
    spec
        The settings.
    found
        Tables and facts of each experiment, as `run_theory` returns them or as the details of an earlier result hold them.

    Returns
    -------
    Result, list of str
        Without Altair the result has no charts, and a line says so.
    """
    found = {name: found[name] for name in EXPERIMENTS if name in found}
    tables: dict[str, Table] = {}
    sentences = [QUICK] if spec.quick else []
    for name, one in found.items():
        view = VIEWS[name]
        sentences += [f"{name.capitalize()}. {view.headline(one)}.", *view.remarks(one)]
        tables |= {stem: Table(one["tables"][stem], TITLES, caption) for stem, caption in view.captions.items()}
    drawn = specified(lambda: drawings(found))
    seconds = sum(one["seconds"] for one in found.values())
    result = Result(
        kind="theory",
        title=(spec.theory.title or spec.theory.name) + (" (quick run)" if spec.quick else ""),
        settings={"name": spec.theory.name, "seed": spec.theory.seed, "quick": spec.quick, "experiments": list(found)},
        tables=tables,
        charts=drawn.specs,
        sentences=sentences,
        details={"experiments": found, "seconds": seconds, "versions": versions()},
        files=drawn.files,
    )
    return result, drawn.left_out


def drawings(found: Mapping[str, Found]) -> dict[str, Any]:
    """The charts of some experiments by name, each under the headline of its experiment; long runs have their own."""
    return {
        stem: draw(one, growth_headline(one) if stem == "hard_growth" else VIEWS[name].headline(one))
        for name, one in found.items()
        for stem, draw in VIEWS[name].charts.items()
    }


# -- numbers in sentences -------------------------------------------------------------------------------------------------


def rough(x: float | None, *, least: bool = False) -> str:
    """A count for people; `least` if it may be larger, None if it is infinite.

    >>> rough(146), rough(489529), rough(11018226), rough(3.2e12), rough(None)
    ('146', '490,000', '11 million', '3.2e+12', 'more than 1e90')
    """
    if x is None or x > 1e90:
        return "more than 1e90"
    if x >= 1e9:
        text = f"{x:.2g}"
    elif x >= 1e6:
        text = f"{number(float(f'{x:.2g}') / 1e6)} million"
    else:
        text = number(x) if x < 1e4 else f"{int(float(f'{x:.2g}')):,}"
    return f"at least {text}" if least else text


def between(values: Sequence[float]) -> str:
    """The range of some numbers to two digits.

    >>> between([0.5, 0.64]), between([3.0, 3.0])
    ('0.5 to 0.64', '3')
    """
    low, high = (number(float(f"{x:.2g}")) for x in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def signed(row: Mapping[str, Any], name: str) -> str:
    """An exponent of a row with its standard error.

    >>> signed({"exponent_of_x": 1.92477, "exponent_of_x_error": 0.25}, "x"), signed({"exponent_of_x": None}, "x")
    ('1.92 ± 0.25', '(not fitted)')
    """
    slope = row[f"exponent_of_{name}"]
    if slope is None:
        return "(not fitted)"
    return f"{slope + 0.0:.2f} ± {row[f'exponent_of_{name}_error']:.2f}".replace("-0.00", "0.00")


def _cases(found: Found, table: str) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """The cases of an experiment as "problem, level", each with its rows of a table."""
    return [
        (
            f"{case['label']}, τ = {number(case['tau'])}",
            [row for row in found["tables"][table] if all(row[key] == case[key] for key in ("problem", "tau"))],
        )
        for case in found["cases"]
    ]


# -- headlines and remarks ------------------------------------------------------------------------------------------------


def _coverage_headline(found: Found) -> str:
    cases = found["tables"]["coverage"]
    promised = percent(cases[0]["promised"])
    broken = [case["label"] for case in cases if case["refuted"]]
    if broken:
        return f"The confidence sets hold in fewer runs than the promised {promised} on {listed(broken)}"
    share = min(case["share"] for case in cases)
    held = "in every run" if share == 1.0 else f"in at least {percent(round(share, 4))} of runs"
    enough = between([case["enough"] for case in cases])
    return f"The confidence sets held {held}; radii {enough} times as wide would give the promised {promised}"


def _coverage_remarks(found: Found) -> list[str]:
    lines = [
        f"{case['label']}: in {case['held']} of {case['runs']} runs the sets contained the true kernel in all {found['episodes']}"
        f" episodes; confidence interval of the share {number(case['low'], 4)} to {number(case['high'], 4)}, promised"
        f" {number(case['promised'])}."
        for case in found["tables"]["coverage"]
    ]
    return [*lines, "The radii include a union over rows, visits and subsets of successors, which makes them wide."]


def _bounds_headline(found: Found) -> str:
    cases = _cases(found, "bounds")
    over = {f"{charts.BOUNDS[row['statement']]} on {name}" for name, rows in cases for row in rows if not row["holds"]}
    if over:
        return f"Regret exceeds {listed(sorted(over))}"
    ours = [next(row for row in reversed(rows) if row["statement"] == "ours") for _, rows in cases]  # the longest runs
    ratios = [row["ratio"] for row in ours if row["ratio"] is not None]
    below = f", {between(ratios)} times below ours at T = {ours[0]['episodes']}" if ratios else ""
    starts = [row["informative_from"] for row in ours if row["informative_from"] is not None]
    when = f"from {rough(min(starts))} episodes at the earliest" if starts else "beyond 1e90 episodes, if ever"
    return f"Regret stays under every bound{below}; ours is informative {when}"


def _bounds_remarks(found: Found) -> list[str]:
    lines = []
    for name, rows in _cases(found, "bounds"):
        last, starts = rows[-1], {charts.BOUNDS[row["statement"]]: rough(row["informative_from"]) for row in rows}
        lines.append(
            f"{name}: regret {number(last['regret'], 3)} (largest {number(last['regret_most'], 3)}) after {last['episodes']}"
            f" episodes, at most {number(last['trivial'], 4)} possible; below the trivial bound from T ="
            f" {'; '.join(f'{bound} {T}' for bound, T in starts.items())}."
        )
    if not any(row["informative"] for row in found["tables"]["bounds"]):
        lines.append(
            "Every bound is vacuous at these numbers of episodes: it exceeds what any learner can lose. The experiment checks"
            " that no bound is violated, and by how far regret stays below it."
        )
    return [
        *lines,
        "The bounds assume a planner gap of zero. The gap of the target planner is not measured; the mean model error, which"
        " contains it, is in the table beside the statistical terms.",
    ]


def _hard_headline(found: Found) -> str:
    lowest = min(row["regret"] / row["lower_bound"] for row in found["tables"]["hard"])
    closest = (
        f"the closest learner stays {number(lowest, 2)} times above it" if lowest >= 1.0 else "one mean lies below it"
    )
    fitted = [row for row in found["tables"]["hard_slopes"] if row["exponent_of_inverse_rho"] is not None]
    if not fitted:
        return f"Regret on the hard family and its proven lower bound: {closest}"
    factor = number(2.0 ** fitted[0]["exponent_of_inverse_rho"], 2)
    return f"Halving {RHO} multiplies the regret of {fitted[0]['learner']} by {factor} and the proven lower bound by 4; {closest}"


def growth_headline(found: Found) -> str:
    """Whose regret flattens in long runs and whose stays linear."""
    kinds: dict[str, list[str]] = {"flattens": [], "slows down": [], "stays linear": []}
    for row in found["tables"]["hard_slopes"]:
        if row["exponent_of_episodes"] is not None:
            kinds[growth_kind(row["exponent_of_episodes"], row["exponent_of_episodes_error"])].append(row["learner"])
    parts = [f"{kind} for {listed(names)}" for kind, names in kinds.items() if names]
    return f"Beyond A / {RHO}² episodes regret {listed(parts)}" if parts else "Regret of long runs on the hard family"


def growth_kind(slope: float, error: float) -> str:
    """What an exponent of growth means, with two standard errors allowed for.

    >>> growth_kind(0.03, 0.03), growth_kind(0.4, 0.03), growth_kind(0.9, 0.1)
    ('flattens', 'slows down', 'stays linear')
    """
    most = slope + 2.0 * error
    return "flattens" if most < FLAT else "stays linear" if most > LINEAR else "slows down"


def _hard_remarks(found: Found) -> list[str]:
    lines = [
        f"{row['learner']}: regret ~ (1/{RHO})^{signed(row, 'inverse_rho')} at T = A / {RHO}²; ~ T^{signed(row, 'episodes')}"
        f" beyond, at {RHO} = {number(found['growth_rho'])}."
        for row in found["tables"]["hard_slopes"]
    ]
    note = "Exponents with standard errors. If the runs of a learner are either stuck or quick, a few of them determine its mean."
    return [f"{growth_headline(found)}.", *lines, note]


def _buffer_headline(found: Found) -> str:
    cases = [row for row in found["tables"]["buffer_clears"] if row["schedule"] == "log"]
    times = [row["margin"] / row["plateau_high"] for row in cases]
    least = "at least " if any(row["plateau_low"] < row["plateau_high"] for row in cases) else ""
    apart = f"{least}{between(times)} times the plateau" if max(times) > 1.0 + 1e-9 else "equal to the plateau"
    episodes = listed([rough(row["episodes_until_margin"]) for row in cases])
    return (
        f"Up to the margin {RHO}*, {apart} {RHO}τ, a buffer costs the best policy nothing; the logarithmic schedule reaches the"
        f" margin after {episodes} episodes"
    )


def _buffer_remarks(found: Found) -> list[str]:
    lines = []
    for name, rows in _cases(found, "buffer_clears"):
        margin, low, high = (rows[0][key] for key in ("margin", "plateau_low", "plateau_high"))
        known = number(high, 3) if low == high else f"between {number(low, 2)} and {number(high, 3)}"
        when = "; ".join(
            f"{row['schedule']}: {rough(row['episodes_until_margin'])}"
            f" ({rough(row['episodes_until_plateau_high'], least=low < high)})"
            for row in rows
        )
        until = f"episodes until a schedule is below {RHO}* (below {RHO}τ)"
        lines.append(f"{name}: {RHO}* = {number(margin, 3)}, {RHO}τ {known}; {until}: {when}.")
    return lines


def _knapsack_headline(found: Found) -> str:
    ends = list({row["weights"]: row for row in found["tables"]["knapsack"]}.values())  # the last row of each family
    large = max(ends, key=lambda row: (row["support"] is None, row["support"] or 0))
    others = [row for row in ends if row["weights"] not in (large["weights"], "all equal")]
    short = [row for row in others if row["lattice"] < 0.5 * row["histories"]] or ends[:1]
    small = max(short, key=lambda row: row["lattice"])
    support = "too many returns to list" if large["support"] is None else f"{large['support']:,} returns"
    return (
        f"Weights {large['weights']} give {support} from {large['histories']:,} histories; weights {small['weights']} stay on a"
        f" lattice of {small['lattice']:,} points"
    )


def _knapsack_remarks(found: Found) -> list[str]:
    right = all(one["counted"] == one["subsets"] for one in found["families"])
    asked = max(one["decisions"] for one in found["families"])
    return [
        f"Quantile decisions alone, at most {asked} per family, count the subsets up to half the weight:"
        f" {'all counts are right' if right else 'NOT all counts are right'}.",
        "A lattice helps if it has fewer points than there are histories; with weights of as many bits as stages it has more.",
    ]


VIEWS = {
    "coverage": View(_coverage_headline, _coverage_remarks, {
        "coverage": "Share of runs in which the confidence sets contained the true kernel throughout, with its interval.",
        "coverage_runs": "The largest ratio of l1 error to radius in every run.",
    }, {"coverage": charts.coverage_chart}),
    "bounds": View(_bounds_headline, _bounds_remarks, {
        "bounds": "Measured regret beside the bounds.",
        "bounds_lines": "The bounds up to large numbers of episodes.",
    }, {"bounds": charts.bounds_chart}),
    "hard": View(_hard_headline, _hard_remarks, {
        "hard": f"Regret on the hard family by {RHO} at T = A / {RHO}²; error: standard error of the mean.",
        "hard_growth": "Regret in long runs on the hard family; error: standard error of the mean.",
        "hard_slopes": "Fitted exponents with their standard errors.",
    }, {"hard": charts.hard_chart, "hard_growth": charts.growth_chart}),
    "buffer": View(_buffer_headline, _buffer_remarks, {
        "buffer": "Cost of a buffer: to the best policy (one-sided, bracketed) and to any policy (two-sided).",
        "buffer_clears": "The episode from which each schedule of buffers is below the margin and below the plateau.",
    }, {"buffer": charts.buffer_chart}),
    "knapsack": View(_knapsack_headline, _knapsack_remarks, {
        "knapsack": "Possible returns by horizon: histories, full support, lattice.",
    }, {"knapsack": charts.knapsack_chart}),
}  # fmt: skip
