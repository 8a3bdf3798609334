"""Learners have colours of their own in every chart."""

import numpy as np

from bqrl.learners.run import LEARNERS
from bqrl.results.learning_curves import learner_colours
from bqrl.study.scores import Contender


def test_the_colour_of_a_learner_depends_neither_on_its_name_nor_on_the_others():
    everyone = [Contender(label=f"our {name}", learner=name) for name in LEARNERS]
    everyone.insert(
        3, Contender(label="as published", learner="ucb-bqrl", params={"planner": "greedy", "stationary": False})
    )
    together = learner_colours(everyone)
    assert len(set(together.values())) == len(everyone)
    for one in everyone:
        assert learner_colours([Contender(label="x", learner=one.learner, params=one.params)]) == {
            "x": together[one.label]
        }
    target = Contender(label="x", learner="ucb-bqrl", params={"planner": "target", "stationary": False})
    assert learner_colours([target]) == {"x": together["our ucb-bqrl"]}
    three = [
        Contender(label="a", learner="psrl"),
        Contender(label="b", learner="ucb-bqrl"),
        Contender(label="c", learner="psrl", params={"prior": 2.0}),
    ]
    assert learner_colours(three) == {"a": "#7B5EA7", "b": "#0072B2", "c": "#E600E6"}
    assert learner_colours([Contender(label="x", learner=LEARNERS["psrl"])]) == {"x": together["our psrl"]}


def test_variants_and_unknown_learners_take_no_colour_of_another_learner_while_there_are_others():
    known = set(learner_colours([Contender(label=name, learner=name) for name in LEARNERS]).values())
    variants = learner_colours(
        [Contender(label=str(prior), learner="psrl", params={"prior": prior}) for prior in range(4)]
    )
    assert len(set(variants.values())) == 4
    assert len(known & set(variants.values())) == 1
    assert learner_colours([Contender(label="mine", learner=lambda task, rng: None)])["mine"] not in known


def test_the_first_own_learner_is_far_from_the_colours_of_all_others():
    """It was nearly that of VaR Q-learning, and close to that of Q-learning."""
    known = learner_colours([Contender(label=name, learner=name) for name in LEARNERS])
    own = learner_colours([Contender(label="mine", learner=lambda task, rng: None)])["mine"]
    assert min(np.linalg.norm(seen(own) - seen(colour)) for colour in known.values()) > 50.0


def seen(colour):
    """A colour in CIELAB, in which equal distances look alike."""
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255.0
    light = np.where(rgb > 0.04045, ((rgb + 0.055) / 1.055) ** 2.4, rgb / 12.92)
    x, y, z = np.cbrt([[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8729]] @ light)
    return np.array([116.0 * y, 500.0 * (x - y), 200.0 * (y - z)])


def test_any_number_of_learners_have_colours_that_one_can_tell_apart():
    """Once, the colours repeated after twelve learners."""
    for count, least in ((12, 50.0), (30, 30.0), (100, 10.0)):
        many = learner_colours([Contender(label=str(i), learner="psrl", params={"prior": i}) for i in range(count)])
        shades = np.array([[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in many.values()], float)
        apart = np.linalg.norm(shades[:, None] - shades[None], axis=2)[~np.eye(count, dtype=bool)]
        assert apart.min() >= least
