"""Asset selling: the paper's Section 5.1 in numbers."""

from fractions import Fraction

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import bqrl
from bqrl.envs.asset_selling import CONTINUE, STOP, asset_selling, offer_law


def test_the_papers_problem():
    mdp = bqrl.envs.make("AssetSelling")
    assert (mdp.H, mdp.S, mdp.A, mdp.start, mdp.discount) == (10, 26, 2, 5, 1.0)
    assert mdp.stationary
    assert mdp.available.all()
    assert mdp.state_names == (*map(str, range(25)), "sold")
    assert mdp.action_names == ("Stop", "Continue")
    for s in range(25):
        successors, p, r = mdp.outcomes(0, s, STOP)
        assert (successors.tolist(), p.tolist(), r.tolist()) == ([25], [1.0], [s / 24])
        successors, p, r = mdp.outcomes(9, s, CONTINUE)
        assert successors.tolist() == list(range(25))
        assert p.tolist() == [1 / 25] * 25
        assert not r.any()
    for a in (STOP, CONTINUE):
        successors, p, r = mdp.outcomes(4, 25, a)
        assert (successors.tolist(), p.tolist(), r.tolist()) == ([25], [1.0], [0.0])


def test_learners_know_all_but_the_law_of_the_next_offer():
    structure = bqrl.envs.make("AssetSelling").structure
    assert structure.known[0, :, STOP].all()
    assert structure.known[0, 25].all()
    assert not structure.known[0, :25, CONTINUE].any()
    assert (structure.support_size[0, :25, CONTINUE] == 25).all()
    assert np.count_nonzero(np.isnan(structure.probability)) == 25 * 25


def best_mean(law, H, start):
    """Value of the best stopping rule, in exact fractions: V_h = E max(offer, V_(h+1))."""
    n = len(law)
    later = Fraction(0)
    for _ in range(H - 1):
        later = sum(p * max(Fraction(s, n - 1), later) for s, p in enumerate(law))
    return max(Fraction(start, n - 1), later)


def best_mean_of(mdp):
    V = np.zeros(mdp.S)
    for h in reversed(range(mdp.H)):
        stage = mdp.stage(h)
        Q = np.add.reduceat(stage.probability * (stage.reward + V[stage.successor]), stage.row_start[:-1])
        V = Q.reshape(mdp.S, mdp.A).max(axis=1)
    return V[mdp.start]


def test_the_risk_neutral_optimum_is_known():
    assert best_mean_of(asset_selling()) == pytest.approx(0.86398, abs=5e-6)
    assert best_mean_of(asset_selling()) == pytest.approx(float(best_mean([Fraction(1, 25)] * 25, 10, 5)))


def test_parameters_change_the_size():
    mdp = asset_selling(offers=7, horizon=3, start=6)
    assert (mdp.S, mdp.H, mdp.start) == (8, 3, 6)
    assert mdp.outcomes(0, 6, STOP)[2].tolist() == [1.0]
    assert best_mean_of(asset_selling(7, 3, 2)) == pytest.approx(float(best_mean([Fraction(1, 7)] * 7, 3, 2)))


def test_distributions():
    assert offer_law("uniform", 4).tolist() == [0.25] * 4
    geometric = offer_law("geometric", 25, ratio=0.85)
    assert np.allclose(geometric[1:] / geometric[:-1], 0.85)
    assert np.allclose(offer_law("geometric", 2000, ratio=3.0)[-2:], [2 / 9, 2 / 3])
    humps = offer_law("two-humped", 25)
    peaks = [s for s in range(1, 24) if humps[s - 1] < humps[s] > humps[s + 1]]
    assert peaks == [5, 19]
    for law in (geometric, humps):
        assert law.sum() == pytest.approx(1.0, abs=1e-15)
    for law in ("geometric", "two-humped", [0.5, 0.0, 0.25, 0.25]):
        mdp = asset_selling(4, 3, 1, distribution=law)
        assert np.array_equal(mdp.outcomes(0, 2, CONTINUE)[1], offer_law(law, 4))


def test_offers_of_probability_zero_stay_possible():
    mdp = asset_selling(3, 2, 1, distribution=[0.0, 0.5, 0.5])
    assert mdp.outcomes(0, 0, CONTINUE)[0].tolist() == [0, 1, 2]
    assert mdp.structure.support_size[0, 0, CONTINUE] == 3


def test_stop_at_end_takes_continue_away_from_the_last_offers():
    free, forced = asset_selling(), asset_selling(stop_at_end=True)
    assert not forced.stationary
    assert forced.available[:-1].all()
    assert forced.available[-1].tolist() == [[True, False]] * 25 + [[True, True]]
    for h in range(9):
        assert np.array_equal(free.stage(h).probability, forced.stage(h).probability)
        assert np.array_equal(free.stage(h).reward, forced.stage(h).reward)
        assert np.array_equal(forced.known[h], free.known[0])
    last = forced.stage(9)
    assert np.count_nonzero(np.diff(last.row_start)) == 27


def test_the_callers_distribution_stays_theirs():
    law = np.array([0.25, 0.25, 0.5])
    mdp = asset_selling(3, 2, 1, distribution=law)
    law[0] = 1.0
    assert mdp.outcomes(0, 0, CONTINUE)[1].tolist() == [0.25, 0.25, 0.5]


@pytest.mark.parametrize("ending", ["csv", "npz", "json"])
def test_it_survives_a_file(tmp_path, ending):
    mdp = asset_selling(distribution="geometric")
    mdp.save(tmp_path / f"m.{ending}")
    again = bqrl.load(tmp_path / f"m.{ending}", horizon=10, start=5)
    assert np.array_equal(again.probability, mdp.probability)
    assert np.array_equal(again.reward, mdp.reward)
    assert np.array_equal(again.known, mdp.known)


# -- names and Gymnasium -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"distribution": "geometric", "horizon": 4}, {"stop_at_end": True}])
def test_the_registered_environment_passes_gymnasiums_own_checker(options):
    env = gym.make("bqrl/AssetSelling-v0", **options)
    check_env(env.unwrapped)
    assert repr(env.unwrapped.mdp) == repr(bqrl.envs.make("AssetSelling", **options))


def test_selling_ends_the_money_not_the_episode():
    env = gym.make("bqrl/AssetSelling-v0")
    state, _ = env.reset(seed=0)
    assert state == 5
    told = [env.step(STOP) for _ in range(10)]
    assert [reward for _, reward, *_ in told] == [5 / 24] + [0.0] * 9
    assert [int(state) for state, *_ in told] == [25] * 10
    assert [ended for _, _, ended, *_ in told] == [False] * 9 + [True]


def test_asset_selling_shares_one_law_of_offers_at_every_stage():
    mdp = asset_selling(distribution="geometric", stop_at_end=True, shared=True)
    noise = mdp.noise
    assert noise.row_law.shape == (10, 26, 2)
    assert np.count_nonzero(noise.row_law == 0) == 9 * 25
    assert noise.separates.sum() == 9 * 25  # an offer is seen, so every row reveals the law
    first = noise.row_start[noise.row(3, 7, 1)]
    assert noise.outcome_event[first : first + 25].tolist() == list(range(25))
    assert noise.outcome_event[noise.row_start[noise.row(3, 7, 0)]] == -1
