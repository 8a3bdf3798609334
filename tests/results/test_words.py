# ruff: noqa: E501  (a case and its sentence stay on one line)

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bqrl
from bqrl import Law
from bqrl.display import format_number, percent, plural, runs
from bqrl.envs import about, names
from bqrl.errors import ArgumentError
from bqrl.planners import facts
from bqrl.results import words
from bqrl.results.plans import level_facts
from bqrl.results.result import ResultTable
from bqrl.results.words import (
    Words,
    cell,
    display_table,
    learning_sentences,
    list_words,
    meaning,
    order_of,
    tell_apart,
    two_decimals,
)
from bqrl.study.scores import Experiment

LEVEL = {
    "tau": 0.1,
    "beta": 0.0,
    "attitude": "nominal",
    "value": 19 / 24,
    "upper": 19 / 24,
    "nominal": 19 / 24,
    "mean": 0.85,
    "fragile": False,
    "margin": {"below": 0.0154, "above": 0.14},
    "exact": True,
    "law_exact": True,
    "randomized_upper": None,
    "risk_neutral": {"value": 17 / 24, "upper": 17 / 24, "mean": 0.86},
}


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.1, "0.1"), (-12.0, "-12"), (1e6, "1,000,000"), (123456.789, "123,457"), (1e-5, "1e-05"), (1 / 3, "0.333333"),
        (19 / 24, "0.791667"), (1234567.0, "1,234,567"), (-0.0, "0"), (2e-7, "2e-07"),
    ],
)  # fmt: skip
def test_numbers_read_as_people_write_them(x, text):
    assert format_number(x) == text


def test_missing_and_infinite_numbers():
    assert format_number(None) == format_number(float("nan")) == "\N{EN DASH}"
    assert (format_number(float("inf")), format_number(float("-inf"))) == ("∞", "-∞")


def test_different_numbers_look_different():
    assert tell_apart(1.0, 1.0) == ["1", "1"]
    assert tell_apart(12.345, 12.40) == ["12.35", "12.4"]
    assert tell_apart(12.34561, 12.34589) == ["12.3456", "12.3459"]
    assert tell_apart(1000.001, 1000.002) == ["1,000.001", "1,000.002"]
    assert tell_apart(12.3451, 12.3449, directions=(-1, -1)) == ["12.3451", "12.3449"]
    assert tell_apart(12.34567, 12.34568, directions=(-1, 1)) == ["12.34567", "12.34568"]  # not 12.34 and 12.35


@given(st.floats(-1e300, 1e300), st.integers(2, 9))
def test_a_bound_in_words_stays_a_bound(x, digits):
    low, high = (float(format_number(x, digits, way).replace(",", "")) for way in (-1, 1))
    rounding = 1e-11 * abs(x)
    assert low - rounding <= x <= high + rounding
    assert high - low <= 2.0 * 10.0 ** (1 - digits) * abs(x) + rounding


def test_a_promise_is_rounded_down_and_an_upper_bound_up():
    said = meaning(LEVEL | {"value": 12.3478, "upper": 12.5642, "nominal": 12.3478, "exact": False})
    assert "at least 12.34;" in said
    assert "more than 12.57" in said
    assert "at least 3," in meaning(LEVEL | {"value": 3.0 - 4e-16, "upper": 3.0 - 4e-16, "nominal": 3.0 - 4e-16})


@pytest.mark.parametrize(
    ("tau", "text"),
    [
        (0.1, "9 of 10 runs"),
        (0.05, "19 of 20 runs"),
        (0.01, "99 of 100 runs"),
        (0.25, "3 of 4 runs"),
        (0.3, "7 of 10 runs"),
        (0.5, "half of all runs"),
        (0.9, "1 of 10 runs"),
        (0.35, "13 of 20 runs"),
        (0.37, "63 of 100 runs"),
        (1 / 7, "6 of 7 runs"),
        (0.123, "87.7 % of runs"),
        (1e-5, "99.999 % of runs"),
        (1e-7, "all but 1e-05 % of runs"),
        (1e-12, "all but 1e-10 % of runs"),
        (1e-300, "all but 1e-298 % of runs"),
        (1 - 2**-53, "1.11022e-14 % of runs"),
        (0.999999, "0.0001 % of runs"),
    ],
)
def test_shares_of_runs(tau, text):
    assert runs(tau) == text
    assert runs(tau, "episodes") == text.replace("runs", "episodes")


def test_percent():
    assert percent(0.1 - 0.03) == "7 %"
    assert percent(1.0) == "100 %"
    assert percent(0.123) == "12.3 %"
    assert percent(1 - 1e-9) == "99.9999999 %"
    assert percent(1 - 1e-12) == "99.9999999999 %"


def test_numbers_and_names_in_sentences():
    assert (two_decimals(1.149), two_decimals(-0.0001), two_decimals(-2.0)) == ("1.15", "0.00", "\N{MINUS SIGN}2.00")
    assert (list_words(["a"]), list_words(["a", "b", "c"])) == ("a", "a, b and c")


def test_units_of_several_words_stand_on_axes_alone():
    words, sale = (
        Words(title="Treatment", unit="QALY", stage="year"),
        Words(title="Sale", unit="share of the best offer"),
    )
    assert (words.amount("12.5"), words.axis("return"), words.titled("mean")) == (
        "12.5 QALY", "return (QALY)", "mean (QALY)",
    )  # fmt: skip
    assert (sale.amount("0.5"), sale.titled("mean")) == ("0.5", "mean")
    assert sale.axis("mean") == "mean (share of the best offer)"


def test_cells_of_tables():
    assert (cell(0.7916666), cell(float("-inf")), cell(None), cell("a")) == ("0.791667", "-∞", "\N{EN DASH}", "a")
    settings = {"rungs": ((4, 150), (2, 300)), "params": {}, "quick": True, "delta": 0.05}
    assert cell(settings) == "rungs=((4, 150), (2, 300)), params=(defaults), quick=yes, delta=0.05"
    assert cell([0.1, 0.5]) == "0.1, 0.5"
    table = ResultTable([{"gap": 12.3456, "gap_std": 0.5}], titles={"gap": "cumulative gap"})
    assert display_table(table) == (["cumulative gap"], [["12.35 ± 0.5"]])
    assert display_table(ResultTable([{"gap": 12.3456, "gap_std": 1e-15}]))[1] == [
        ["12.35"]
    ]  # equal runs up to rounding


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (
            {},
            "In 9 of 10 runs you get at least 0.7916, the best that any policy can promise; mean 0.85, which is 0.01 less than"
            " the best mean; the risk-neutral policy gives 0.7083.",
        ),
        (
            {"risk_neutral": {"value": 19 / 24, "upper": 19 / 24, "mean": 0.85}},
            "In 9 of 10 runs you get at least 0.7916, the best that any policy can promise; mean 0.85, the best of any policy;"
            " the risk-neutral policy gives 0.7916.",
        ),
        (
            {"risk_neutral": None, "fragile": True, "margin": {"below": 0.000291, "above": 0.14}},
            "In 9 of 10 runs you get at least 0.7916, the best that any policy can promise. Fragile: an error of 0.0003 in the"
            " probability of falling short would change it.",
        ),
        (
            {"beta": 0.1, "policy": "mixture", "risk_neutral": None},
            "With one random draw at the start, over the worst 10 % of runs you get 0.7916 on average, the best that any policy can"
            " reach.",
        ),
        ({"upper": None, "risk_neutral": None}, "In 9 of 10 runs you get at least 0.7916."),
        (
            {
                "value": 12.0,
                "upper": 12.5,
                "exact": False,
                "mean": 13.0,
                "risk_neutral": {"value": 9.0, "upper": 9.5, "mean": 14.5},
                "below": 1.0,
                "chance_below": 0.004321,
            },
            "In 9 of 10 runs you get at least 12; no policy can promise more than 12.5; mean 13, which is 1.5 less than the best"
            " mean; 0.43 % of runs end below 1; the risk-neutral policy gives at least 9.",
        ),
        (
            {
                "value": 12.0,
                "upper": 12.5,
                "exact": False,
                "mean": 13.0,
                "law_exact": False,
                "risk_neutral": {"value": 12.0, "upper": 12.0, "mean": 14.5},
                "below": 1.0,
                "chance_below": 0.004321,
            },
            "In 9 of 10 runs you get at least 12; no policy can promise more than 12.5; mean 13, which is 1.5 less than the best"
            " mean; at most 0.43 % of runs end below 1; the risk-neutral policy gives 12.",
        ),
        (
            {"beta": 0.1, "risk_neutral": None},
            "Over the worst 10 % of runs you get 0.7916 on average, the best that any policy can reach.",
        ),
        (
            {"beta": 0.1, "risk_neutral": None, "exact": False, "upper": 0.9},
            "Over the worst 10 % of runs you get at least 0.7916 on average; no policy can reach more than 0.9.",
        ),
        (
            {"beta": 0.03, "upper": 0.8, "randomized_upper": 0.8},
            "Between the 7 % and the 10 % quantile you get 0.7916 on average, the best that any deterministic policy can reach;"
            " one random draw at the start gives 0.8; mean 0.85, which is 0.01 less than the best mean; the risk-neutral policy"
            " gives 0.7083.",
        ),
        (
            {"attitude": "robust", "value": 0.75, "nominal": 0.77},
            "With any probabilities within the radius, in 9 of 10 runs you get at least 0.75; in the model as given the plan gives"
            " 0.77, and the risk-neutral policy 0.7083.",
        ),
        (
            {"attitude": "robust", "value": 0.75, "nominal": 0.77, "law_exact": False, "risk_neutral": None},
            "With any probabilities within the radius, in 9 of 10 runs you get at least 0.75; in the model as given the plan gives at least 0.77.",
        ),
        (
            {"attitude": "robust", "value": -float("inf"), "risk_neutral": None},  # once "gives the same" in the model
            "With any probabilities within the radius, no return is guaranteed in 9 of 10 runs; in the model as given the plan gives 0.7916.",
        ),
        (
            {"attitude": "optimistic", "upper": 0.9, "risk_neutral": None},
            "In the model as given, in 9 of 10 runs you get at least 0.7916; with the most favourable probabilities within the radius no"
            " policy can promise more than 0.9.",
        ),
    ],
)
def test_each_objective_has_its_own_true_sentence(change, text):
    assert meaning(LEVEL | change) == text


def test_amounts_carry_the_unit_of_the_problem():
    text = meaning(LEVEL, Words(title="Treatment", unit="QALY", stage="year"))
    assert "you get at least 0.7916 QALY, " in text
    assert "the risk-neutral policy gives 0.7083 QALY" in text


BEST = {"value": 10.0, "mean": 11.0, "error": 0.0, "score_error": 0.0}


def document(*learners, best=BEST, random=2.0):
    """Learners as their label and the quantiles of their final policies, one per seed."""
    entries = [
        {"label": label, "runs": [{"value": end} for end in ends], "mean": {"value": float(np.mean(ends))}}
        for label, *ends in learners
    ]
    return {"learners": entries, "objective": "quantile:0.1", "best": best, "random": best and {"value": random}}


class Ends(Experiment):
    """An experiment of which only the last gaps are known."""

    size = 1.0

    def ends(self, measure):
        return {label: np.array(values) for label, values in self.records.items()}

    @property
    def known(self):
        return True

    @property
    def error(self):
        return 0.0


GAP = "mean cumulative gap to the exact optimum"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"A": [1.0, 2.0], "B": [8.0, 9.0]}, f"A has the smallest {GAP}, 1.5 after 100 episodes; then B 8.5 (a clear difference at 95 % confidence)"),
        ({"A": [1.0, 9.0], "B": [8.0, 9.0]}, f"A has the smallest {GAP}, 5 after 100 episodes; then B 8.5 (no clear difference at 95 % confidence)"),
        ({"B": [8.0], "A": [0.0], "C": [9.0], "D": [10.0]}, f"A has the smallest {GAP}, 0 after 100 episodes; then B 8, C 9"),
        ({"A": [0.0], "B": [1e-13]}, f"A and B have the smallest {GAP}, 0 after 100 episodes"),
        ({label: [1.0] for label in "ABCDE"}, f"A, B, C, D and E have the smallest {GAP}, 1 after 100 episodes"),
        ({"A": [3.0]}, f"A has a {GAP} of 3 after 100 episodes"),
    ],
)  # fmt: skip
def test_an_order_says_no_more_than_the_seeds_show(given, text):
    seeds = tuple(range(len(next(iter(given.values())))))
    assert (
        order_of(
            Ends(problem=None, objective=bqrl.Quantile(0.1), episodes=100, seeds=seeds, learners=(), records=given)
        )
        == text
    )


@pytest.mark.parametrize("mean", [37.275, 37.275 - 1e-14, 37.275 + 1e-14])
def test_a_sentence_and_a_table_round_a_mean_alike(mean):
    ends = Ends(
        problem=None, objective=bqrl.Quantile(0.1), episodes=100, seeds=(0,), learners=(), records={"A": [mean]}
    )
    assert f" of {display_table(ResultTable([{'gap': mean, 'gap_std': None}]))[1][0][0]} after " in order_of(ends)


def test_an_order_carries_the_unit_of_the_problem():
    ends = Ends(
        problem=None,
        objective=bqrl.Quantile(0.1),
        episodes=100,
        seeds=(0, 1),
        learners=(),
        records={"A": [1.0, 2.0], "B": [8.0, 9.0]},
    )
    clear = " (a clear difference at 95 % confidence)"
    text = order_of(ends, words=Words(title="", unit="QALY"))
    assert text == f"A has the smallest {GAP}, 1.5 QALY after 100 episodes; then B 8.5 QALY{clear}"
    assert order_of(ends, words=Words(title="", unit="share of the best offer")) == order_of(ends)


PROVEN = "the proven lower value of the optimum"
BRACKET = "The proven lower value of the optimum is at most 0.0187 EUR below the optimum."


def test_a_value_that_differs_from_the_bound_by_rounding_is_the_best_where_the_mean_is_zero():
    law, level = (
        Law([-1.0, 0.0, 1.0], [0.25, 0.5, 0.25]),
        LEVEL | {"mean": 0.0, "nominal": 0.0, "value": 1e-17, "upper": 3e-17},
    )
    assert "the best that any policy can promise" in meaning(level, law=law)
    assert "the best that any policy can promise" not in meaning(level | {"upper": 1e-9}, law=law)


def test_small_amounts_that_differ_are_not_called_equal():
    """Returns of nanoseconds: once all learners had the best policies, and any bracket was closed."""
    small = {
        "value": 2e-9,
        "upper": 3e-9,
        "nominal": 2e-9,
        "mean": 4e-9,
        "risk_neutral": {"value": 1e-9, "upper": 2e-9, "mean": 5e-9},
    }
    said = meaning(LEVEL | small)
    assert "no policy can promise more than 3e-09; mean 4e-09, which is 1e-09 less than the best mean; " in said
    assert "the risk-neutral policy gives at least 1e-09" in said
    best = BEST | {"value": 6e-10}
    said = learning_sentences(document(("A", 5e-10), ("B", 2e-10), best=best, random=0.0), "A leads", Words(title="x"))
    assert "from the final policy of A; the best policy reaches 6e-10" in said


def test_a_bracketed_optimum_is_called_a_proven_lower_value():
    """Once "the best that any policy can promise" and "gap to the exact optimum", with no word of the bracket."""
    words, best = Words(title="x", unit="EUR"), BEST | {"error": 0.01861}
    said = learning_sentences(document(("A", 9.0, 9.0), best=best), "A leads", words)
    assert said.endswith(f". A leads. {BRACKET}")
    assert (
        "A is 9 EUR on average over 2 seeds; the best policy reaches at least 10 EUR, random play at least 2 EUR"
        in said
    )
    wider = learning_sentences(document(("A", 9.0, 9.0), best=best | {"score_error": 0.1}), "A leads", words)
    assert "A is at least 9 EUR on average" in wider
    assert wider.endswith(f"{BRACKET} Quantiles of policies are at most 0.1 EUR below the true ones.")
    alone = Words(title="x").bracket(0.0, np.inf)
    assert alone == "Quantiles of some policies are estimated from simulated episodes."

    class Bracketed(Ends):
        error = 0.01861

    text = order_of(
        Bracketed(
            problem=None,
            objective=bqrl.Quantile(0.1),
            episodes=100,
            seeds=(0,),
            learners=(),
            records={"A": [1.0], "B": [8.0]},
        )
    )
    assert text.startswith(f"A has the smallest mean cumulative gap to {PROVEN}, 1 after 100 episodes")


@pytest.mark.parametrize("error", [0.0186, 1.0, 9.996, 0.1004, 123456.7])
def test_a_stated_bound_is_never_below_the_bound(error):
    text = Words(title="x").bracket(error).removeprefix("The proven lower value of the optimum is at most ").split()[0]
    assert error <= float(text.replace(",", "")) <= 1.011 * error


def test_plurals():
    """Once "four hourss" and, of German weeks, "26 Woches"."""
    nouns = {
        "week": "weeks",
        "day": "days",
        "century": "centuries",
        "match": "matches",
        "held-out seed": "held-out seeds",
    }
    assert {noun: plural(noun) for noun in nouns} == nouns
    assert (Words.count("century", 1), Words.count("century", 2)) == ("1 century", "2 centuries")
    for noun in ("four hours", "months", "Woche", "mois", "週"):
        assert plural(noun) is None
        assert Words.count(noun, 26) == f"26 \N{MULTIPLICATION SIGN} {noun}"


def test_the_plural_of_every_named_stage_is_known():
    unknown = {about(name).stage for name in names() if plural(about(name).stage) is None}
    assert unknown == {"four hours"}


def test_the_unit_of_a_model_or_plan():
    model = bqrl.MDP([(0, 0, 0, 1.0, 2.0)], horizon=2, units="QALY")
    assert Words.of(model).unit == Words.of(bqrl.solve(model, 0.1)).unit == "QALY"
    assert Words.of(bqrl.solve(model, 0.1, planner="greedy")).unit == "QALY"
    assert Words.of(None).unit == ""


def test_the_largest_return_leads():
    ends = Ends(
        problem=None,
        objective=bqrl.Quantile(0.1),
        episodes=100,
        seeds=(0, 1),
        learners=(),
        records={"a": [1.0, 2.0], "b": [8.0, 9.0]},
    )
    assert order_of(ends, "return").startswith(
        "b has the largest mean cumulative return, 8.5 after 100 episodes; then a 1.5"
    )


def test_runs_are_compared_with_the_best_policy_and_with_random_play():
    words, others = Words(title="x", unit="EUR"), "; the best policy reaches 10 EUR, random play 2 EUR"

    def promised(*learners, **changes):
        said = learning_sentences(document(*learners, **changes), "A leads", words)
        assert said.endswith(". A leads.")
        return said.removesuffix(". A leads.")

    get = "In 9 of 10 episodes you get at least"
    assert promised(("A", 9.0)) == f"{get} 9 EUR from the final policy of A{others}"
    assert promised(("A", 9.0), ("B", 9.0)) == f"{get} 9 EUR from the final policies of A and B{others}"
    near = promised(("A", 9.99999))
    assert near.startswith(f"{get} 9.99999 EUR from ")  # not called 10, which is what the best policy gives


def test_a_mean_of_quantiles_is_not_called_a_promise():
    """Once "in 9 of 10 runs you get at least" the mean over seeds, which is not true of any policy."""
    said = learning_sentences(
        document(("A", 9.0, 8.0), ("B", 9.5, 9.0), ("C", 10.0, 8.5)), "B leads", Words(title="x", unit="EUR")
    )
    assert "the final policies of B and C is 9.25 EUR on average over 2 seeds (8.5 to 10); " in said
    assert "you get" not in said
    assert " run" not in said  # neither for an episode nor for a seed
    negative = learning_sentences(
        document(("A", -41.5, -41.5), best=BEST | {"value": -25.0}, random=-60.0), "A leads", Words(title="x")
    )
    assert "is -41.5 on average over 2 seeds; the best policy reaches -25, random play -60" in negative


def test_without_a_kernel_only_returns_are_known():
    said = learning_sentences(document(("A", 0.0), best=None), "A leads", Words(title="x"))
    assert said.startswith("A leads. The environment")
    assert said.endswith("so exact promises and gaps are not known.")


def test_flags_of_numpy_read_as_words():
    assert (cell(np.bool_(True)), cell(np.bool_(False))) == ("yes", "no")


@pytest.mark.parametrize("name", ["title", "unit", "stage_name"])
def test_words_are_one_line_each(name):
    given = {"title": "x", "unit": "EUR", "stage": "week"} | {name.removesuffix("_name"): "a\nb"}
    with pytest.raises(ArgumentError, match=f"^{name} must be one line") as fault:
        Words(**given)
    assert fault.value.name == name


def test_every_kind_of_fact_has_words():
    kinds = [one for one in vars(facts).values() if isinstance(one, type) and issubclass(one, facts.Fact)]
    kinds.remove(facts.Fact)
    assert len(kinds) > 15
    assert [kind for kind in kinds if words.remark.dispatch(kind) is words.remark.dispatch(object)] == []
    with pytest.raises(NotImplementedError, match="no words for str"):
        words.remark("text")


def test_facts_are_worded_with_the_unit_and_the_stage_of_the_problem():
    yearly = Words(title="", unit="EUR", stage="year")
    fact = facts.BestMean(mean=10.0, gap=0.5, best=12.0, guarantee=8.0, safest=9.0)
    assert words.remark(fact, yearly).startswith("mean 10 EUR, at most 0.5 EUR below the best mean among")
    assert "the best among" in words.remark(replace(fact, gap=0.0))
    untried = facts.UntriedState(state="s", stage=3, probability=0.25)
    assert words.remark(untried, yearly).startswith("no action was ever tried in state 's' at year 3,")
    assert "at" not in words.remark(replace(untried, stage=None)).split(",")[0].split("'s'")[1]


def test_a_fact_says_what_its_fields_say():
    """Tests of planners compare facts; what people read is compared here."""
    assert "the best mean of all policies is 12" in words.remark(
        facts.BestMean(mean=10.0, gap=0.5, best=12.0, guarantee=8.0, safest=9.0)
    )
    assert ["rational" in words.remark(facts.Tied(decidable=known)) for known in (True, False)] == [True, False]
    for fact, said, unsaid in [
        (facts.Bracketed(points=9, lattice=True), "requires returns on a lattice", "no exact grid"),
        (
            facts.RoundedReturns(points=101, error=0.08244, up=True),
            "rounded up to 101 points, by at most 0.0825",
            "down",
        ),
        (facts.NoFinerGrid(gap=0.5), "between deterministic and randomized", "prove"),
        (facts.NearRandomized(gap=0.03), "comes within 0.03 of the randomized bound", "attains"),
        (facts.StoredInSingle(error=1e-6), "stored in 32 bits: relative error of at most", "64"),
        (facts.StoppedRefining(gap=0.5), "would be too large", "leaves"),
        (facts.RuleOrder(states="by number", actions="as given"), "order: states by number, actions as given", "model"),
    ]:
        assert said in words.remark(fact)
        assert unsaid not in words.remark(fact)


def test_bounds_in_facts_are_rounded_away_from_the_value():
    near = facts.NearRandomized(gap=0.03004)
    assert "within 0.031 of" in words.remark(near)
    assert "by more than 1.4" in words.remark(facts.BestDeterministic(randomized=2.0, gap=1.3333))
    assert words.remark(facts.RoundedReturns(points=1, error=0.12341, up=True)).endswith("to 1 point, by at most 0.124")
    assert words.remark(facts.Guaranteed(value=2 / 3, objective=bqrl.Quantile(0.1))).startswith(
        "at least 0.666666 with probability above 0.9"
    )


# -- the user's words ---------------------------------------------------------------------------------------------------


OWN = {
    "run": "patient",
    "return": "net benefit",
    "state": "condition",
    "action": "drug",
    "stage": "year",
    "title": "Trial",
}


def test_words_of_a_model_stand_in_its_sentences_tables_and_charts(tmp_path):
    mdp = bqrl.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3, units="EUR", words=OWN)
    plan = bqrl.solve(mdp, tau=0.1)
    said = level_facts(plan, Words.of(plan))["meaning"]
    assert said.startswith("In 9 of 10 patients at least 0 EUR net benefit, the best that any policy can promise")
    average = level_facts(bqrl.solve(mdp, tau=0.5, beta=0.5), Words.of(plan))["meaning"]
    assert average.startswith("Over the worst 50 % of patients 0.5 EUR net benefit on average")
    page = bqrl.report(plan, tmp_path / "page.html").read_text(encoding="utf-8")
    assert "<title>Trial</title>" in page
    assert "2 conditions, 1 drug, 3 years" in page
    for text in (
        "net benefit (EUR)",
        "share of patients",
        "10 % of patients may fall short",
        ">condition<",
        ">drug<",
        ">year<",
    ):
        assert text in page, text
    assert "of runs" not in page
    other = bqrl.report(plan, tmp_path / "page.html", run_name="client", state_name="grade", title="Mine")
    text = other.read_text(encoding="utf-8")
    assert "In 9 of 10 clients at least 0 EUR net benefit" in text
    assert "2 grades" in text
    assert "<title>Mine</title>" in text


def test_options_win_over_the_model_and_the_model_over_the_default():
    mdp = bqrl.MDP([[[1.0]]], [[0.0]], horizon=1, words={"run": "patient", "stage": "year"})
    words = Words.of(mdp, {"run_name": "client", "title": None}, title="T", stage="day", unit="EUR")
    assert (words.run, words.stage, words.title, words.unit, words.runs) == ("client", "year", "T", "EUR", "clients")


def test_a_run_whose_plural_is_not_known_keeps_its_name():
    assert Words(title="", run="Patient*in").share(0.1) == "9 of 10 Patient*in"
    assert Words(title="", run="person").share(0.5) == "half of all people"
    assert Words(title="").share(0.1, "episodes") == "9 of 10 episodes"


def test_an_empty_word_gets_one_clear_line():
    with pytest.raises(ValueError, match="run_name must be one line of text"):
        Words(title="", run=" ")


def test_two_plans_with_one_value_are_told_apart_by_their_means():
    """The note once compared 260 with 260."""
    equal = facts.SamePromise(
        name="plug-in plan", objective=bqrl.Quantile(0.1), value=260.0, robust=260.0, useless=False
    )
    assert words.remark(equal).endswith(
        "is 260 in the empirical model, which is not a promise (as much as the robust plan's, whose mean is lower)"
    )
    assert words.remark(replace(equal, robust=250.0)).endswith("(250 for the robust plan)")
