"""The curve of CVaR, and the warning about the tail of a quantile plan, which a bracket must prove."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import achievable_laws, exact_mean, small_mdps, to_law

import bqrl
from bqrl import MDP, CVaR, Law, solve
from bqrl.planners.cvar import cvar_on_pairs
from bqrl.planners.earned import met_pairs
from bqrl.planners.expected import FAR, risk_neutral, tail_is_safe, with_tail
from bqrl.planners.facts import LowTail

LEVELS = np.array([0.01, 0.1, 0.25, 1 / 3, 0.5, 0.7, 0.9, 1.0])


@settings(max_examples=25)
@given(small_mdps())
def test_every_level_is_that_of_brute_force(mdp):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None)
    known = [to_law(law) for law in laws]
    best = [max(law.cvar(tau) for law in known) for tau in LEVELS.tolist()]
    curves = [bqrl.guarantee_curve(mdp, CVaR), cvar_on_pairs(met_pairs(mdp, 1e6, 1e9))]
    for curve in curves:
        assert curve(LEVELS) == pytest.approx(best, abs=1e-9)
        assert [curve.upper(tau) for tau in LEVELS] == pytest.approx(best, abs=1e-9)
        assert [bqrl.evaluate(mdp, curve.policy(tau)).cvar(tau) for tau in LEVELS] == pytest.approx(best, abs=1e-9)
    assert curves[0](1.0) == pytest.approx(float(max(map(exact_mean, laws))), abs=1e-9)


@settings(max_examples=25)
@given(small_mdps())
def test_rows_give_the_curve_between_their_levels(mdp):
    curve = bqrl.guarantee_curve(mdp, CVaR)
    rows = curve.rows()
    assert rows[0]["level"] == 0.0
    assert [row["level"] for row in rows] == sorted(row["level"] for row in rows)
    for tau in LEVELS:
        row = [row for row in rows if row["level"] < tau][-1]
        assert row["target"] - row["missing"] / tau == pytest.approx(curve(tau), abs=1e-9)


def test_a_plan_from_the_curve_is_that_of_solve():
    mdp = bqrl.envs.make("MachineReplacement")
    curve = bqrl.guarantee_curve(mdp, CVaR)
    for tau in (0.1, 0.5, 1.0):
        plan, other = curve.plan(tau), bqrl.solve(mdp, CVaR(tau))
        assert (plan.value, plan.upper, plan.mean) == (other.value, other.upper, other.mean)
        assert plan.objective == CVaR(tau)
        assert plan.exact
        assert plan.gap == 0.0


def test_of_tied_targets_the_best_mean_is_chosen():
    paths = np.zeros((3, 2, 3))  # a sure 1, or 1 with a chance of 2: the same worst half
    paths[0, 0, 1], paths[0, 1, 1:], paths[1:, :, 1:] = 1.0, 0.5, np.eye(2)[:, None]
    reward = np.zeros((3, 2, 3))
    reward[0, :, 1], reward[0, :, 2] = 1.0, 2.0
    curve = bqrl.guarantee_curve(bqrl.MDP(paths, reward, horizon=1), CVaR)
    assert curve(0.5) == 1.0
    assert curve.plan(0.5).mean == 1.5


@pytest.mark.parametrize("seed", range(2))
def test_rounded_returns_bracket_the_exact_curve(seed):
    rng = np.random.default_rng(seed)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(3), (3, 2)), rng.integers(0, 9, (3, 2)) / 3.0, horizon=4, discount=0.9)
    exact, rounded = bqrl.guarantee_curve(mdp, CVaR), bqrl.guarantee_curve(mdp, CVaR, points=60)
    assert exact.exact
    assert not rounded.exact
    for tau in LEVELS:
        assert rounded(tau) - 1e-9 <= exact(tau) <= rounded.upper(tau) + 1e-9
        assert rounded(tau) - 1e-9 <= rounded.plan(tau).value <= exact(tau) + 1e-9
        assert rounded.plan(tau).upper >= exact(tau) - 1e-9


def test_a_set_of_returns_without_a_lattice_is_planned_on_pairs():
    ruin = bqrl.envs.make("QuantileDomain", start=5)
    plan = bqrl.solve(ruin, CVaR(0.1))  # discounted: a quantile has an exact grid, CVaR had a bracket only
    assert plan.exact
    assert plan.gap == 0.0
    assert plan.value == pytest.approx(0.9745243, abs=1e-6)


def test_continuous_states_have_both_ends():
    def step(state, action, event):
        return (max(0.0, min(3.0, state[0] + action * event)),), round(0.5 * state[0], 9)

    given = (step, [0.0, 0.7], {-1.0: 0.4, 1.0: 0.6}, 4, (1.0,))
    exact = bqrl.guarantee_curve(bqrl.from_step(*given), CVaR)
    model = bqrl.from_step(*given, grid={"x": np.linspace(0.0, 3.0, 31)}, monotone={"x": 1})
    curve = bqrl.guarantee_curve(model, CVaR)
    for tau in LEVELS:
        assert curve(tau) - 1e-9 <= exact(tau) <= curve.upper(tau) + 1e-9
    assert curve(0.3) == pytest.approx(bqrl.solve(model, CVaR(0.3)).value, abs=1e-12)


@pytest.mark.parametrize("objective", [bqrl.Mean, CVaR(0.1), "cvar", 0.1])
def test_other_objectives_have_no_curve(objective):
    with pytest.raises((TypeError, ValueError), match=r"objective must be .*; use solve"):
        bqrl.guarantee_curve("SafeOrRisky", objective)


@pytest.mark.parametrize("options", [{"keep": True}, {"precision": "float32"}])
def test_options_of_quantile_curves_are_refused(options):
    with pytest.raises(ValueError, match="must be omitted with CVaR"):
        bqrl.guarantee_curve("SafeOrRisky", CVaR, **options)


@pytest.mark.parametrize("tau", [0.0, 1.1, [0.5, 0.0]])
def test_levels_are_checked(tau):
    with pytest.raises(ValueError, match="tau must be"):
        bqrl.guarantee_curve("SafeOrRisky", CVaR)(tau)


@pytest.mark.parametrize("name", ["Inventory", "QuantileDomain"])
def test_rules_for_cvar_begin_with_policies_of_the_curve(name):
    mdp = bqrl.envs.make(name, horizon=4) if name == "Inventory" else bqrl.envs.make(name)
    best, rule = bqrl.solve(mdp, CVaR(0.2)), bqrl.solve(mdp, CVaR(0.2), rule="stage-state")
    assert rule.value <= best.value + 1e-9
    assert rule.upper == pytest.approx(best.upper)
    assert best.details["curve"].policy_for(best.details["target"]).target == best.details["target"]


def gamble(prize, disaster):
    """One choice: a sure 10, or `prize` with probability 0.95, else `disaster`."""
    return MDP([(0, 0, 0, 1.0, 10.0), (0, 1, 0, 0.95, prize), (0, 1, 0, 0.05, disaster)], horizon=1)


def tails(plan):
    return [note for note in plan.notes if isinstance(note, LowTail)]


def test_a_small_gain_for_a_terrible_tail_is_a_warning():
    """At 0.1 the gamble guarantees 11 instead of 10; its worst tenth brings (11 - 1000) / 2 on average."""
    plan = solve(gamble(11.0, -1000.0), tau=0.1)
    assert plan.value == 11.0
    (tail,) = tails(plan)
    assert (tail.tau, tail.cvar, tail.neutral) == (0.1, pytest.approx((11.0 - 1000.0) / 2), 10.0)
    said = "warning: the worst 10 % of runs bring -494.5 on average, with the risk-neutral policy 10"
    assert plan.remarks == [f"{said}; if that matters, plan for CVaR"]
    assert solve(gamble(11.0, -1000.0), bqrl.CVaR(0.1)).value == 10.0  # as the warning says
    assert not tails(solve(gamble(11.0, -1000.0), bqrl.CVaR(0.1)))


def test_a_tail_that_costs_less_than_the_guarantee_gains_is_none():
    """Gain 2, loss 10 - (12 + 7) / 2 = 0.5; the mean of the gamble is below 12, so the sure 10 is not the best mean."""
    assert not tails(solve(gamble(12.0, 7.0), tau=0.1))


def test_far_is_a_quarter_of_the_depth_of_the_risk_neutral_tail():
    """Laws of two atoms: CVaR at 0.5 is the lower atom; the same quantile, so any loss exceeds the gain."""
    neutral = Law([0.0, 10.0, 20.0], [0.4, 0.2, 0.4])  # mean 10, CVaR at 0.5: 2, so the depth is 8
    depth = neutral.mean() - neutral.cvar(0.5)
    plan = solve("SafeOrRisky", tau=0.5)

    def warned(loss):
        law = Law([-loss / 0.8, 10.0], [0.4, 0.6])
        found = with_tail(replace(plan, law=law, facts=(), later=None), neutral)
        assert neutral.cvar(0.5) - law.cvar(0.5) == pytest.approx(loss)
        return bool(tails(found))

    assert depth == pytest.approx(8.0)
    assert not warned(FAR * depth - 0.01)
    assert warned(FAR * depth + 0.01)


def test_a_bracket_must_prove_the_tail():
    neutral, plan = Law.point(10.0), solve("SafeOrRisky", tau=0.5)
    low, high = Law([-50.0, 10.0], [0.4, 0.6]), Law([9.5, 10.0], [0.4, 0.6])
    assert tails(with_tail(replace(plan, law=low, law_upper=None, facts=(), later=None), neutral))
    assert tails(with_tail(replace(plan, law=low, law_upper=low, facts=(), later=None), neutral))
    assert not tails(with_tail(replace(plan, law=low, law_upper=Law.point(10.0), facts=(), later=None), neutral))
    assert tails(with_tail(replace(plan, law=low, law_upper=high, facts=(), later=None), neutral))


def test_the_warning_is_given_once():
    plan = solve(gamble(11.0, -1000.0), tau=0.1)
    assert with_tail(plan, Law.point(10.0)) is plan


@given(small_mdps(), st.sampled_from([0.1, 0.25, 0.5, 0.9]))
def test_a_tail_that_the_curve_calls_safe_has_no_warning(mdp, tau):
    """The risk-neutral law is skipped only where it would not have led to a warning."""
    plan = replace(solve(mdp, tau), facts=(), later=None)
    if tail_is_safe(plan):
        assert not tails(with_tail(plan, risk_neutral(mdp, 0)[1]))


def test_the_risk_neutral_law_is_computed_when_notes_are_read_and_only_where_the_tail_may_be_low(monkeypatch):
    monkeypatch.setattr("bqrl.planners.expected.risk_neutral", None)
    safe, doubtful = solve("MachineReplacement", tau=0.1), solve("AssetSelling", tau=0.5)
    assert tail_is_safe(safe)
    assert safe.notes == ()
    with pytest.raises(TypeError):
        doubtful.notes  # noqa: B018


def test_the_warning_is_the_same_wherever_a_plan_is_read(tmp_path):
    """In memory, from a file, from a pickle, in a thread; a plan that reads the risk-neutral law has the same numbers."""
    plan = solve(gamble(11.0, -1000.0), tau=0.1)
    bqrl.save(plan, tmp_path / "plan.npz")
    with ThreadPoolExecutor(4) as pool:
        in_threads = list(pool.map(lambda _: plan.notes, range(8)))
    others = [bqrl.load(tmp_path / "plan.npz"), pickle.loads(pickle.dumps(plan)), copy.deepcopy(plan)]
    assert len(tails(plan)) == 1
    assert [one.notes for one in others] + in_threads == [plan.notes] * 11
    assert plan.remarks == plan.summary()["notes"] == others[0].remarks
    assert f"  note     {plan.remarks[0]}" in str(plan)


def test_a_curve_in_32_bits_proves_no_tail_safe():
    """Its values are lower bounds, which were once taken for the best guarantees of all policies."""
    plan = solve("MachineReplacement", tau=0.1, precision="float32")
    assert plan.details["curve"].exact
    assert tail_is_safe(solve("MachineReplacement", tau=0.1))
    assert not tail_is_safe(plan)
    assert not tails(plan)
