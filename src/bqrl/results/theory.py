"""Theory experiments as a Result: headlines, remarks and tables, all computed from the numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bqrl.results.charts import image
from bqrl.results.result import Result, Table, versions
from bqrl.results.theory_charts import theory_charts
from bqrl.results.words import listed, number, percent
from bqrl.study.theory_spec import EXPERIMENTS, TheorySpec

QUICK = "Quick run: few and short runs; these are not the numbers of the full experiments."
FLAT, LINEAR = 0.25, 0.9  # exponents of growth below which regret is called flat, and above which linear
RHO = "\N{GREEK SMALL LETTER RHO}"
NAMES = {"theorem 1": "Theorem 1", "corollary 1": "Corollary 1", "ours": "our bound"}

Found = Mapping[str, Any]
Rows = Iterator[dict[str, Any]]


def theory_result(spec: TheorySpec, found: Mapping[str, Found]) -> tuple[Result, list[str]]:
    """Theory experiments as a Result.

    Parameters
    ----------
    spec
        The settings.
    found
        Numbers of each experiment, as `run_theory` returns them or as the details of an earlier result hold them.

    Returns
    -------
    Result, list of str
        Without Altair the result has no charts, and a line says so.
    """
    found = {name: found[name] for name in EXPERIMENTS if name in found}
    tables, drawn, files, left_out = {}, {}, {}, []
    sentences = [QUICK] if spec.quick else []
    for name, one in found.items():
        sentences += [f"{name.capitalize()}. {headline(name, one)}.", *remarks(name, one)]
        for stem, rows in TABLES[name].items():
            titles = {"tau": "τ", "rho": RHO}
            tables[stem] = Table(list(rows(one)), titles, CAPTIONS[stem])
    try:
        titles = {name: headline(name, one) for name, one in found.items()}
        titles |= {"hard_growth": growth_title(found["hard"])} if "hard" in found else {}
        drawn = {name: chart.to_dict() for name, chart in theory_charts(found, titles).items()}
        files = {f"{name}.{kind}": image(spec, kind) for name, spec in drawn.items() for kind in ("png", "pdf")}
    except ImportError as error:
        drawn, left_out = {}, [str(error)]
    result = Result(
        kind="theory",
        title=(spec.theory.title or spec.theory.name) + (" (quick run)" if spec.quick else ""),
        settings={"name": spec.theory.name, "seed": spec.theory.seed, "quick": spec.quick, "experiments": list(found)},
        tables=tables,
        charts=drawn,
        sentences=sentences,
        details={
            "experiments": found,
            "seconds": sum(one["seconds"] for one in found.values()),
            "versions": versions(),
        },
        files=files,
    )
    return result, left_out


# -- sentences ------------------------------------------------------------------------------------------------------------


def headline(name: str, found: Found) -> str:
    """What an experiment shows, in one sentence."""
    return HEADLINES[name](found)


def remarks(name: str, found: Found) -> list[str]:
    """What a reader must know beside the headline."""
    return REMARKS[name](found)


def rough(x: float | None, *, least: bool = False) -> str:
    """A count for people; `least` if it may be larger.

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


def signed(slope: Mapping[str, float] | None) -> str:
    """An exponent with its standard error.

    >>> signed({"slope": 1.92477, "error": 0.25}), signed(None)
    ('1.92 ± 0.25', '(not fitted)')
    """
    if slope is None:
        return "(not fitted)"
    return f"{slope['slope'] + 0.0:.2f} ± {slope['error']:.2f}".replace("-0.00", "0.00")


def _coverage_title(found: Found) -> str:
    cases = found["cases"]
    promised = percent(cases[0]["promised"])
    broken = [case["label"] for case in cases if case["refuted"]]
    if broken:
        return f"The confidence sets hold in fewer runs than the promised {promised} on {listed(broken)}"
    share = min(case["share"] for case in cases)
    held = "in every run" if share == 1.0 else f"in at least {percent(round(share, 4))} of runs"
    spare = between([case["enough"] for case in cases])
    return f"The confidence sets held {held}; radii {spare} times as wide would keep the promise of {promised}"


def _bounds_title(found: Found) -> str:
    over = [
        f"{NAMES[statement]} on {case['label']}"
        for case in found["cases"]
        for statement in NAMES
        if any(not point["bounds"][statement]["holds"] for point in case["points"])
    ]
    if over:
        return f"Regret exceeds {listed(sorted(set(over)))}"
    last = [case["points"][-1] for case in found["cases"]]
    ratios = [point["bounds"]["ours"]["ratio"] for point in last if point["bounds"]["ours"]["ratio"] is not None]
    below = f", {between(ratios)} times below ours at T = {last[0]['episodes']}" if ratios else ""
    starts = [T for T in (finite(case["informative_from"]["ours"]) for case in found["cases"]) if T is not None]
    when = f"from {rough(min(starts))} episodes at the earliest" if starts else "beyond 1e90 episodes, if ever"
    return f"Regret stays under every bound{below}; ours is informative {when}"


def _hard_title(found: Found) -> str:
    lowest = min(
        point["regret"] / bound
        for one in found["learners"]
        for point, bound in zip(one["points"], found["lower"], strict=True)
    )
    fitted = [one for one in found["learners"] if one["slope"] is not None]
    if not fitted:
        return f"No learner goes below the lower bound; the closest stays {number(lowest, 2)} times above it"
    factor = 2.0 ** fitted[0]["slope"]["slope"]
    ends = (
        f"the closest learner stays {number(lowest, 2)} times above it" if lowest >= 1.0 else "one mean lies below it"
    )
    grows = f"Halving {RHO} multiplies the regret of {fitted[0]['label']} by {number(factor, 2)}"
    return f"{grows} and the proven lower bound by 4; {ends}"


def growth_title(found: Found) -> str:
    """Whose regret flattens in long runs and whose stays linear."""
    kinds: dict[str, list[str]] = {"flattens": [], "slows down": [], "stays linear": []}
    for one in found["learners"]:
        slope = one["growth"]["slope"]
        if slope is not None:
            kinds[growth_kind(**slope)].append(one["label"])
    parts = [f"{kind} for {listed(names)}" for kind, names in kinds.items() if names]
    return f"Beyond A / {RHO}² episodes regret {listed(parts)}" if parts else "Regret of long runs on the hard family"


def growth_kind(slope: float, error: float) -> str:
    """What an exponent of growth means, with two standard errors allowed for.

    >>> growth_kind(0.03, 0.03), growth_kind(0.4, 0.03), growth_kind(0.9, 0.1)
    ('flattens', 'slows down', 'stays linear')
    """
    most = slope + 2.0 * error
    return "flattens" if most < FLAT else "stays linear" if most > LINEAR else "slows down"


def _buffer_title(found: Found) -> str:
    cases = found["cases"]
    times = [case["margin"] / case["plateau"][1] for case in cases]
    least = "at least " if any(case["plateau"][0] < case["plateau"][1] for case in cases) else ""
    apart = f"{least}{between(times)} times the plateau" if max(times) > 1.0 + 1e-9 else "equal to the plateau"
    named = listed([rough(finite(case["clears"]["log"]["margin"])) for case in cases])
    return (
        f"Up to the margin {RHO}*, {apart} {RHO}τ, a buffer costs the best policy nothing; the logarithmic schedule gets there"
        f" after {named} episodes"
    )


def _knapsack_title(found: Found) -> str:
    ends = [(one["label"], one["support"][-1], one["lattice"][-1], one["histories"][-1]) for one in found["families"]]
    label, support, _, histories = max(ends, key=lambda end: (end[1] is None, end[1] or 0))
    some = [end for end in ends if end[2] < 0.5 * end[3] and end[0] not in (label, "all equal")] or ends[:1]
    small = max(some, key=lambda end: end[2])
    many = "too many returns to list" if support is None else f"{support:,} returns from {histories:,} histories"
    return f"Weights {label} give {many}; weights {small[0]} stay on a lattice of {small[2]:,} points"


def _coverage_remarks(found: Found) -> list[str]:
    lines = [
        f"{case['label']}: in {case['held']} of {case['runs']} runs the sets contained the true kernel in all {found['episodes']}"
        f" episodes; interval of the share {number(case['low'], 4)} to {number(case['high'], 4)}, promised"
        f" {number(case['promised'])}."
        for case in found["cases"]
    ]
    return [*lines, "The radii include a union over rows, visits and subsets of successors, which makes them wide."]


def _bounds_remarks(found: Found) -> list[str]:
    lines = []
    for case in found["cases"]:
        starts = "; ".join(f"{NAMES[name]} {rough(finite(T))}" for name, T in case["informative_from"].items())
        last = case["points"][-1]
        lines.append(
            f"{case['label']}, τ = {number(case['tau'])}: regret {number(last['regret'], 3)} (largest"
            f" {number(last['regret_most'], 3)}) after {last['episodes']} episodes, at most"
            f" {number(last['bounds']['ours']['trivial'], 4)} possible; below the trivial bound from T = {starts}."
        )
    informative = [
        point["bounds"][name]["informative"] for case in found["cases"] for point in case["points"] for name in NAMES
    ]
    if not any(informative):
        lines.append(
            "Every bound is vacuous at the lengths that were run: it exceeds what any learner can lose. The experiment checks"
            " that none is violated, and by how far."
        )
    return [
        *lines,
        "The bounds take the planner's gap as zero. The gap of the target planner is not measured; the mean model error, which"
        " contains it, is in the table beside the statistical terms.",
    ]


def _hard_remarks(found: Found) -> list[str]:
    lines = [
        f"{one['label']}: regret ~ (1/{RHO})^{signed(one['slope'])} at T = A / {RHO}²;"
        f" ~ T^{signed(one['growth']['slope'])} beyond, at {RHO} = {number(found['growth']['rho'])}."
        for one in found["learners"]
    ]
    return [
        f"{growth_title(found)}.",
        *lines,
        "Exponents with standard errors. A few runs decide the mean of a learner whose runs are either stuck or quick; its error"
        " is large.",
    ]


def _buffer_remarks(found: Found) -> list[str]:
    lines = []
    for case in found["cases"]:
        low, high = case["plateau"]
        known = number(high, 3) if low == high else f"between {number(low, 2)} and {number(high, 3)}"
        when = "; ".join(
            f"{name}: {rough(finite(one['margin']))} ({rough(finite(one['plateau']), least=low < high)})"
            for name, one in case["clears"].items()
        )
        lines.append(
            f"{case['label']}, τ = {number(case['tau'])}: {RHO}* = {number(case['margin'], 3)}, {RHO}τ {known}; episodes until a"
            f" schedule is below {RHO}* (below {RHO}τ): {when}."
        )
    return lines


def _knapsack_remarks(found: Found) -> list[str]:
    right = all(one["counted"] == one["subsets"] for one in found["families"])
    asked = max(one["decisions"] for one in found["families"])
    verdict = "all counts are right" if right else "NOT all counts are right"
    return [
        f"Quantile decisions alone, at most {asked} per family, count the subsets up to half the weight: {verdict}.",
        "A lattice helps if it is shorter than the list of histories; for weights as long as the horizon it never is.",
    ]


def finite(x: float | None) -> float | None:
    """`x`, or None where it is infinite: JSON knows no infinity."""
    return None if x is None or x == float("inf") else x


HEADLINES: dict[str, Callable[[Found], str]] = {
    "coverage": _coverage_title,
    "bounds": _bounds_title,
    "hard": _hard_title,
    "buffer": _buffer_title,
    "knapsack": _knapsack_title,
}
REMARKS: dict[str, Callable[[Found], list[str]]] = {
    "coverage": _coverage_remarks,
    "bounds": _bounds_remarks,
    "hard": _hard_remarks,
    "buffer": _buffer_remarks,
    "knapsack": _knapsack_remarks,
}

# -- tables ---------------------------------------------------------------------------------------------------------------


def _coverage(found: Found) -> Rows:
    for case in found["cases"]:
        yield {key: value for key, value in case.items() if key != "ratios"}


def _coverage_runs(found: Found) -> Rows:
    for case in found["cases"]:
        for i, ratio in enumerate(case["ratios"]):
            yield {"problem": case["problem"], "run": i, "largest_ratio": ratio, "inside": ratio <= 1.0 + 1e-12}


def _bounds(found: Found) -> Rows:
    for case in found["cases"]:
        for point in case["points"]:
            for statement, bound in point["bounds"].items():
                own = {key: value for key, value in point.items() if key not in ("bounds", "buffering")}
                yield (
                    {"problem": case["problem"], "tau": case["tau"], "statement": statement}
                    | own
                    | {"buffering_of_the_optimum": point["buffering"], "bound": bound["total"]}
                    | {f"bound_{key}": bound[key] for key in ("buffering", "statistical")}
                    | {key: bound[key] for key in ("trivial", "informative", "ratio", "holds")}
                    | {"informative_from": finite(case["informative_from"][statement])}
                )


def _bounds_lines(found: Found) -> Rows:
    for case in found["cases"]:
        for i, T in enumerate(case["episodes"]):
            lines = {name.replace(" ", "_"): values[i] for name, values in case["bounds"].items()}
            yield {"problem": case["problem"], "episodes": T, **lines, "trivial": case["trivial"][i]}


def _hard(found: Found) -> Rows:
    for one in found["learners"]:
        for i, point in enumerate(one["points"]):
            bound = {"lower_bound": found["lower"][i], "lower_rate": found["lower_rate"][i], "most": found["most"][i]}
            yield {"learner": one["label"], **point, **bound}


def _hard_growth(found: Found) -> Rows:
    growth = found["growth"]
    for one in found["learners"]:
        for i, T in enumerate(growth["episodes"]):
            yield {
                "learner": one["label"], "episodes": T, "regret": one["growth"]["regret"][i], "error": one["growth"]["error"][i],
                "lower_bound": growth["lower"][i], "ucb1_upper_bound": growth["upper"][i], "most": growth["most"][i],
            }  # fmt: skip


def _hard_slopes(found: Found) -> Rows:
    for one in found["learners"]:
        rho, late = (slope or {"slope": None, "error": None} for slope in (one["slope"], one["growth"]["slope"]))
        yield {
            "learner": one["label"],
            "exponent_of_inverse_rho": rho["slope"],
            "exponent_of_inverse_rho_error": rho["error"],
            "exponent_of_episodes": late["slope"],
            "exponent_of_episodes_error": late["error"],
        }


def _buffer(found: Found) -> Rows:
    for case in found["cases"]:
        two = case["two_sided"] or [None] * len(case["beta"])
        for i, beta in enumerate(case["beta"]):
            ends = {"one_sided_low": case["one_sided_low"][i], "one_sided_high": case["one_sided_high"][i]}
            yield {"problem": case["problem"], "tau": case["tau"], "beta": beta, "two_sided": two[i], **ends}


def _buffer_clears(found: Found) -> Rows:
    for case in found["cases"]:
        for schedule, episodes in case["clears"].items():
            yield {
                "problem": case["problem"], "tau": case["tau"], "schedule": schedule, "margin": case["margin"],
                "episodes_until_margin": finite(episodes["margin"]), "plateau_low": case["plateau"][0],
                "plateau_high": case["plateau"][1], "episodes_until_plateau_high": finite(episodes["plateau"]),
            }  # fmt: skip


def _knapsack(found: Found) -> Rows:
    for one in found["families"]:
        for i, horizon in enumerate(one["horizon"]):
            sizes = {key: one[key][i] for key in ("histories", "support", "lattice")}
            yield {"weights": one["label"], "horizon": horizon, **sizes}


TABLES: dict[str, dict[str, Callable[[Found], Rows]]] = {
    "coverage": {"coverage": _coverage, "coverage_runs": _coverage_runs},
    "bounds": {"bounds": _bounds, "bounds_lines": _bounds_lines},
    "hard": {"hard": _hard, "hard_growth": _hard_growth, "hard_slopes": _hard_slopes},
    "buffer": {"buffer": _buffer, "buffer_clears": _buffer_clears},
    "knapsack": {"knapsack": _knapsack},
}
CAPTIONS = {
    "coverage": "Confidence sets by problem: share of runs that they contained the true kernel throughout, with its interval.",
    "coverage_runs": "The largest ratio of l1 error to radius in every run.",
    "bounds": "Measured regret beside the bounds.",
    "bounds_lines": "The bounds up to large numbers of episodes.",
    "hard": f"Regret on the hard family by {RHO} at T = A / {RHO}²; error: standard error of the mean.",
    "hard_growth": "Regret in long runs on the hard family; error: standard error of the mean.",
    "hard_slopes": "Fitted exponents with their standard errors.",
    "buffer": "What a buffer costs: from the best policy (one-sided, bracketed) and from any policy (two-sided).",
    "buffer_clears": "The episode from which each schedule of buffers is below the margin and below the plateau.",
    "knapsack": "Possible returns by horizon: histories, full support, lattice.",
}
