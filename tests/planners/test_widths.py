"""The search for the decisive width."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import achievable_laws, mixture_optimum, small_mdps

import bqrl
from bqrl.mdp.find_grid import lattice
from bqrl.planners.uncertain import half_radius
from bqrl.planners.widths import NEAREST, WidthSearch


def test_tables_beyond_the_limit_are_forgotten_and_swept_for_again():
    mdp = bqrl.envs.make("AssetSelling")
    ample, short = (
        WidthSearch(mdp=mdp, grid=lattice(mdp), tau=0.1, beta=0.06, max_bytes=limit) for limit in (2**30, 2**15)
    )
    assert ample.upper() == short.upper()
    tables = [sum(done.tables is not None for done in search.sweeps.values()) for search in (ample, short)]
    assert tables[1] < tables[0] == len(ample.sweeps)
    assert ample.policy(3.0, 19).law.mean() == short.policy(3.0, 19).law.mean()


@pytest.mark.parametrize("beta", [1e-9, 1e-7])
def test_bounds_of_neighbouring_targets_do_not_cancel_for_small_buffers(beta):
    """They once came from sums of size 1 / beta; here the same steps are made in fractions."""
    rng = np.random.default_rng(1)
    for _ in range(10):
        rare = rng.random((3, 2, 2)) * 2 * beta
        kernel = np.concatenate([1.0 - rare.sum(axis=2, keepdims=True), rare], axis=2)
        mdp = bqrl.MDP(kernel, rng.integers(0, 30, (3, 2, 3)) + np.array([15.0, 0.0, 0.0]), horizon=3)
        search = WidthSearch(mdp=mdp, grid=lattice(mdp), tau=beta, beta=beta)
        found, _, _ = search.upper()
        unit, narrowest = Fraction(search.grid.step) / Fraction(beta), min(search.sweeps)
        short = [Fraction(w) / Fraction(narrowest) for w in search.sweeps[narrowest].root.tolist()]
        shared = [Fraction(z) for z in np.min(list(search.bounds.values()), axis=0).tolist()]
        for i in range(1, len(shared)):
            shared[i] = min(shared[i], shared[i - 1] + (Fraction(beta) - short[i]) * unit)
        for i in range(len(shared) - 2, -1, -1):
            shared[i] = min(shared[i], shared[i + 1] + (1 - Fraction(beta)) * unit)
        assert found >= float(max(shared)) - 1e-11


def test_long_searches_compare_the_laws_of_near_widths_only(monkeypatch):
    """All targets between two atoms have the same bound; a search of 202 sweeps once computed 20,000 laws."""
    monkeypatch.setattr("bqrl.planners.widths.PATIENCE", 10)
    rows = [(0, 0, 0, 0.5, 40001.0), (0, 0, 0, 0.5, 70000.0), (0, 1, 0, 0.6, 70000.0), (0, 1, 0, 0.4, 0.0)]
    mdp = bqrl.MDP(rows, horizon=1)
    search = WidthSearch(mdp=mdp, grid=lattice(mdp), tau=0.5, beta=0.25)
    bound, _, _ = search.upper()
    assert bound == pytest.approx(mixture_optimum(achievable_laws(mdp), Fraction(1, 2), Fraction(1, 4)))
    n = len(search.sweeps)
    assert n > 10
    assert len(search.found) <= 10 * 11 / 2 + NEAREST * (n - 10)


@given(small_mdps(), st.sampled_from([0.1, 0.4, 2.0]), st.sampled_from([(0.3, 0.1), (0.5, 0.5), (0.9, 0.2)]))
def test_over_a_ball_the_law_of_the_best_kernel_attains_its_sweep_and_stays_below_the_others(mdp, radius, levels):
    staged = mdp.staged()
    grid = lattice(staged)
    half = half_radius(mdp, np.full((mdp.H, mdp.S, mdp.A), radius))
    search = WidthSearch(mdp=staged, grid=grid, tau=levels[0], beta=levels[1], half=half, refine=False)
    last = int(grid.size[0]) - 1
    every = np.array([search.bound(float(d)) for d in range(last + 1)])
    for d in {1.0, float(max(1, last // 2)), float(max(1, last))} & search.sweeps.keys():
        for column in {0, last // 2, last}:
            mass = search._attaining_law(d, column)
            line = search.line(mass, column)
            assert mass.min() >= 0.0
            assert mass.sum() == pytest.approx(1.0)
            assert np.all(line <= every[: column + 1, column] + 1e-9)
            if d <= column:
                assert line[int(d)] == pytest.approx(every[int(d), column], abs=1e-9)


def test_a_long_search_ends_where_all_widths_agree():
    """The widths nearest to the best one lie on one side of it here."""
    stay = np.array([[0.384, 0.782], [0.012, 0.202]])
    mdp = bqrl.MDP(np.stack([stay, 1.0 - stay], axis=2), [[52.0, 33.0], [33.0, 15.0]], horizon=6)
    plan = bqrl.solve(mdp, 0.832, 0.575, randomized=True)
    assert plan.details["sweeps"] > 20
    assert plan.value == pytest.approx(plan.upper, rel=1e-12)


def test_rounding_of_a_small_buffer_does_not_send_the_search_through_every_width():
    lines = [
        (0, 0, 1, 0.001, 0.0),
        (0, 0, 1, 0.999, 0.2),
        *((1, 0, s, 1 / 3, r) for s, r in ((1, 0.2), (0, 0.0), (1, 0.1))),
    ]
    plan = bqrl.solve(bqrl.MDP(lines, horizon=2, discount=1 / 3), 0.001, beta=7e-8)
    assert plan.details["sweeps"] < 40
    assert plan.value <= 1 / 15 + 1e-12 <= plan.upper <= 1 / 15 + 1e-6
