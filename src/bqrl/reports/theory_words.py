"""What the theory experiments show, in one sentence each, computed from their numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bqrl.reports.words import number, percent

FLAT, LINEAR = (
    0.25,
    0.9,
)  # exponents of growth below and above which regret counts as flat or cannot be told from linear
RHO = "\N{GREEK SMALL LETTER RHO}"
NAMES = {"theorem 1": "Theorem 1", "corollary 1": "Corollary 1", "ours": "our bound"}

Found = Mapping[str, Any]


def headline(name: str, found: Found) -> str:
    """The title of an experiment."""
    return HEADLINES[name](found)


def rough(x: float | None, *, least: bool = False) -> str:
    """A count as people say it; `least` where it may be larger.

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


def between(values: Sequence[float], digits: int = 2) -> str:
    """The range of some numbers in words.

    >>> between([0.5, 0.64]), between([3.0, 3.0])
    ('0.5 to 0.64', '3')
    """
    low, high = (number(x, digits) for x in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def listed(names: Sequence[str]) -> str:
    """Names as a list in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def coverage_title(found: Found) -> str:
    """Whether the sets hold as often as promised, and how much narrower they could be."""
    cases = found["cases"]
    promised = percent(cases[0]["promised"])
    broken = [case["label"] for case in cases if case["refuted"]]
    if broken:
        return f"The confidence sets hold in fewer runs than the promised {promised} on {listed(broken)}"
    share = min(case["share"] for case in cases)
    held = "in every run" if share == 1.0 else f"in {percent(round(share, 4))} of runs or more"
    spare = between([case["enough"] for case in cases])
    return f"The confidence sets held {held}; radii {spare} times as wide would keep the promise of {promised}"


def bounds_title(found: Found) -> str:
    """Whether regret stays below, by how much, and from where the bounds say something."""
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
    below = f", {rough_range(ratios)} times below ours at T = {last[0]['episodes']}" if ratios else ""
    starts = [case["informative_from"]["ours"] for case in found["cases"]]
    first = min((x for x in starts if x is not None), default=None)
    when = f"from {rough(first)} episodes at the earliest" if first is not None else "beyond 1e90 episodes, if ever"
    return f"Regret stays under every bound{below}; ours says more than the trivial bound {when}"


def rough_range(values: Sequence[float]) -> str:
    """The range of some counts in words."""
    low, high = (number(float(f"{x:.2g}")) for x in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def hard_title(found: Found) -> str:
    """By what factor regret grows as rho halves, beside the proven one."""
    lowest = min(
        point["regret"] / bound
        for one in found["learners"]
        for point, bound in zip(one["points"], found["lower"], strict=True)
    )
    fitted = [one for one in found["learners"] if one["slope"] is not None]
    if not fitted:
        return f"No learner goes below the lower bound; the closest stays {number(lowest, 2)} times above it"
    first = fitted[0]
    factor = 2.0 ** first["slope"]["slope"]
    ends = (
        f"the closest learner stays {number(lowest, 2)} times above it" if lowest >= 1.0 else "one mean lies below it"
    )
    return (
        f"Halving {RHO} multiplies the regret of {first['label']} by {number(factor, 2)} and the proven lower bound by 4;"
        f" {ends}"
    )


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
    """What an exponent of growth means, two standard errors allowed for.

    >>> growth_kind(0.03, 0.03), growth_kind(0.4, 0.03), growth_kind(0.9, 0.1)
    ('flattens', 'slows down', 'stays linear')
    """
    most = slope + 2.0 * error
    return "flattens" if most < FLAT else "stays linear" if most > LINEAR else "slows down"


def buffer_title(found: Found) -> str:
    """Up to which buffer the best policy pays nothing, against the plateau."""
    cases = found["cases"]
    times = [case["margin"] / case["plateau"][1] for case in cases]
    least = "at least " if any(case["plateau"][0] < case["plateau"][1] for case in cases) else ""
    apart = f"{least}{rough_range(times)} times the plateau" if max(times) > 1.0 + 1e-9 else "equal to the plateau"
    logs = [case["clears"]["log"]["margin"] for case in cases]
    named = listed([rough(x) for x in logs])
    return (
        f"Up to the margin {RHO}*, {apart} {RHO}τ, a buffer costs the best policy nothing;"
        f" the logarithmic one is there after {named} episodes"
    )


def knapsack_title(found: Found) -> str:
    """How many returns there are with long and with short weights."""
    ends = [(one["label"], one["support"][-1], one["lattice"][-1], one["histories"][-1]) for one in found["families"]]
    label, support, _, histories = max(ends, key=lambda end: (end[1] is None, end[1] or 0))
    some = [end for end in ends if end[2] < 0.5 * end[3] and end[0] not in (label, "all equal")] or ends[:1]
    small = max(some, key=lambda end: end[2])
    many = "too many returns to list" if support is None else f"{support:,} returns from {histories:,} histories"
    return f"Weights {label} give {many}; weights {small[0]} stay on a lattice of {small[2]:,} points"


HEADLINES = {
    "coverage": coverage_title,
    "bounds": bounds_title,
    "hard": hard_title,
    "buffer": buffer_title,
    "knapsack": knapsack_title,
}


def remarks(name: str, found: Found) -> list[str]:
    """What a reader must know beside the headline."""
    return REMARKS[name](found)


def _coverage_remarks(found: Found) -> list[str]:
    lines = [
        f"{case['label']}: {case['kept']} of {case['runs']} runs kept the true kernel inside in all {found['episodes']} episodes;"
        f" interval of the share {number(case['low'], 4)} to {number(case['high'], 4)}, promised {number(case['promised'])}"
        for case in found["cases"]
    ]
    return [
        *lines,
        "The radii pay for a union over rows, visits and subsets of successors, which is why they are wide.",
    ]


def _bounds_remarks(found: Found) -> list[str]:
    lines = []
    for case in found["cases"]:
        starts = "; ".join(f"{NAMES[name]} {rough(T)}" for name, T in case["informative_from"].items())
        last = case["points"][-1]
        lines.append(
            f"{case['label']}, tau {number(case['tau'])}: regret {number(last['regret'], 3)}"
            f" (most {number(last['regret_most'], 3)}) after {last['episodes']} episodes that can cost"
            f" {number(last['bounds']['ours']['trivial'], 4)}; below the trivial bound from T = {starts}"
        )
    vacuous = not any(
        point["bounds"][name]["informative"] for case in found["cases"] for point in case["points"] for name in NAMES
    )
    if vacuous:
        lines.append(
            "Every bound is vacuous at the lengths that were run: it exceeds what any learner can lose. What can be checked here"
            " is that none is violated, and by how far."
        )
    return [
        *lines,
        "The bounds take the planner's gap as zero. That of the target planner is not measured; the mean model error that it"
        " enters is in bounds.csv beside the statistical terms.",
    ]


def _hard_remarks(found: Found) -> list[str]:
    lines = [growth_title(found) + "."]
    for one in found["learners"]:
        slope, growth = one["slope"], one["growth"]["slope"]
        lines.append(
            f"{one['label']}: regret ~ (1/{RHO})^{signed(slope)} at T = A / {RHO}²; ~ T^{signed(growth)} beyond, at {RHO} ="
            f" {number(found['growth']['rho'])}"
        )
    return [
        *lines,
        "Exponents with standard errors. A learner whose runs are either stuck or quick has a mean that few runs decide; its"
        " error says so.",
    ]


def signed(slope: Mapping[str, float] | None) -> str:
    """An exponent with its error.

    >>> signed({"slope": 1.92477, "error": 0.25}), signed(None)
    ('1.92 ± 0.25', '(not fitted)')
    """
    if slope is None:
        return "(not fitted)"
    return f"{slope['slope'] + 0.0:.2f} ± {slope['error']:.2f}".replace("-0.00", "0.00")


def _buffer_remarks(found: Found) -> list[str]:
    lines = []
    for case in found["cases"]:
        low, high = case["plateau"]
        known = number(high, 3) if low == high else f"between {number(low, 2)} and {number(high, 3)}"
        when = "; ".join(
            f"{name}: {rough(one['margin'])} ({rough(one['plateau'], least=low < high)})"
            for name, one in case["clears"].items()
        )
        lines.append(
            f"{case['label']}, tau {number(case['tau'])}: {RHO}* = {number(case['margin'], 3)}, {RHO}τ {known};"
            f" episodes until a schedule is below {RHO}* (below {RHO}τ): {when}"
        )
    return lines


def _knapsack_remarks(found: Found) -> list[str]:
    right = all(one["counted"] == one["subsets"] for one in found["families"])
    asked = max(one["decisions"] for one in found["families"])
    verdict = "all rightly" if right else "NOT all rightly"
    return [
        f"Quantile decisions alone, at most {asked} a family, count the subsets up to half the weight: {verdict}.",
        "A lattice helps where it is shorter than the list of histories; for weights as long as the horizon it never is.",
    ]


REMARKS = {
    "coverage": _coverage_remarks,
    "bounds": _bounds_remarks,
    "hard": _hard_remarks,
    "buffer": _buffer_remarks,
    "knapsack": _knapsack_remarks,
}
