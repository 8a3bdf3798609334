"""Random small models of every kind that an MDP can hold, and how to tell two of them apart."""

import numpy as np
from hypothesis import strategies as st

from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

FIELDS = ("H", "S", "A", "discount", "state_names", "action_names")
ARRAYS = ("mu", "row_start", "successor", "probability", "reward", "available", "known")

P = np.array(
    [[[0.5, 0.5, 0.0], [0.0, 0.25, 0.75]], [[0.0, 1.0, 0.0], [0.1, 0.2, 0.7]], [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]]
)  # a kernel (S, A, S)
R = np.array([[0.0, 1.0], [-2.0, 0.5], [1 / 3, 0.0]])

COIN = {0: 0.5, 1: 0.5}


def inventory(stock, order, demand):
    """A step function: sales at 5 from stock and orders at 2."""
    sold = min(stock + order, demand)
    return stock + order - sold, 5 * sold - 2 * order


def walk(state, action, event):
    """A step function on pairs: a position and a parity, clipped."""
    x, y = state
    return (min(max(x + action - event, 0), 5), (y + event) % 3), float(x * action)


rewards = st.one_of(
    st.integers(-3, 3).map(float),
    st.sampled_from([0.1, 1 / 3, 1 / 24, -0.7, 86.2971023227292]),
    st.floats(-1e6, 1e6).map(lambda r: 0.0 if abs(r) < 1e-200 else r),  # smaller ones are refused, see test_validation
)


def assert_same(one, other, but=()):
    """Two models agree bit for bit, except in the fields named."""
    for field in FIELDS:
        if field not in but:
            assert getattr(one, field) == getattr(other, field), field
    for field in ARRAYS:
        if field not in but:
            left, right = getattr(one, field), getattr(other, field)
            assert left.shape == right.shape, field
            assert left.dtype == right.dtype, field
            assert np.array_equal(left, right), field
    assert (one.row_reward is None) == (other.row_reward is None)


@st.composite
def laws(draw, size):
    """A probability vector: counts, which often tie and often vanish, or any weights."""
    if draw(st.booleans()):
        weights = draw(st.lists(st.integers(0, 4), min_size=size, max_size=size).filter(any))
    else:
        weights = draw(st.lists(st.floats(0, 1), min_size=size, max_size=size).filter(lambda w: sum(w) > 1e-3))
    weights = np.array(weights, float)
    return weights / weights.sum()


@st.composite
def dense_models(draw, staged=None, zeros=True):
    """Arguments of a dense MDP with masks, support, known rows and names."""
    S, A, H = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    staged = draw(st.booleans()) if staged is None else staged
    K = H if staged else 1
    P = np.array([[[draw(laws(S)) for _ in range(A)] for _ in range(S)] for _ in range(K)])
    shape = draw(
        st.sampled_from([(S, A), (H, S, A), (H, S, A, S)][:: 2 if H == S == A else 1])
    )  # (H,S,A) is not (S,A,S)
    R = np.array(draw(st.lists(rewards, min_size=int(np.prod(shape)), max_size=int(np.prod(shape))))).reshape(shape)
    optional = {}
    if zeros and draw(st.booleans()):
        optional["support"] = np.array(draw(st.lists(st.booleans(), min_size=S * A * S, max_size=S * A * S))).reshape(
            S, A, S
        )
    if draw(st.booleans()):
        mask = np.array(draw(st.lists(st.booleans(), min_size=S * A, max_size=S * A))).reshape(S, A)
        mask[:, 0] = True
        optional["available"] = mask
    if zeros and draw(st.booleans()):
        optional["known"] = np.array(draw(st.lists(st.booleans(), min_size=S * A, max_size=S * A))).reshape(S, A)
    if draw(st.booleans()):
        optional["state_names"] = [f"zustand {s}, größer" for s in range(S)]
        optional["action_names"] = [f"a{a}" for a in range(A)]
    start = draw(st.one_of(st.integers(0, S - 1), laws(S)))
    discount = draw(st.sampled_from([1.0, 0.9, 1 / 3]))
    return {
        "transitions": P if staged else P[0], "rewards": R, "start": start, "horizon": H, "discount": discount, **optional,
    }  # fmt: skip


@st.composite
def listed_models(draw, staged=None):
    """A model of listed transitions, random rewards included."""
    S, A, H = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    staged = draw(st.booleans()) if staged is None else staged
    listed = []
    for h in range(H if staged else 1):
        for s in range(S):
            for a in range(A):
                if a > 0 and draw(st.booleans()):
                    continue
                size = draw(st.integers(1, 4))
                p = draw(laws(size))
                for i in range(size):
                    line = [s, a, draw(st.integers(0, S - 1)), p[i], draw(rewards)]
                    listed.append([h, *line] if staged else line)
    return MDP(listed, horizon=H, start=draw(st.integers(0, S - 1)), discount=draw(st.sampled_from([1.0, 0.5])))


def models():
    """Any model."""
    return st.one_of(dense_models().map(lambda given: MDP(**given)), listed_models())


@st.composite
def step_models(draw_):
    """A random step table with a law over events, the model of it, and the law's size."""
    S, A, E, H = (draw_(st.integers(1, top)) for top in (4, 3, 4, 4))
    staged = draw_(st.booleans())
    table = np.array(draw_(st.lists(st.integers(0, S - 1), min_size=S * A * E, max_size=S * A * E))).reshape(S, A, E)
    paid = np.array(draw_(st.lists(st.integers(-1, 1), min_size=S * A * E, max_size=S * A * E))).reshape(S, A, E)
    noise = [dict(enumerate(draw_(laws(E)).tolist())) for _ in range(H if staged else 1)]
    mdp = from_step(
        lambda s, a, e: (int(table[s, a, e]), float(paid[s, a, e])), range(A), noise if staged else noise[0], H, 0
    )
    return mdp, table, paid, [np.array(list(law.values())) for law in noise]


def assert_same_noise(one, other):
    """Two models share their noise alike, but for the labels of events, which files write as text."""
    one, other = one.noise, other.noise
    assert one.event_names == other.event_names
    for left, right in zip(one.probabilities, other.probabilities, strict=True):
        assert np.array_equal(left, right, equal_nan=True)
    for field in ("row_law", "row_start", "pair_start", "pair_outcome"):
        assert np.array_equal(getattr(one, field), getattr(other, field)), field
    assert (one.events_observed, one.cut) == (other.events_observed, other.cut)
