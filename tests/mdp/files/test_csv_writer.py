"""CSV written from models: everything comes back, or the writer says what the columns cannot hold."""

import numpy as np
import pytest
from hypothesis import given
from mdp_strategies import assert_same, assert_same_noise, dense_models, listed_models, step_models

from bqrl import MDP, from_step, load, save
from bqrl.errors import ModelWarning

HEADER = "idstatefrom,idaction,idstateto,probability,reward"


def refusal(call, *arguments, **options):
    """The message of the ValueError that a call raises, or nothing; any other exception goes through."""
    try:
        call(*arguments, **options)
    except ValueError as error:
        return str(error)
    return ""


@given(listed_models())
def test_a_model_survives_csv(tmp_path_factory, mdp):
    path = tmp_path_factory.mktemp("files") / "model.csv"
    save(mdp, path)
    assert_same(mdp, load(path))


@given(dense_models(zeros=False))
def test_names_and_facts_survive_csv_or_are_refused(tmp_path_factory, arguments):
    mdp = MDP(**arguments, units="EUR")
    path = tmp_path_factory.mktemp("files") / "model.csv.gz"
    refused = refusal(mdp.save, path)
    if refused:
        assert "; save to .npz instead" in refused
        assert not path.exists()
    else:
        again = load(path)
        assert_same(mdp, again)
        assert again.units == "EUR"


@given(listed_models())
def test_plain_csv_holds_the_columns_alone(tmp_path_factory, mdp):
    path = tmp_path_factory.mktemp("files") / "model.csv"
    refused = refusal(save, mdp, path, plain=True)
    if refused:
        assert "cannot hold a first or last" in refused
    else:
        assert path.read_text().startswith((HEADER, f"stage,{HEADER}"))
        assert_same(mdp, load(path, horizon=mdp.H, start=mdp.start, discount=mdp.discount))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"rewards": np.zeros((4, 2, 1)) + np.arange(4)[:, None, None]}, "rewards that differ by stage"),
        ({"support": np.ones((2, 1, 2), bool)}, "possible successors of probability zero"),
        ({"known": np.ones((2, 1), bool)}, "rows known to learners"),
    ],
)
def test_csv_refuses_what_it_cannot_hold(tmp_path, options, what):
    arguments = {"transitions": [[[0.5, 0.5]], [[0.0, 1.0]]], "rewards": [[0.0], [1.0]], "horizon": 4} | options
    with pytest.raises(ValueError, match=rf"a .csv file cannot hold {what}.*; save to .npz instead"):
        MDP(**arguments).save(tmp_path / "model.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "names", [("a;b", "c"), ("a,", "b"), ("a=1", "b"), ("50%", "b"), ("# a", "b"), ('"', "'"), ("a;", "b;")]
)
def test_names_with_separators_survive_csv(tmp_path, names):
    mdp = MDP(
        np.full((2, 2, 2), 0.5), np.zeros((2, 2)), horizon=2, start=[0.25, 0.75], state_names=names, action_names=names
    )
    save(mdp, tmp_path / "m.csv")
    assert_same(mdp, load(tmp_path / "m.csv"))


# -- shared noise ------------------------------------------------------------------------------------------------------


@given(step_models())
def test_shared_noise_survives_csv(tmp_path_factory, case):
    mdp = case[0]
    path = tmp_path_factory.mktemp("files") / "model.csv"
    save(mdp, path)
    again = load(path)
    assert_same(mdp, again)
    used = [law for law in range(len(mdp.noise.events)) if np.any(mdp.noise.row_law == law)]
    if len(used) == len(mdp.noise.events):
        assert_same_noise(mdp, again)
    else:  # a law that drives no row has no line
        assert (again.noise is None) == (not used)


def test_facts_of_the_noise_survive_csv(tmp_path):
    def step(stock, order, demand):
        sold = min(stock + order, demand)
        return stock + order - sold, 5.0 * sold

    laws = [{0: 0.5, 1: 0.5, 2: 0.0}, {0: 0.25, 2: 0.75}]
    mdp = from_step(step, lambda stock: range(3 - stock), laws, 2, 1, events_observed=False)
    save(mdp, tmp_path / "m.csv")
    again = load(tmp_path / "m.csv")
    assert_same(mdp, again)
    assert_same_noise(mdp, again)
    assert "law,event" in (tmp_path / "m.csv").read_text()


def test_laws_that_are_not_known_are_left_out_with_a_notice(tmp_path):
    mdp = from_step(lambda s, a, e: (e, 0.0), ["go"], {0: 0.5, 1: 0.5}, 2, 0)
    hidden = mdp.with_probability(mdp.probability)
    with pytest.warns(
        ModelWarning, match=r"does not keep the noise, whose laws are not known; save to \.json or \.npz"
    ):
        save(hidden, tmp_path / "m.csv")
    assert load(tmp_path / "m.csv").noise is None


def test_plain_csv_has_no_events(tmp_path):
    mdp = from_step(lambda s, a, e: (e, 0.0), ["go"], {0: 0.5, 1: 0.5}, 2, 0)
    save(mdp, tmp_path / "m.csv", plain=True)
    assert (tmp_path / "m.csv").read_text().startswith(HEADER + "\n")


@pytest.mark.parametrize(
    ("events", "what"),
    [
        (("1", 1), "events that share a name"),
        (("", "x"), "events without a proper name"),
        ((" a", "b"), "events without"),
    ],
)
def test_events_without_a_name_of_their_own_are_refused(tmp_path, events, what):
    mdp = from_step(lambda s, a, e: (0, float(e == events[0])), ["go"], dict.fromkeys(events, 0.5), 2, 0)
    with pytest.raises(ValueError, match=rf"a \.csv file cannot hold {what}.*; save to \.npz instead"):
        save(mdp, tmp_path / "m.csv")
