"""Numbers as text, and sentences about plans, their notes and learning runs.

A quantile x at level tau promises P(G >= x) > 1 - tau, hence "in 9 of 10 runs you get at least x" at tau = 0.1. A CVaR is
a mean over the worst runs, a buffered quantile a mean between two levels; each has its own sentence. `remark` puts each fact of
`planners/facts.py` into words.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from bqrl.checks import bad_value, exact_text, is_one_line, one_line
from bqrl.display import PROVEN, TINY, count_of, format_cells, format_number, percent, plural, short_percent
from bqrl.display import runs as share_of
from bqrl.errors import ArgumentError
from bqrl.laws.law import Law
from bqrl.laws.objectives import Mean, Objective, Quantile, quantile_objective
from bqrl.logs.estimate import BY_STAGE, POOLED
from bqrl.planners import facts
from bqrl.planners.outlook import Outlook
from bqrl.planners.plan import GAP_TOL, Plan, equal_values, fragility
from bqrl.planners.solve import read_objective
from bqrl.planners.stress import Stress
from bqrl.policies.tables import COLUMNS
from bqrl.results.result import ResultTable

if TYPE_CHECKING:  # plans are shown without importing the learners
    from bqrl.study.scores import Experiment

SENTENCE_DIGITS = 4
UNKNOWN = "The environment does not expose its transition probabilities, so exact promises and gaps are not known."
WHERE = {"nominal": "", "optimistic": "in the model as given, ", "robust": "with any probabilities within the radius, "}
CLEAR = {True: " (a clear difference at 95 % confidence)", False: " (no clear difference at 95 % confidence)", None: ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of a problem: its title, the unit of its returns, and what users call a stage, a run and so on."""

    title: str
    unit: str = ""
    stage: str = "stage"
    run: str = "run"
    total: str = "return"  # what a run brings
    state: str = "state"
    action: str = "action"
    command: bool = False  # remedies name options of the command line instead of arguments of the library

    def __post_init__(self) -> None:
        for option, name in NAMES.items():
            text = getattr(self, name)
            if not is_one_line(text) or not (text.strip() or option in ("title", "unit")):
                rule = "must be one line of text without control characters"
                raise ArgumentError(f"{option} {rule}, got {one_line(text)}; remove them", name=option, value=text)
        if self.stage in COLUMNS:
            rule, remedy = "not be a column of the policy's table", "choose another word"
            raise bad_value("stage_name", self.stage, rule, remedy=remedy)

    count = staticmethod(count_of)  # "1 state", "3 states"

    @classmethod
    def of(cls, model: Any, chosen: Mapping[str, str | None] | None = None, **default: Any) -> Words:
        """The words of a model or a plan; those `chosen` by option win, and the model's win over the `default` by field."""
        unit, own = getattr(model, "units", None), getattr(getattr(model, "mdp", model), "words", None)
        found = {"title": "", **default} | ({"unit": unit} if isinstance(unit, str) else {})
        if isinstance(own, dict):
            found |= {"total" if key == "return" else key: text for key, text in own.items()}
        return cls(**found | {NAMES[name]: text for name, text in (chosen or {}).items() if text is not None})

    @property
    def runs(self) -> str:
        """Several runs, such as "patients"."""
        return plural(self.run) or self.run

    def option(self, name: str, value: object = "") -> str:
        """An argument with its value as the reader would write it: "at_least=9" in Python, "--at-least 9" for the command."""
        if self.command:
            return COMMAND_ONLY.get((name, value)) or f"--{name.replace('_', '-')} {value}".rstrip()
        return name if value == "" else f"{name}={value!r}"

    def share(self, tau: float, usual: str = "runs") -> str:
        """The share 1 - tau of runs, such as "9 of 10 patients"; `usual` replaces "runs" if runs have no name of their own."""
        return share_of(tau, usual if self.run == "run" else self.runs)

    def amount(self, text: str) -> str:
        """A number with its unit; a unit of more than two words is shown on axes only."""
        return f"{text} {self.unit}" if self._has_short_unit else text

    def value(self, objective: Objective, value: float, direction: int = -1) -> str:
        """A value of an objective with its unit, rounded down by default; probabilities have none."""
        text = format_number(value, direction=direction)
        return text if objective.probability else self.amount(text)

    def titled(self, title: str) -> str:
        """Title of a column of amounts, under the same rule."""
        return self.axis(title) if self._has_short_unit else title

    def axis(self, title: str) -> str:
        """Title of an axis of amounts."""
        return f"{title} ({self.unit})" if self.unit else title

    @property
    def _has_short_unit(self) -> bool:
        return 0 < len(self.unit.split()) <= 2

    def promise(self, objective: Objective, amount: str, usual: str = "runs") -> str:
        """Part of a sentence that states the value of an objective; `usual` replaces "runs" if runs have no name of their own."""
        return objective.promise(amount, usual if self.run == "run" else self.runs, self.total)

    def objective_axis(self, objective: Objective) -> str:
        """Title of an axis of values of an objective, for episodes."""
        title = objective.axis("episodes" if self.run == "run" else self.runs, self.total)
        return title if objective.probability else self.axis(title)

    def bracket(self, error: float, score_error: float = 0.0) -> str:
        """How far the optimum and, if that is more, the quantiles of policies may lie above the stated values; "" if exact."""
        most, more = (self.amount(format_number(x, 3, 1)) for x in (error, score_error))
        said = f"The {PROVEN} is at most {most} below the optimum." if error else ""
        if score_error == math.inf:
            said += " Quantiles of some policies are estimated from simulated episodes."
        elif score_error > error:
            said += f" Quantiles of policies are at most {more} below the true ones."
        return said.strip()


NAMES = {  # fields of Words by option
    "title": "title", "unit": "unit", "stage_name": "stage", "run_name": "run", "return_name": "total", "state_name": "state",
    "action_name": "action",
}  # fmt: skip
COMMAND_ONLY: dict[tuple[str, object], str] = {("adaptive", False): "--one-policy"}  # other words for name and value
PLAIN = Words(title="")  # for a problem without a title


def tell_apart(*values: float, directions: Sequence[int] = ()) -> list[str]:
    """The values as text with as few digits (at least SENTENCE_DIGITS) as keep different values different.

    They are rounded in the given directions, as in `format_number`.
    """
    for digits in range(SENTENCE_DIGITS, 10):
        nearest = [format_number(x, digits) for x in values]
        texts = [format_number(x, digits, way) for x, way in zip(values, directions or [0] * len(values), strict=True)]
        pairs = combinations(zip(values, texts, nearest, strict=True), 2)
        if all(_are_equal(one[0], two[0]) or (one[1] != two[1] and one[2] != two[2]) for one, two in pairs):
            break
    return texts


def two_decimals(x: float) -> str:
    """A number with two decimals and a true minus sign."""
    text = f"{x:.2f}"
    return text.lstrip("-") if float(text) == 0.0 else text.replace("-", "\N{MINUS SIGN}")


def list_words(names: Sequence[str]) -> str:
    """Names in a sentence, such as "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def cell(value: Any) -> str:
    """A value as text for people; nested values are parenthesised."""

    def part(x: Any) -> str:
        return f"({cell(x)})" if isinstance(x, (Mapping, list, tuple)) else cell(x)

    if isinstance(value, Mapping):
        return ", ".join(f"{key}={part(x)}" for key, x in value.items()) or "defaults"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(part, value))
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    return format_number(value) if value is None or isinstance(value, float) else str(value)


def display_table(table: ResultTable) -> tuple[list[str], list[list[str]]]:
    """Titles and cells of a table as text; a column `x_std` is shown together with x, as "mean ± deviation".

    Promises and other bounds are rounded as in sentences, so that they still hold.
    """

    def spread(row: Mapping[str, Any], key: str) -> str:
        most = row[f"{key}_std"]
        apart = bool(most) and most > GAP_TOL * abs(row[key])  # otherwise it is a rounding error
        mean = format_number(row[key], SENTENCE_DIGITS, table.bounds.get(key, 0))
        return f"{mean} ± {format_number(most, 2)}" if apart else mean

    def column(key: str) -> list[str]:
        if any(f"{key}_std" in row for row in table.rows):
            return [spread(row, key) for row in table.rows]
        return format_cells([row[key] for row in table.rows], cell, table.bounds.get(key, 0))

    keys = [key for key in table.columns if key.removesuffix("_std") not in table.columns or not key.endswith("_std")]
    rows = zip(*map(column, keys), strict=True)
    return [table.titles.get(key, key) for key in keys], list(map(list, rows))


def meaning(level: Mapping[str, Any], words: Words = PLAIN, law: Law | None = None) -> str:
    """One sentence on one level of a plan: what the policy gives, and what any policy could give; a second if it is fragile.

    `level` is the plan's `summary()` with `law_exact`, `risk_neutral` (value, upper and mean, or None) and `randomized_upper`;
    `law` is the plan's law, which determines the size of rounding errors if value and mean are near 0.
    """
    tau, beta, attitude, value = (level[key] for key in ("tau", "beta", "attitude", "value"))
    upper, neutral = level["upper"], level["risk_neutral"]
    beside = (value if upper is None else upper, level["nominal"], neutral["value"] if neutral else value)
    amounts = tell_apart(value, *beside, directions=(-1, 1, -1, -1))
    own, most, nominal, other = map(words.amount, amounts)
    goal = quantile_objective(tau, beta)
    least = "" if beta == 0.0 or (level["exact"] and attitude != "robust") else "at least "
    promise, verb = words.promise(goal, f"{least}{own}"), "reach" if beta else "promise"
    if value == -math.inf:
        promise, verb = f"no {words.total} is guaranteed in {words.share(tau)}", "promise"
    draw = "with one random draw at the start, " if level.get("policy") == "mixture" else ""
    where = f"if probabilities are off by up to {percent(level['off'])}, " if level.get("off") else WHERE[attitude]
    parts = [f"{where}{draw}{promise}"]
    if attitude == "robust":
        parts.append(f"in the model as given the plan gives {'' if level['law_exact'] else 'at least '}{nominal}")
    elif upper is not None and attitude == "optimistic":
        parts.append(f"with the most favourable probabilities within the radius no policy can {verb} more than {most}")
    elif upper is not None and (
        _are_equal(upper, value, level["mean"]) or (law is not None and equal_values(value, upper, law))
    ):
        parts[0] += f", the best that any policy can {verb}"
    elif upper is not None and level["randomized_upper"]:
        parts[0] += f", the best that any deterministic policy can {verb}"
        parts.append(f"one random draw at the start gives {most}")
    elif upper is not None:
        parts.append(f"no policy can {verb} more than {most}")
    if attitude == "nominal" and value > -math.inf:
        chance = level.get("chance_below")
        parts += price(
            level["mean"], neutral["mean"] if neutral else None, words, level.get("below"), chance, level["law_exact"]
        )
    if neutral:
        least = "" if _are_equal(neutral["upper"], neutral["value"]) else "at least "
        if attitude == "robust":
            parts[-1] += f", and the risk-neutral policy {least}{other}"
        else:
            parts.append(f"the risk-neutral policy gives {least}{other}")
    said = sentence("; ".join(parts))
    return f"{said} Fragile: {fragility(level['margin']['below'])}." if level["fragile"] else said


def price(
    mean: float, best: float | None, words: Words, below: float | None = None, chance: float | None = None,
    exact: bool = True,
) -> list[str]:  # fmt: skip
    """Parts of a sentence: the mean, its distance to the best mean, and the share of runs below a limit (at most, if a bound)."""
    parts = []
    if best is not None:
        own = format_number(mean, SENTENCE_DIGITS)
        less = format_number(best - mean, SENTENCE_DIGITS)
        loses = best > mean and not _are_equal(mean, best)
        parts.append(
            f"mean {own}, " + (f"which is {less} less than the best mean" if loses else "the best of any policy")
        )
    if below is not None and chance is not None:
        share = (
            f"{'' if exact or chance < TINY else 'at most '}{short_percent(chance)} of {words.runs} end"
            if chance
            else f"no {words.run} ends"
        )
        parts.append(f"{share} below {format_number(below)}")
    return parts


def held_sentence(held: Stress, words: Words = PLAIN) -> str:
    """What a policy, and others beside it, still guarantee if the model is off, in one sentence; "" if nothing is off."""
    if not held.off.any():
        return ""
    columns = np.array([held.value, *held.others.values()]).T  # one row per share
    texts = iter(tell_apart(*columns.ravel().tolist(), directions=[-1] * columns.size))
    parts = list[str]()
    for off in held.off.tolist():
        own, *rest = (words.amount(next(texts)) for _ in range(columns.shape[1]))
        beside = ", ".join(f"{name} {x}" for name, x in zip(held.others, rest, strict=True))
        parts += [f"by {percent(off)}: {own}{f' ({beside})' if beside else ''}"] if off > 0.0 else []
    said = f"if probabilities are off by up to {'; '.join(parts)[3:]}"
    last = held.overtaken
    since = f"from {percent(last)}" if last else "even without errors"
    return sentence(said if last is None else f"{said}; {since} the risk-neutral policy promises at least as much")


def margin_sentence(mean: float, others: Mapping[float, float], words: Words = PLAIN) -> str:
    """What the mean would be with half of the largest margin and with none; `others` has the means by share of the margin.

    Without half, that with none is the best mean found so far, or nan if it was not computed.

    >>> margin_sentence(70, {0.5: 86.5, 0.0: 87.6})
    'The same guarantee with half of the margin for errors: mean 86.5 instead of 70 (margin=0.5); with none: 87.6 (margin=0).'
    >>> margin_sentence(70, {0.5: 70, 0.0: 87.6})
    "The same guarantee with no margin for errors: mean 87.6 instead of 70 (secondary='mean')."
    >>> margin_sentence(70, {0.0: 80})
    "The same guarantee with no margin for errors: mean at least 80 instead of 70 (secondary='mean')."
    """
    how = words.option("secondary", "mean")
    if math.isnan(others[0.0]):
        return f"Another policy may have a better mean with the same guarantee; the search takes longer ({how})."
    least = "" if 0.5 in others else "at least "
    own, half, none = tell_apart(mean, others.get(0.5, mean), others[0.0], directions=(0, 0, -1 if least else 0))
    said = "the same guarantee with {} margin for errors: mean {} instead of {} ({})".format
    if half == own:
        return sentence(said("no", f"{least}{none}", own, how))
    first = said("half of the", half, own, words.option("margin", 0.5))
    return sentence(first if none == half else f"{first}; with none: {none} ({words.option('margin', 0)})")


def drawn_words(actions: Mapping[str, float]) -> str:
    """The only action, or the actions that are drawn with their probabilities.

    >>> drawn_words({"wait": 1.0}), drawn_words({"wait": 0.25, "repair": 0.75})
    ('wait', 'repair 75 %, wait 25 %')
    """
    ordered = sorted(actions.items(), key=lambda pair: -pair[1])
    return ordered[0][0] if len(ordered) == 1 else ", ".join(f"{name} {short_percent(p)}" for name, p in ordered)


def outlook_sentence(now: Outlook, words: Words | None = None) -> str:
    """What to do now, the chance of the target, and what can still be guaranteed; by default in the words of the model."""
    words = Words.of(now.mdp) if words is None else words
    earned, target = (words.amount(format_number(x)) for x in (now.earned, now.target))
    bare = next(iter(now.actions)).lstrip("-").replace(".", "", 1).isdigit()  # a number alone does not say what to do
    action = f"{words.action} {now.action}" if bare else now.action
    said = f"{words.stage} {now.stage}, {words.state} {now.state}, earned {earned}: {action}."
    least = "" if now.exact else "at least "
    said += f" The target {target} is reached from here with probability {short_percent(now.chance)}"
    if now.best_chance > now.chance + 1e-9:
        said += f", by the best policy from here with {least}{short_percent(now.best_chance)}"
    if now.guarantee is not None:
        amount = words.amount(format_number(now.guarantee, direction=-1))
        said += f". From here {amount} can still be guaranteed in {words.share(now.tau)}"
    return sentence(said)


def order_of(experiment: Experiment, measure: str | None = None, words: Words = PLAIN) -> str:
    """Sentence on the learners with the best mean after the last episode, the next ones, and whether the difference is clear.

    Learners whose means print alike are called equal.
    """
    rows, T = experiment.order(measure), count_of("episode", experiment.episodes)
    goal, best, when = experiment.objective, "largest", f"over the last tenth of {T}"
    what = "return" if isinstance(goal, Mean) else f"{goal.label} of the returns"
    what = what if len(experiment.seeds) == 1 and what != "return" else f"mean {what}"
    if measure or experiment.known:
        best = "largest" if measure == "return" else "smallest"
        what, when = f"mean cumulative {experiment.measure_name(measure or 'gap')}", f"after {T}"
    size = experiment.size
    bare = goal.probability and measure in (None, "gap", "exact")
    amount = str if bare else words.amount  # a probability has no unit
    means = [amount(format_number(size * round(row["mean"] / size, 9), SENTENCE_DIGITS)) for row in rows]
    texts = [f"{row['learner']} {mean}" for row, mean in zip(rows, means, strict=True)]
    first = means.count(means[0])
    leaders = f"{list_words([row['learner'] for row in rows[:first]])} {'has' if first == 1 else 'have'}"
    said = f"{leaders} a {what} of {means[0]} {when}"
    if len(rows) > 1:
        said = f"{leaders} the {best} {what}, {means[0]} {when}"
    if first < len(rows):
        said += f"; then {texts[first]}{CLEAR[rows[first - 1]['clear']]}"
    return ", ".join([said, *texts[first + 1 : first + 2]])


def learning_sentences(document: Mapping[str, Any], order: str, words: Words) -> str:
    """Sentences on the promises of the best learners, the best policy and random play, the `order`, and the exactness.

    `document` comes from `learning_document`.
    """
    best = document["best"]
    if best is None:
        return f"{order}. {UNKNOWN}"
    learners, goal = document["learners"], read_objective(document["objective"])
    most = max(one["mean"]["value"] for one in learners)
    leaders = [one for one in learners if _are_equal(one["mean"]["value"], most, best["value"])]
    ends = [run["value"] for one in leaders for run in one["runs"]]
    numbers = tell_apart(most, best["value"], document["random"]["value"], min(ends), max(ends), directions=[-1] * 5)
    shown = str if goal.probability else words.amount
    (own, top, chance), seeds = map(shown, numbers[:3]), len(learners[0]["runs"])
    whose = f"final {'policy' if len(ends) == 1 else 'policies'} of {list_words([one['label'] for one in leaders])}"
    said = ""
    if isinstance(goal, Quantile):
        promise = words.promise(goal, own, "episodes")
        said = f"{promise[0].upper()}{promise[1:]} from the {whose}"
    if seeds > 1 or not said:  # a mean of quantiles is the promise of no policy
        least = "at least " if 0.0 < best["score_error"] < math.inf else ""
        over = f" on average over {seeds} seeds" if seeds > 1 else ""
        said = f"The {goal.label} of the {whose} is {least}{own}{over}"
        said += "" if numbers[3] == numbers[4] else f" ({numbers[3]} to {numbers[4]})"
    least = "at least " if best["error"] else ""
    said += f"; the best policy reaches {least}{top}, random play {least}{chance}"
    return f"{said}. {order}. {words.bracket(best['error'], best['score_error'])}".rstrip()


def _are_equal(x: float, y: float, size: float = 0.0) -> bool:
    """Whether two values differ only by rounding; `size` is the size of the returns."""
    return x == y or abs(x - y) <= GAP_TOL * max(abs(x), abs(y), abs(size)) < math.inf


# -- facts ----------------------------------------------------------------------------------------------------------------


def remarks(plan: Plan, words: Words | None = None) -> list[str]:
    """The notes of a plan in words, by default with the unit of its problem."""
    return [remark(fact, words or Words.of(plan)) for fact in plan.notes]


@singledispatch
def remark(fact: facts.Fact, words: Words = PLAIN) -> str:
    """One fact in words, as the start or the whole of a sentence; each kind of fact has its own function below."""
    raise NotImplementedError(f"results/words.py has no words for {type(fact).__name__}")


@remark.register
def _(fact: facts.Bracketed, words: Words = PLAIN) -> str:
    why = "because no exact grid of returns fits"
    if fact.lattice:
        why = "because a buffered plan requires returns on a lattice, and none of a suitable size fits"
    said = f"bracketed {'on the requested grid' if fact.by_choice else why}: {count_of('point', fact.points)}"
    if fact.law_error is None:
        return said
    within = f"known within {words.amount(format_number(fact.law_error, 3, 1))}"
    return f"{said}; the law of the policy is {within if fact.law_error else 'exact'}"


@remark.register
def _(fact: facts.RoundedReturns, words: Words = PLAIN) -> str:
    way, points = "up" if fact.up else "down", count_of("point", fact.points)
    return f"returns are rounded {way} to {points}, by at most {words.amount(format_number(fact.error, 3, 1))}"


@remark.register
def _(fact: facts.RoundedLaw, words: Words = PLAIN) -> str:
    error = words.amount(format_number(fact.error, 2, 1))
    return f"no exact grid of returns fits: the law is known up to a rounding error of {error}"


@remark.register
def _(fact: facts.OnStateGrid, words: Words = PLAIN) -> str:
    said = f"proven for continuous states on {count_of('grid point', fact.points)}; "
    said += "law, margin and mean are those of the lower finite model"
    said += ", whose rewards are averages: simulate the policy for its law" if fact.averaged else ""
    if fact.error:
        said += f", and returns differ from it by at most {words.amount(format_number(fact.error, 3, 1))}"
    if any(fact.may_leave):
        ways = [
            way for way, may in zip(("a miss in the lower", "a win in the upper"), fact.may_leave, strict=True) if may
        ]
        said += f"; a run that leaves the grid counts as {' and as '.join(ways)} model"
    return said


@remark.register
def _(fact: facts.StoppedRefining, words: Words = PLAIN) -> str:
    width = words.amount(format_number(fact.gap, 3, 1))
    return f"the bracket is {width} wide; the models on the next grid would be too large"


@remark.register
def _(fact: facts.NeutralWins, words: Words = PLAIN) -> str:
    return "on this grid no policy is proven better than the risk-neutral one"


@remark.register
def _(fact: facts.Tied, words: Words = PLAIN) -> str:
    if fact.averaged:
        return "proven up to rounding: a probability equals a level"
    remedy = f"; {words.option('arithmetic', 'rational')} decides the tie" if fact.decidable else ""
    return f"a probability equals the level up to rounding{remedy}"


@remark.register
def _(fact: facts.StoredInSingle, words: Words = PLAIN) -> str:
    return f"probabilities stored in 32 bits: relative error of at most {fact.error:.1e}"


@remark.register
def _(fact: facts.DecidedInFractions, words: Words = PLAIN) -> str:
    return f"decided in exact fractions: the shortfall {fact.shortfall} is below {fact.level}"


@remark.register
def _(fact: facts.BestMean, words: Words = PLAIN) -> str:
    mean, best = (words.amount(format_number(x, direction=-1)) for x in (fact.mean, fact.best))
    gap = words.amount(format_number(fact.gap, 3, 1))
    below = f"at most {gap} below the best mean" if fact.gap > 0.0 else "the best"
    kept = f" that keep {percent(fact.margin)} of the largest margin" if fact.margin else ""
    safest = words.amount(format_number(fact.safest, direction=-1))
    whole = f"; with the whole margin the mean is {safest}" if fact.margin else ""
    said = (
        f"mean {mean}, {below} among policies with this guarantee{kept}{whole}; the best mean of all policies is {best}"
    )
    how = words.option("randomized", "" if words.command else True)
    return f"{said}; one random draw between two policies ({how}) comes closer" if fact.mixture else said


@remark.register
def _(fact: facts.LowTail, words: Words = PLAIN) -> str:
    own, other = map(words.amount, tell_apart(fact.cvar, fact.neutral))
    worst = f"the worst {percent(fact.tau)} of runs bring {own} on average"
    return f"warning: {worst}, with the risk-neutral policy {other}; if that matters, plan for CVaR"


@remark.register
def _(fact: facts.BufferBelowMargin, words: Words = PLAIN) -> str:
    return f"the buffer is below the margin {fact.margin:.3g}: the optimum is the quantile itself"


@remark.register
def _(fact: facts.NoFinerGrid, words: Words = PLAIN) -> str:
    left = "the remaining gap is that between deterministic and randomized policies"
    return f"finer grids do not reach gap={fact.gap:g}: {left}"


@remark.register
def _(fact: facts.NearRandomized, words: Words = PLAIN) -> str:
    verb = f"comes within {words.amount(format_number(fact.gap, 2, 1))} of" if fact.gap else "attains"
    return f"a deterministic policy {verb} the randomized bound"


@remark.register
def _(fact: facts.BestDeterministic, words: Words = PLAIN) -> str:
    if fact.gap:
        gap = words.amount(format_number(fact.gap, 2, 1))
        return f"no deterministic policy exceeds this value by more than {gap}"
    best = words.amount(format_number(fact.randomized))
    return f"proven best deterministic policy; the best randomized policy has {best}"


@remark.register
def _(fact: facts.RuleFound, words: Words = PLAIN) -> str:
    if fact.best:
        return "simplicity costs nothing: no policy with memory is better than this rule"
    lost, most = fact.upper - fact.value, format_number(fact.upper, direction=1)
    price = words.amount(format_number(lost, 4, 1))
    return (
        f"simplicity costs at most {price}: no policy with memory has more than {most}; a local search found this rule"
    )


@remark.register
def _(fact: facts.RuleOrder, words: Words = PLAIN) -> str:
    return f"order: {plural(words.state) or words.state} {fact.states}, {plural(words.action) or words.action} {fact.actions}"


@remark.register
def _(fact: facts.Guaranteed, words: Words = PLAIN) -> str:
    least = f"at least {words.amount(format_number(fact.value, direction=-1))}"
    if isinstance(fact.objective, Quantile):
        return f"{least} with probability above {1 - fact.objective.tau:g} for all probabilities within the radius"
    return f"{least} for all probabilities within the radius, by robust evaluation of this policy"


@remark.register
def _(fact: facts.Promised, words: Words = PLAIN) -> str:
    old = _kept_promise(fact, words) if fact.old > -math.inf else ""
    if fact.value == -math.inf:
        helps = {"reward_range": "which bounds unseen outcomes"}
        level = getattr(fact.objective, "tau", math.nan)
        helps["start"] = "as the law of the first state is not known well enough"
        remedy = f"; declare {words.option(fact.declare)}, {helps[fact.declare]}" if fact.declare else ""
        said = f"o promise is possible at level {exact_text(level)} with these {fact.episodes} episodes{remedy}."
        return f"{old} For a new plan n{said}" if old else f"N{said}"
    what = _least(fact.objective, fact.value, words)
    named = {text.format("stage"): text.format(words.stage) for text in (BY_STAGE, POOLED)}
    assumed = "; ".join(named.get(text, text) for text in fact.assumptions)
    said = f"{what}{_assuming(assumed)}."
    if fact.no_data:
        used = "no data but the first states" if fact.start_estimated else "no data"
        said += f" This promise uses {used}: it is what the declared support and rewards alone guarantee."
    if fact.keep_old:
        return f"{old} For the new plan only this is promised: {said}"
    return f"With {percent(fact.confidence)} confidence, {said}" + (f" {old}" if old else "")


def _least(objective: Objective, value: float, words: Words) -> str:
    """What is promised at least."""
    least = words.value(objective, value)
    return words.promise(objective, least if isinstance(objective, Quantile) else f"at least {least}", "episodes")


def _kept_promise(fact: facts.Promised, words: Words) -> str:
    """The promise of the old policy as a sentence."""
    what, assumed = _least(fact.objective, fact.old, words), "; ".join(fact.old_assumptions)
    if not fact.keep_old:
        least = words.value(fact.objective, fact.old)
        return f"The old policy promises {least}" + (f", if {fact.old_assumptions[0]}." if assumed else ".")
    return f"Keep the old policy: with {percent(fact.confidence)} confidence, {what}{_assuming(assumed)}."


def _assuming(assumed: str) -> str:
    return f", assuming that {assumed}" if assumed else ", under the assumptions below"


def without_assumptions(fact: facts.Promised) -> facts.Promised:
    """The promise for a headline, above the full sentence."""
    return replace(fact, assumptions=(), old_assumptions=())


@remark.register
def _(fact: facts.SamePromise, words: Words = PLAIN) -> str:
    value, robust = (words.value(fact.objective, x, 0) for x in (fact.value, fact.robust))
    worth = f"its {fact.objective} is {value} in the empirical model, which is not a promise"
    if fact.useless:
        return f"as nothing useful is promised, the new plan is the {fact.name}: {worth}"
    if fact.highest is not None:
        most = words.amount(format_number(fact.highest, direction=-1))
        return f"the new plan is the {fact.name}, because less than the highest promise, {most}, was requested: {worth}"
    other = f"{robust} for the robust plan" if value != robust else "as much as the robust plan's, whose mean is lower"
    return f"the new plan is the {fact.name}, which is proven to keep the promise, too: {worth} ({other})"


@remark.register
def _(fact: facts.WorthMore, words: Words = PLAIN) -> str:
    value, chosen = (words.amount(format_number(x)) for x in (fact.value, fact.chosen))
    said = f"in the empirical model the plug-in plan has the {fact.objective} {value} instead of {chosen}, but "
    if fact.promise is None:
        return f"{said}nothing useful is promised for it"
    promise = format_number(fact.promise, direction=-1)
    least = float(promise.replace(",", ""))
    how = words.option("at_least", int(least) if least.is_integer() else least)
    return f"{said}it promises only {words.amount(promise)}; if that suffices, use {how}"


@remark.register
def _(fact: facts.Drift, words: Words = PLAIN) -> str:
    return (
        f"the actions change between the first and the second half of the log (permutation test, p = {fact.p_value:g}), so the "
        "old policy has no promise; if the episodes are independent and follow one policy, declare "
        f"{words.option('adaptive', False)}"
    )


@remark.register
def _(fact: facts.LowersPromise, words: Words = PLAIN) -> str:
    value, without = ("none" if x == -math.inf else words.value(fact.objective, x) for x in (fact.value, fact.without))
    name = words.option(fact.declaration)
    return f"the declaration {name} lowers the promise: {value} with it and {without} without it; {fact.why}"


@remark.register
def _(fact: facts.OpenStates, words: Words = PLAIN) -> str:
    names = ", ".join([*map(repr, fact.states[:3]), *["..."] * (len(fact.states) > 3)])
    several, steps = "s" * (len(fact.states) > 1), count_of("step", fact.steps)
    cause = f"no successor is recorded for state{several} {names} ({steps}), so the worst is assumed to follow"
    it, is_left = ("them", "they are") if several else ("it", "it is")
    how = f"with {words.option('absorbing')}" if words.command else "absorbing"
    return f"{cause}; declare {it} {how} if {is_left} never left, give next_state, or mark complete episodes in a column end"


@remark.register
def _(fact: facts.UnknownStart, words: Words = PLAIN) -> str:
    return f"the law of the first state is known only up to a mass of {fact.mass:.3g}; declare {words.option('start')}"


@remark.register
def _(fact: facts.UntriedState, words: Words = PLAIN) -> str:
    place = f"{words.state} {fact.state!r}{_at_stage(fact.stage, words)}"
    return f"no {words.action} was ever tried in {place}, which has probability {fact.probability:.2g}"


@remark.register
def _(fact: facts.NothingToLearn, words: Words = PLAIN) -> str:
    return "even the empirical model taken as the true one promises no more; other actions must be tried"


@remark.register
def _(fact: facts.UncertainRow, words: Words = PLAIN) -> str:
    place = f"{words.action} {fact.action!r} in {words.state} {fact.state!r}{_at_stage(fact.stage, words)}"
    n = fact.observations
    if not n:
        return f"{place} was never tried"
    own = fact.visits == n
    others = f"; it is the costliest of {fact.among} uncertain rows" if fact.among else ""
    if own and 10 <= n < 2 * fact.outcomes:  # as with continuous rewards
        others += f"; it showed {fact.outcomes} different outcomes, round its rewards down or merge states"
    known = f"{'was tried' if own else 'has noise that was observed'} {'once' if n == 1 else f'{n} times'}"
    mass = (
        f"with the radius {fact.radius:.2g} a mass of {fact.radius / 2:.2g} may lie on worse outcomes than those seen"
    )
    return f"{place} {known}: {mass}{others}"


def _at_stage(stage: int | None, words: Words) -> str:
    """A stage, counted from 1, as the end of a phrase; empty if the stages are pooled."""
    return "" if stage is None else f" at {words.stage} {stage}"


def sentence(text: str) -> str:
    """A text as a sentence, with a capital letter and a full stop."""
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."
