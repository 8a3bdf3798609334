"""Problems with continuous states whose answers are known from elsewhere."""

import numpy as np
import pytest
from scipy import stats

import bqrl


def within(plan, mean, error):
    return plan.value - 4.0 * error <= mean <= plan.upper + 4.0 * error


# -- an American put on ten dates under geometric Brownian motion ------------------------------------------------------

RATE, SIGMA, DATES = 0.05, 0.3, 10
DT = 1.0 / DATES


def put(states, actions, events):
    """Coordinates: the price, and whether the option is still held."""
    price, held = states.T
    paid = np.where((actions == 1) & (held == 1.0), np.maximum(1.0 - price, 0.0), 0.0)
    moved = price * np.exp((RATE - SIGMA**2 / 2) * DT + SIGMA * np.sqrt(DT) * events)
    return np.stack([moved, np.where(actions == 1, 0.0, held)], axis=1), paid


def bermudan():
    """The value on the same dates, by repeated integration on a fine grid of logarithms."""
    x = np.linspace(-3.0, 3.0, 6_001)
    k = np.arange(-1_000, 1_001) * (x[1] - x[0])
    weights = stats.norm.pdf(k, (RATE - SIGMA**2 / 2) * DT, SIGMA * np.sqrt(DT))
    weights /= weights.sum()
    pay = np.maximum(1.0 - np.exp(x), 0.0)
    value = pay
    for _ in range(DATES):
        held = np.convolve(np.pad(value, 1_000, mode="edge"), weights[::-1], mode="valid")
        value = np.maximum(pay, np.exp(-RATE * DT) * held)
    return float(value[3_000])


def binomial(steps=1_000):
    """The American put on a binomial tree."""
    dt = 1.0 / steps
    up = np.exp(SIGMA * np.sqrt(dt))
    q = (np.exp(RATE * dt) - 1.0 / up) / (up - 1.0 / up)
    value = np.maximum(1.0 - up ** np.arange(steps, -steps - 1, -2.0), 0.0)
    for i in range(steps - 1, -1, -1):
        held = np.exp(-RATE * dt) * (q * value[:-1] + (1.0 - q) * value[1:])
        value = np.maximum(1.0 - up ** np.arange(i, -i - 1, -2.0), held)
    return float(value[0])


def european():
    """The formula of Black and Scholes, a lower limit."""
    d = (RATE + SIGMA**2 / 2) / SIGMA
    return float(np.exp(-RATE) * stats.norm.cdf(SIGMA - d) - stats.norm.cdf(-d))


def test_american_put_between_its_limits():
    grid = {"price": np.r_[0.0, np.geomspace(0.4, 2.5, 300)], "held": [0.0, 1.0]}
    model = bqrl.from_step(
        put, [0, 1], stats.norm(), DATES + 1, (1.0, 1.0), grid=grid, monotone={"price": -1, "held": 1, "event": -1},
        vectorized=True, cells=100, reward_range=(0.0, 1.0), discount=np.exp(-RATE * DT),
    )  # fmt: skip
    plan = bqrl.solve(model, bqrl.Mean())
    truth = bermudan()
    assert european() < truth < binomial()
    assert truth == pytest.approx(0.09809, abs=2e-5)
    assert plan.value <= truth <= plan.upper
    assert plan.gap < 0.04
    returns = bqrl.simulate(model, plan.policy, 20_000, seed=0)
    assert within(plan, returns.mean(), returns.std() / np.sqrt(returns.size))
    assert returns.mean() == pytest.approx(truth, abs=0.004)


# -- trading a price that returns to its mean, inventory held to 5 -----------------------------------------------------

KAPPA, VOLATILITY, COST, PENALTY, LIMIT = 2.0, 1.0, 0.005, 0.5, 5.0
RHO = np.exp(-KAPPA / 10)
ETA = VOLATILITY * np.sqrt((1.0 - RHO**2) / (2.0 * KAPPA))
TRADES = np.round(np.linspace(-2.0, 2.0, 21), 10)


def trade(states, actions, events):
    """Coordinates: price and inventory; the reward is the gain in market value, so that the sum is that of the cash flows."""
    price, stock = states.T
    after = np.round(np.clip(stock + actions, -LIMIT, LIMIT), 10)
    moved = 1.0 + RHO * (price - 1.0) + ETA * events
    reward = after * (moved - price) - COST * (after - stock) ** 2 - PENALTY * (after**2 - stock**2)
    return np.stack([moved, after], axis=1), reward


def best_trading_mean():
    """The best mean by dynamic programming with quadrature on a fine grid of prices."""
    price, stock = np.linspace(-2.5, 4.5, 301), np.round(np.arange(-LIMIT, LIMIT + 0.1, 0.2), 10)
    nodes, weights = np.polynomial.hermite_e.hermegauss(21)
    weights = weights / weights.sum()
    value = np.zeros((price.size, stock.size))
    moved = 1.0 + RHO * (price[:, None] - 1.0) + ETA * nodes
    drift = 1.0 + RHO * (price - 1.0) - price
    bought = stock[None, :] - stock[:, None]
    cost = np.where(
        np.abs(bought) <= 2.0 + 1e-9, COST * bought**2 + PENALTY * (stock[None, :] ** 2 - stock[:, None] ** 2), np.inf
    )
    for _ in range(10):
        onward = np.stack([np.interp(moved, price, column) @ weights for column in value.T], axis=1)
        onward += drift[:, None] * stock
        value = np.stack([(onward - row).max(axis=1) for row in cost], axis=1)
    return float(np.interp(1.0, price, value[:, stock.size // 2]))


def test_trading_a_mean_reverting_price_by_lipschitz_constants():
    truth = best_trading_mean()
    assert truth == pytest.approx(1.493, abs=2e-3)
    grid = {"price": np.linspace(-4.9, 6.9, 60), "stock": np.round(np.linspace(-LIMIT, LIMIT, 51), 10)}
    state = [[RHO, 0.0], [0.0, 1.0]]
    model = bqrl.from_step(
        trade, TRADES.tolist(), stats.truncnorm(-4.0, 4.0), 10, (1.0, 0.0), grid=grid, vectorized=True, cells=12,
        lipschitz=(state, [LIMIT * (1.0 - RHO), 25.0]), event_lipschitz=([ETA, 0.0], LIMIT * ETA),
    )  # fmt: skip
    assert model.upper is model.lower
    plan = bqrl.solve(model, bqrl.Mean())
    assert plan.value <= truth <= plan.upper
    assert plan.upper - plan.value == pytest.approx(2.0 * model.total_error)
    first = LIMIT * (1.0 - RHO) * np.abs(1.0 - grid["price"]).min()
    assert model.error[0] == pytest.approx(first + LIMIT * ETA * 4.0 / 12)  # half a cell of 8 / 12
    returns = bqrl.simulate(model, plan.policy, 2_000, seed=0)
    assert returns.mean() >= plan.value


# -- storage with a chain of prices: the stock is continuous -----------------------------------------------------------

NEXT = {1.0: [1, 1, 1, 1, 1, 1, 2, 2, 2, 4], 2.0: [1, 1, 2, 2, 2, 2, 2, 2, 4, 4], 4.0: [1, 2, 2, 2, 2, 4, 4, 4, 4, 4]}


def store(state, action, event):
    """Buy one, wait, or sell up to one; 3 % are lost per stage."""
    stock, price = state
    sold = min(1.0, stock) if action == "sell" else 0.0
    stock = min(5.0, stock + (action == "buy")) - sold
    return (0.97 * stock, float(NEXT[price][event])), price * (0.95 * sold - (action == "buy"))


def storage(points):
    grid = {"stock": np.linspace(0.0, 5.0, points), "price": [1.0, 2.0, 4.0]}
    noise = dict.fromkeys(range(10), 0.1)
    return bqrl.from_step(store, ["buy", "wait", "sell"], noise, 4, (0.0, 2.0), grid=grid, monotone={"stock": 1})


def test_storage_with_a_price_chain():
    exact = bqrl.from_step(store, ["buy", "wait", "sell"], dict.fromkeys(range(10), 0.1), 4, (0.0, 2.0))
    for goal in (bqrl.Quantile(0.25), bqrl.Quantile(0.75), bqrl.Mean()):
        best, gaps = bqrl.solve(exact, goal).value, []
        for points in (26, 51):
            plan = bqrl.solve(storage(points), goal)
            assert plan.value - 1e-9 <= best <= plan.upper + 1e-9
            gaps.append(plan.gap)
        assert gaps[1] <= gaps[0]
    returns = bqrl.simulate(storage(51), plan.policy, 4_000, seed=0)
    assert within(plan, returns.mean(), returns.std() / np.sqrt(returns.size))


# -- a sum of normal variables: the law of the return is known -----------------------------------------------------------


def test_the_quantile_of_an_autoregression_is_that_of_a_normal_law():
    def drift(states, actions, events):
        return 0.5 * states + events[:, None], states[:, 0]

    model = bqrl.from_step(
        drift, [0], stats.norm(0.0, 0.2), 4, (1.0,), grid={"x": np.linspace(-1.5, 2.5, 301)}, vectorized=True, cells=250,
        lipschitz=(0.5, 1.0), event_lipschitz=(1.0, 0.0),
    )  # fmt: skip
    assert model.infinite == (True, True)  # the infinite cells leave the grid
    spread = 0.2 * np.sqrt(1.75**2 + 1.5**2 + 1.0)  # weights of the three events that are paid
    for tau in (0.1, 0.5, 0.9):
        truth, plan = 1.875 + spread * stats.norm.ppf(tau), bqrl.solve(model, tau=tau, points=2_000)
        assert plan.value <= truth <= plan.upper
        assert plan.gap < 0.2
    by_order = bqrl.from_step(
        drift, [0], stats.norm(0.0, 0.2), 4, (1.0,), grid={"x": np.linspace(-1.5, 2.5, 301)}, vectorized=True, cells=250,
        monotone={"x": 1, "event": 1},
    )  # fmt: skip
    plan = bqrl.solve(by_order, tau=0.1, points=2_000)
    assert plan.value <= 1.875 + spread * stats.norm.ppf(0.1) <= plan.upper
    assert plan.gap < 0.2
    assert bqrl.solve(by_order, tau=1e-8, points=500).value == -np.inf  # the infinite cells alone have more mass


def affine_trading(points, cells):
    grid = {"price": np.linspace(-1.0, 3.0, points), "stock": np.round(np.linspace(-2.0, 2.0, 5), 10)}

    def held_to_two(states, actions, events):
        price, stock = states.T
        after = np.clip(stock + actions, -2.0, 2.0)
        moved = 1.0 + RHO * (price - 1.0) + ETA * events
        reward = after * (moved - price) - COST * (after - stock) ** 2 - PENALTY * (after**2 - stock**2)
        return np.stack([moved, after], axis=1), reward

    return bqrl.from_step(
        held_to_two, [-1.0, 0.0, 1.0], stats.norm(), 10, (1.0, 0.0), grid=grid, vectorized=True, cells=cells, affine=["price"],
        lipschitz=([[RHO, 0.0], [0.0, 1.0]], [2.0 * (1.0 - RHO), 25.0]), event_lipschitz=([ETA, 0.0], 2.0 * ETA),
    )  # fmt: skip


def test_trading_a_mean_reverting_price_by_convexity():
    """The bracket of the mean closes with the square of the spacing; the policy attains its lower end."""
    price, stock = np.linspace(-2.5, 4.5, 701), np.arange(-2.0, 2.5)
    nodes, weights = np.polynomial.hermite_e.hermegauss(31)
    value = np.zeros((price.size, 5))
    moved = 1.0 + RHO * (price[:, None] - 1.0) + ETA * nodes
    for _ in range(10):
        onward = np.stack([np.interp(moved, price, column) @ (weights / weights.sum()) for column in value.T], axis=1)
        onward += (RHO - 1.0) * (price - 1.0)[:, None] * stock
        cost = [
            COST * (stock - q) ** 2 + PENALTY * (stock**2 - q**2) + np.where(abs(stock - q) > 1, np.inf, 0)
            for q in stock
        ]
        value = np.stack([(onward - row).max(axis=1) for row in cost], axis=1)
    truth = float(np.interp(1.0, price, value[:, 2]))
    coarse, fine = (bqrl.solve(affine_trading(*sizes), bqrl.Mean()) for sizes in ((21, 150), (41, 300)))
    for plan in (coarse, fine):
        assert plan.value <= truth + 1e-4
        assert truth <= plan.upper + 1e-4
    assert fine.gap < 0.4 * coarse.gap
    assert fine.gap < 0.1
    assert [p.size for p in affine_trading(11, 20).refined().grid.values()] == [21, 5]
    model = fine.details["model"]
    returns = bqrl.simulate(model, fine.policy, 20_000, seed=0)
    assert within(fine, returns.mean(), returns.std() / np.sqrt(returns.size))
    for call, goal in (
        (bqrl.solve, bqrl.Quantile(0.1)),
        *((bqrl.guarantee_curve, each) for each in (bqrl.Quantile, bqrl.CVaR)),
    ):
        with pytest.raises(
            ValueError, match="affine must be omitted unless solve is called for Mean, CVaR or MeanCVaR"
        ):
            call(model, goal)


def test_cvar_of_a_mean_reverting_price():
    """The bracket of CVaR closes faster than the spacing, and the policy attains its lower end."""
    coarse, fine = (
        bqrl.solve(affine_trading(points, cells), bqrl.CVaR(0.5), points=columns)
        for points, cells, columns in ((21, 60, 400), (41, 120, 800))
    )
    assert max(coarse.value, fine.value) <= min(coarse.upper, fine.upper)
    assert fine.gap < 0.55 * coarse.gap
    model = fine.details["model"]
    returns = bqrl.simulate(model, fine.policy, 5_000, seed=0)
    assert fine.value - 0.05 <= returns.cvar(0.5) <= fine.upper + 0.05
    with pytest.raises(ValueError, match="max_bytes must hold the values and actions"):
        bqrl.solve(model, bqrl.CVaR(0.5), max_bytes=1e6)


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_cvar_of_an_autoregression_is_that_of_a_normal_law(discount):
    def drift(states, actions, events):
        return 0.5 * states + events[:, None], 2.0 * states[:, 0] + events

    model = bqrl.from_step(
        drift, [0], stats.norm(0.0, 0.2), 4, (1.0,), grid={"x": np.linspace(-1.0, 2.0, 61)}, vectorized=True, cells=80,
        lipschitz=(0.5, 2.0), event_lipschitz=(1.0, 1.0), affine=["x"], discount=discount,
    )  # fmt: skip
    d = discount ** np.arange(4)
    weights = [d[k] + 2.0 * sum(d[k + 1 + i] * 0.5**i for i in range(3 - k)) for k in range(4)]
    centre, spread = 2.0 * d @ 0.5 ** np.arange(4), 0.2 * np.linalg.norm(weights)
    for tau in (0.1, 0.5, 1.0):
        truth = centre - spread * stats.norm.pdf(stats.norm.ppf(tau)) / tau
        plan = bqrl.solve(model, bqrl.CVaR(tau), points=1_000)
        assert plan.value <= truth <= plan.upper
        assert plan.gap < 0.25
