"""The draw from a law, plain and compiled."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from mdp_strategies import laws

from bqrl.loops import draws, rollout
from bqrl.loops.rollout import draw_many


def test_draws_never_pick_an_impossible_outcome():
    row_start, probability = np.array([0, 4]), np.array([0.0, 0.5, 0.5 - 1e-17, 0.0])
    u = np.array([0.0, 0.4999, 0.5, 0.999999, 1.0 - 2**-53])
    outcome = np.empty(5, np.int64)
    draw_many(row_start, probability, np.zeros(5, np.int64), u, outcome)
    assert outcome.tolist() == [1, 1, 2, 2, 2]


@given(st.integers(1, 8).flatmap(laws), st.lists(st.floats(0, 1, exclude_max=True), max_size=20))
def test_every_draw_inverts_the_running_sums_and_never_picks_an_impossible_entry(p, given_levels):
    running = np.cumsum(p)
    at_steps = [u for u in (*running, *np.nextafter(running, 0.0)) if 0.0 <= u < 1.0]  # the ends of every entry
    u = np.sort([0.0, 1.0 - 2.0**-53, *at_steps, *given_levels])
    expected = [next((i for i in range(p.size) if running[i] > x), np.flatnonzero(p)[-1]) for x in u]
    outcome = np.empty(u.size, np.int64)
    draw_many(np.array([0, p.size]), p, np.zeros(u.size, np.int64), u, outcome)
    assert [draws.draw(p.tolist(), 0, p.size, x) for x in u] == expected
    assert [rollout.draw(p, 0, p.size, x) for x in u] == expected
    assert outcome.tolist() == expected
    assert (p[expected] > 0.0).all()


@given(st.integers(1, 8).flatmap(laws), st.lists(st.floats(0, 1, exclude_max=True), max_size=20))
def test_a_draw_from_running_sums_picks_the_same_entry(p, u):
    p = p[p > 0.0]
    running = np.cumsum(p)
    running[-1] = 1.0
    assert draws.draw_sorted(running, np.array(u)).tolist() == [draws.draw(p.tolist(), 0, p.size, x) for x in u]
