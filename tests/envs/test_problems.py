"""The problems against closed forms, published values and independent recursions."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from scipy import stats

import bqrl
from bqrl.envs import make
from bqrl.envs.demand import poisson
from bqrl.envs.icu_sepsis import _folder as icu_folder


def best(mdp, tau):
    return bqrl.solve(mdp, tau).value


def same(mdp, rows, horizon, start):
    """Whether the model is that of the listed transitions."""
    other = bqrl.MDP(rows, horizon=horizon, start=start)
    assert (mdp.H, mdp.S, mdp.A) == (other.H, other.S, other.A)
    for field in ("mu", "row_start", "successor", "probability", "reward", "available", "known"):
        assert np.array_equal(getattr(mdp, field), getattr(other, field)), field


def test_poisson_law_is_cut_where_said():
    law = poisson(3.0, 0.999)
    exact = stats.poisson(3.0)
    assert list(law) == list(range(int(exact.ppf(0.999)) + 1))
    assert list(law.values()) == pytest.approx(exact.pmf(list(law)) / exact.cdf(max(law)), abs=1e-15)
    assert math.fsum(law.values()) == pytest.approx(1.0, abs=1e-15)


@pytest.mark.parametrize(("stock", "value"), [(0, 67), (1, 129), (2, 194), (3, 227)])
def test_inventory_has_the_values_of_putermans_example(stock, value):
    demand = {0: 0.25, 1: 0.5, 2: 0.25}
    mdp = make("Inventory", capacity=3, horizon=3, start=stock, demand=demand)
    assert bqrl.solve(mdp, 0.5, planner="expected").law.mean() == pytest.approx(value / 16)


def test_platelets_are_used_oldest_first():
    mdp = make("PerishableInventory")
    s = mdp.state_names.index("2 + 1 packs")
    after, p, paid = mdp.outcomes(0, s, mdp.action_names.index("order 1"))
    law = poisson(2.0)
    expected = {}
    for demand, q in law.items():
        wasted, one, two = max(2 - demand, 0), max(min(3 - demand, 1), 0), max(min(4 - demand, 1), 0)
        key = (f"{one} + {two} packs", -(1.0 + 2.0 * wasted + 10.0 * max(demand - 4, 0)))
        expected[key] = expected.get(key, 0.0) + q
    found = {(mdp.state_names[t], r): q for t, q, r in zip(after, p, paid, strict=True)}
    assert found == pytest.approx(expected)


def test_machine_wears_out_and_is_replaced():
    mdp = make("MachineReplacement")
    worn = mdp.state_names.index("wear 4")
    after, p, paid = mdp.outcomes(0, worn, mdp.action_names.index("Run"))
    assert [mdp.state_names[t] for t in after] == ["wear 4", "worn out"]
    assert p.tolist() == pytest.approx([0.4, 0.6])
    assert paid.tolist() == [4.0, 4.0]
    assert mdp.outcomes(0, worn, mdp.action_names.index("Replace"))[2].tolist() == [-14.0]
    assert mdp.outcomes(0, worn, mdp.action_names.index("Overhaul"))[0].tolist() == [2]


def test_river_swim_is_the_listed_kernel():
    rows = [(0, 0, 0, 1.0, 1.0), (0, 1, 0, 0.4, 0.0), (0, 1, 1, 0.6, 0.0)]
    for s in range(1, 5):
        rows += [(s, 0, s - 1, 1.0, 0.0)]
        rows += [(s, 1, s - 1, 0.05, 0.0), (s, 1, s, 0.6, 0.0), (s, 1, s + 1, 0.35, 0.0)]
    rows += [(5, 0, 4, 1.0, 0.0), (5, 1, 4, 0.4, 50.0), (5, 1, 5, 0.6, 50.0)]
    same(make("RiverSwim"), rows, 20, 0)


def test_gambler_is_the_listed_kernel():
    rows = []
    for capital in range(11):
        for stake in range(min(capital, 10 - capital) + 1):
            if stake == 0:
                rows.append((capital, 0, capital, 1.0, 0.0))
            else:
                rows += [
                    (capital, stake, capital + stake, 0.45, stake),
                    (capital, stake, capital - stake, 0.55, -stake),
                ]
    same(make("Gambler"), rows, 8, 5)


def test_bold_play_is_the_gamblers_best_chance_of_the_goal():
    """From half of the goal one bold stake wins with probability p, and no other play reaches the goal more often."""
    for p in (0.3, 0.45):
        curve = bqrl.guarantee_curve(make("Gambler", win_probability=p))
        reached = 1.0 - curve.shortfall[np.flatnonzero(curve.points == 5.0)[0]]
        assert reached == pytest.approx(p)


def test_deep_sea_is_the_listed_kernel_with_a_closed_form():
    rows = []
    for s in range(8):
        gain = 100.0 if s == 7 else 0.0
        rows.append((s, 0, max(s - 1, 0), 1.0, 0.0))
        rows += [(s, 1, min(s + 1, 7), 0.95, gain - 1.0), (s, 1, max(s - 1, 0), 1.0 - 0.95, -1.0)]
    same(make("DeepSea"), rows, 8, 0)
    assert 1.0 - 0.95**8 < 0.5
    assert best(make("DeepSea"), 0.5) == 92.0
    assert best(make("DeepSea"), 0.33) == 0.0  # eight moves fail with probability 0.337: not worth the cost


def test_cliff_walker_falls_back_to_the_start():
    mdp = make("SlipperyCliff")
    place = mdp.state_names.index("row 2, column 2")
    after, p, paid = mdp.outcomes(0, place, mdp.action_names.index("Right"))
    found = {(mdp.state_names[t], r): q for t, q, r in zip(after, p, paid, strict=True)}
    assert found == pytest.approx(
        {("row 1, column 2", -1.0): 0.1, ("row 2, column 3", -1.0): 0.8, ("row 3, column 0", -20.0): 0.1}
    )
    assert best(make("SlipperyCliff", slip=0.0), 0.01) == -7.0  # up, five to the right, down


@pytest.mark.parametrize("tau", [0.05, 0.1, 0.3, 0.5])
def test_betting_game_by_an_independent_recursion(tau):
    p = Fraction(22, 25)

    @cache
    def miss(bets, capital, target):
        """Smallest probability of ending below the target."""
        if bets == 0:
            return Fraction(capital < target)
        return min(
            p * miss(bets - 1, capital + stake, target) + (1 - p) * miss(bets - 1, capital - stake, target)
            for stake in range(min(capital, 32 - capital) + 1)
        )

    found = best(make("BettingGame", bets=4, start=5, cap=32), tau)
    reached = [target for target in range(33) if miss(4, 5, target) < Fraction(str(tau))]
    assert found == max(reached) - 5


def test_american_put_has_the_price_of_the_binomial_tree():
    steps, dt = 12, 1 / 12
    up, grow = math.exp(0.2 * math.sqrt(dt)), math.exp(0.05 * dt)
    p = (grow - 1 / up) / (up - 1 / up)
    value = [max(100 - 100 * up ** (2 * j - steps), 0.0) for j in range(steps + 1)]
    for n in reversed(range(steps)):
        held = [(p * value[j + 1] + (1 - p) * value[j]) / grow for j in range(n + 1)]
        value = [max(held[j], 100 - 100 * up ** (2 * j - n)) for j in range(n + 1)]
    mdp = make("AmericanPut")
    assert bqrl.solve(mdp, 0.5, planner="expected").law.mean() == pytest.approx(value[0], rel=1e-9)
    assert value[0] == pytest.approx(6.0, abs=0.1)


def test_liquidation_pays_the_price_less_the_impact():
    mdp = make("Liquidation")
    s = mdp.state_names.index("8 lots, price 50")
    after, p, paid = mdp.outcomes(0, s, mdp.action_names.index("sell 3"))
    assert [mdp.state_names[t] for t in after] == ["5 lots, price 48", "5 lots, price 50", "5 lots, price 52"]
    assert p.tolist() == pytest.approx([0.3, 0.4, 0.3])
    assert paid.tolist() == [3 * 47.0] * 3
    calm = make("Liquidation", move_probability=0.0)  # eight lots over six periods: two periods of two, four of one
    assert best(calm, 0.5) == 2 * 2 * 48 + 4 * 49


def test_portfolio_rounds_to_whole_units():
    mdp = make("Portfolio", horizon=1, wealth=10)
    gains = {name: mdp.outcomes(0, mdp.start, a)[2].tolist() for a, name in enumerate(mdp.action_names)}
    assert gains == {"0 % shares": [0.0], "25 % shares": [0.0, 1.0], "50 % shares": [0.0, 1.0],
                     "75 % shares": [-1.0, 2.0], "100 % shares": [-1.0, 2.0]}  # fmt: skip


def test_treatment_rows_follow_the_tables():
    mdp = make("TreatmentChoice")
    after, p, paid = mdp.outcomes(0, mdp.state_names.index("Severe"), mdp.action_names.index("Intensive"))
    assert [mdp.state_names[t] for t in after] == ["Mild", "Severe", "Critical", "Dead"]
    assert p.tolist() == pytest.approx([0.45, 0.37, 0.12, 0.06])
    assert set(paid) == {15.0 - 6.0}


def test_staffing_counts_waiting_and_lost_calls():
    mdp = make("Staffing", lines=2)
    after, p, paid = mdp.outcomes(0, 1, 2)  # one call waits, two agents answer eight
    law = poisson(9.0)
    assert paid[after == 0].tolist() == [20.0 - 12.0]
    assert p[after == 0].sum() == pytest.approx(sum(law[k] for k in range(8)))
    assert sorted(paid[after == 2], reverse=True) == [-12.0 - 2.0 - 5.0 * lost for lost in range(max(law) - 8)]


def test_bandit_is_the_listed_kernel():
    rows = [(0, 0, 0, 1.0, 4.0)]
    for a, p in enumerate((0.5, 0.62, 0.45, 0.55), start=1):
        rows += [(0, a, 0, p, 8.0), (0, a, 0, 1.0 - p, 1.0)]
    same(make("Bandit"), rows, 1, 0)
    assert [best(make("Bandit"), tau) for tau in (0.37, 0.39)] == [4.0, 8.0]


def test_safe_or_risky_is_the_listed_kernel():
    same(make("SafeOrRisky"), [(0, 0, 0, 1.0, 1.0), (0, 1, 0, 0.55, 3.0), (0, 1, 0, 1.0 - 0.55, 0.0)], 10, 0)


def test_garnet_depends_on_its_seed_alone():
    rng = np.random.default_rng(7)
    P, R = np.zeros((12, 4, 12)), rng.integers(0, 5, (12, 4)).astype(float)
    for s in range(12):
        for a in range(4):
            P[s, a, rng.choice(12, 3, replace=False)] = rng.dirichlet(np.ones(3))
    rows = [(s, a, t, P[s, a, t], R[s, a]) for s, a, t in np.argwhere(P)]
    same(make("Garnet"), rows, 10, 0)
    assert not np.array_equal(make("Garnet", seed=8).probability, make("Garnet").probability)


def test_asset_selling_shares_one_law_of_offers_at_every_stage():
    mdp = make("AssetSelling", distribution="geometric", stop_at_end=True, shared=True)
    noise = mdp.noise
    assert noise.row_law.shape == (10, 26, 2)
    assert np.count_nonzero(noise.row_law == 0) == 9 * 25
    assert noise.separates.sum() == 9 * 25  # an offer is seen, so every row reveals the law
    assert [noise.event_of(noise.row(3, 7, 1), offer) for offer in (0, 24)] == [0, 24]
    assert noise.event_of(noise.row(3, 7, 0), 0) == -1


# -- ICU-Sepsis --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def icu():
    try:
        return make("ICUSepsis")
    except FileNotFoundError as fault:
        pytest.skip(str(fault))


LEVELS = (0.1, 0.2, 0.3, 0.5, 0.9)


@pytest.mark.slow
def test_icu_sepsis_has_the_known_optima(icu):
    assert (icu.S, icu.A, icu.H, icu.successor.size) == (716, 25, 60, 95_045)
    curve = bqrl.guarantee_curve(icu)
    assert [curve(tau) for tau in LEVELS] == [-2.0, 77.0, 86.0, 92.0, 98.0]
    neutral = bqrl.solve(icu, 0.3, planner="expected").law
    assert [neutral.quantile(tau) for tau in LEVELS] == [-3.0, 76.0, 84.0, 91.0, 98.0]
    assert neutral.mean() == pytest.approx(76.647, abs=5e-4)
    assert neutral.cvar(0.3) == pytest.approx(37.355, abs=5e-4)
    assert bqrl.solve(icu, 0.3, beta=0.3).value == pytest.approx(37.748, abs=5e-4)


@pytest.mark.slow
def test_icu_sepsis_pays_survival_where_its_package_does(icu):
    with np.load(icu_folder() / "dynamics.npz") as data:
        paid = data["r_mat"]
    mdp = make("ICUSepsis", cost=0.0, survival=1.0)
    q = np.repeat(np.arange(mdp.S * mdp.A), np.diff(mdp.row_start))
    assert np.array_equal(mdp.reward[0], paid[q // mdp.A, q % mdp.A, mdp.successor])


def test_icu_sepsis_says_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    message = (
        "^ICUSepsis requires the files of the package icu-sepsis; install them with: pip install --no-deps icu-sepsis$"
    )
    with pytest.raises(FileNotFoundError, match=message):
        make("ICUSepsis")


def test_icu_sepsis_never_imports_its_package(icu):
    import sys

    assert "icu_sepsis" not in sys.modules
