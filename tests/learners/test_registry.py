"""A learner is one class and one entry; what other modules need to know about it is read from the class."""

import pytest

import bqrl
from bqrl.cli.compare import read_learners
from bqrl.errors import ArgumentTypeError
from bqrl.learners.registry import LEARNERS, check_served, colour_of, everyone, find_learner, known_learner, serves
from bqrl.results.charts import PALETTE
from bqrl.results.learning import label_of
from bqrl.results.learning_curves import learner_colours
from bqrl.study.scores import Contender

GOALS = [
    bqrl.Quantile(0.3),
    bqrl.CVaR(0.3),
    bqrl.Buffered(0.3, 0.1),
    bqrl.Mean(),
    bqrl.Chance(12.0),
    bqrl.Entropic(0.5),
]


def test_every_learner_has_a_name_a_label_and_its_own_colour():
    colours = [colour_of(name, params) for name, params in everyone()]
    assert len(set(colours)) == len(colours) == len(LEARNERS) + 1
    assert set(colours) <= set(PALETTE)
    assert all(learner.name == name and learner.label for name, learner in LEARNERS.items())
    assert label_of("ucb-bqrl", {"planner": "greedy"}) == "UCB-BQRL, greedy planner"
    assert known_learner("mine") is None
    assert colour_of(lambda task, rng: None, {}) == ""


def test_one_entry_adds_a_learner_everywhere(monkeypatch):
    class Mine(LEARNERS["sarsa"]):
        name, label, colour = "mine", "My own", "#123456"

    monkeypatch.setitem(LEARNERS, "mine", Mine)
    assert ("mine", {}) in everyone()
    assert label_of("mine", {}) == "My own"
    assert learner_colours([Contender(label="x", learner="mine")]) == {"x": "#123456"}
    assert read_learners(["mine:epsilon=0.1"]) == [("mine", {"epsilon": 0.1})]
    assert bqrl.learn("SafeOrRisky", "mine", episodes=3, seed=1).settings["learner"] == "mine"


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_every_learner_serves_an_objective_or_refuses_it_in_one_line(name, goal):
    if not serves(LEARNERS[name], goal):
        kinds = [kind.__name__ for kind in LEARNERS[name].objectives]
        rule = ("one of " if len(kinds) > 1 else "") + ", ".join(kinds)
        with pytest.raises(ValueError, match=f"must be {rule} for the learner {name}, got ") as caught:
            bqrl.learn("SafeOrRisky", name, objective=goal, episodes=3)
        assert "\n" not in str(caught.value)
        return
    record = bqrl.learn("SafeOrRisky", name, objective=goal, episodes=4, seed=1)
    laws = [goal(law) for law in record.laws]
    assert record.value().tolist() == pytest.approx(laws)
    assert record.gap().tolist() == pytest.approx([bqrl.solve("SafeOrRisky", goal).value - value for value in laws])


def test_cvar_is_the_buffered_quantile_whose_buffer_is_its_level():
    served = {goal.text: {name for name, _ in everyone(goal)} & {"psrl", "target-q", "var-q", "qr-q"} for goal in GOALS}
    assert served == {
        "quantile:0.3": {"psrl", "target-q", "var-q", "qr-q"},
        "cvar:0.3": {"psrl", "target-q", "qr-q"},
        "buffered:0.3,0.1": {"psrl", "qr-q"},
        "mean": {"psrl", "qr-q"},
        "chance:12": {"qr-q"},
        "entropic:0.5": {"qr-q"},
    }


def test_an_objective_without_a_written_form_is_refused():
    with pytest.raises(ValueError, match="objective must have a written form in records, got mean abs; choose one"):
        check_served(LEARNERS["sarsa"], bqrl.Utility(abs))


def test_learners_that_ignore_the_objective_do_the_same_for_every_objective():
    one, other = (bqrl.learn("SafeOrRisky", "ucbvi", objective=goal, episodes=20, seed=1) for goal in GOALS[:2])
    assert one.returns.tolist() == other.returns.tolist()


def test_a_file_without_a_class_says_how_to_name_one():
    with pytest.raises(ValueError, match=r"^learner must name a class of the file, got 'own.py'; write own.py:CLASS$"):
        find_learner("own.py")


def test_a_learner_without_a_method_is_refused_by_its_name():
    class Half(bqrl.Learner):
        def plan(self):
            return [0]

    with pytest.raises(TypeError, match=r"^learner must have the method observe, got Half$"):
        find_learner(Half)


def test_a_parameter_that_an_own_learner_does_not_check_is_named():
    """It once said "'<' not supported between instances of 'str' and 'int'"."""

    class Mine(LEARNERS["psrl"]):
        name = "mine"

        def __init__(self, task, rng, depth=3):
            super().__init__(task, rng)
            assert depth > 0

    with pytest.raises(
        ArgumentTypeError, match="the learner mine must accept its parameters, got depth='deep': '>' not"
    ):
        bqrl.learn("SafeOrRisky", Mine, tau=0.1, episodes=2, depth="deep")
