"""Promises: check numbers, coverage, words, files."""

import math
import pickle
from dataclasses import replace

import numpy as np
import pytest
from log_oracle import exact_law, log_of, random_problem, tightened
from logged_problems import coin, simulated, study

import bqrl
from bqrl.laws.interval import quantile_interval
from bqrl.laws.law import Law
from bqrl.logs.fit import fit
from bqrl.planners.robust import lowest_return


def selling_log(episodes, seed, mdp):
    """Asset selling; the logging policy sells offer s with probability 0.15 s / 24."""
    sell = np.r_[0.15 * np.arange(25) / 24, 0.5]
    policy = np.broadcast_to(np.stack([sell, 1 - sell], axis=1), (mdp.H, mdp.S, mdp.A))
    return study.labelled(mdp, study.played(mdp, policy, episodes, np.random.default_rng(seed)))


@pytest.fixture(scope="module")
def selling():
    return bqrl.envs.make("AssetSelling")


@pytest.mark.parametrize(("episodes", "pooled", "staged"), [(300, 9, 5), (1000, 14, 5), (3000, 16, 9)])
def test_promises_for_asset_selling(selling, episodes, pooled, staged):
    """The optimum is 19; the expected numbers are those of a prototype, up to one offer. Medians over five logs."""
    logs = [selling_log(episodes, seed, selling) for seed in range(5)]
    for model, value in ((selling, pooled), (selling.staged(), staged)):
        found = np.median([24 * fit(log, model=model).solve(0.1).value for log in logs])
        assert abs(found - value) <= 1 + 1e-9


@pytest.mark.parametrize(("episodes", "value"), [(100, 16), (300, 17), (1000, 18)])
def test_promises_with_one_law_of_offers(episodes, value):
    shared = bqrl.envs.make("AssetSelling", shared=True)
    assert abs(round(24 * fit(selling_log(episodes, 0, shared), model=shared).solve(0.1).value) - value) <= 1


@pytest.mark.parametrize("kind", study.LOGGING)
@pytest.mark.parametrize("name", list(study.problems()))
def test_promises_hold(name, kind):
    """10 logs each: if a promise held with probability 0.95 only, 6 or fewer would hold with probability 0.001."""
    mdp = study.problems()[name]
    found = [one for k in range(10) for one in study.promises(mdp, kind, episodes=400, seed=(3, k))]
    for way in study.ways(mdp):
        assert sum(one["promise"] <= one["truth"] + 1e-9 for one in found if one["known"] == way) > 6
    assert all(one["truth"] <= bqrl.guarantee_curve(mdp)(study.TAU) + 1e-9 for one in found)


def test_more_knowledge_never_promises_less():
    mdp, log = simulated("machine", 2000)
    values = [study.fitted(mdp, log, way).solve(0.1).value for way in study.WAYS]
    assert values == sorted(values)
    assert values[-1] > values[0]


def test_the_lowest_possible_return_is_no_useful_promise(selling):
    estimate = fit(selling_log(3, 0, selling), model=selling.staged())
    value = estimate.solve(0.1).value
    assert estimate.trivial(0.0)
    assert estimate.trivial(-np.inf)
    assert not estimate.trivial(max(value, 1 / 24))


def test_the_sentence_names_what_it_rests_on():
    plan = fit(coin(5000, 5000), reward_range=(0, 1)).solve(0.1)
    facts = (
        "95 % confidence",
        "in 9 of 10 episodes",
        "at least 1,",
        "the stage, state and action",
        "state 's'",
        "0 and 1",
    )
    assert [fact for fact in facts if fact not in plan.remarks[0]] == []
    assert "in 17 of 20 episodes" in fit(coin(5000, 5000), reward_range=(0, 1)).solve(0.15).remarks[0]
    nothing = fit(coin(5, 5) | {"reward": [1.0] * 5}, reward_by="state-action", horizon=2).solve(0.1)
    assert nothing.value == -np.inf
    assert nothing.remarks[0].startswith(
        "No promise is possible at level 0.1 with these 5 episodes; declare reward_range"
    )


def test_buffered_promises_hold_and_need_a_lowest_reward():
    mdp, log = simulated("random", 3000)
    estimate = study.fitted(mdp, log, "nothing known")
    plan = estimate.solve(0.3, 0.3)
    truth = bqrl.evaluate(study.embedded(mdp, estimate), plan.policy).cvar(0.3)
    assert 0.0 < plan.value <= truth
    assert "over the worst 30 % of episodes you get at least" in plan.remarks[0]
    with pytest.raises(ValueError, match="reward_range must be given to fit"):
        fit(coin(9, 9), reward_by="state-action", horizon=2).solve(0.5, 0.1)


@pytest.mark.parametrize("beta", [0.05, 0.3])
def test_buffered_promises_hold_under_every_kernel_of_the_balls(beta):
    """The chosen policy is evaluated exactly under 24 extreme kernels: mass moves to a random or to the worst outcome."""
    mdp, log = simulated("random", 300)
    bounds = (float(mdp.reward.min()), float(mdp.reward.max()))
    estimate = fit(log, stationary=True, reward_range=bounds)
    plan, model, rng = estimate.solve(0.3, beta), estimate.mdp.staged(), np.random.default_rng(0)
    radii, missing = estimate.radii.reshape(-1), estimate.balls.missing().reshape(-1)
    found = []
    for i in range(24):
        p = model.probability.copy()
        for q in range(model.row_start.size - 1):
            begin, end = model.row_start[q : q + 2]
            if begin == end:
                continue
            row = q % radii.size
            outside = missing[row] > 0.0
            seen = np.arange(begin, end - outside)
            best = (
                rng.permutation(seen)
                if i % 3 == 0
                else seen[np.argsort(-model.reward[0][seen % model.reward.shape[1]])]
            )
            takes = best[-1] if i % 3 != 2 else rng.choice(seen)
            left = radii[row] / 2 if not model.known.reshape(-1)[q] else 0.0
            for j in best:
                taken = min(p[j], left) if j != takes else 0.0
                p[j], p[takes], left = p[j] - taken, p[takes] + taken, left - taken
            if outside:
                moved = min(missing[row], p[takes])
                p[takes], p[end - 1] = p[takes] - moved, moved
        law = bqrl.evaluate(model.with_probability(p), plan.policy)
        found.append(law.buffered_quantile(0.3, beta))
    assert min(found) >= plan.value - 1e-9
    assert min(found) < bqrl.evaluate(model, plan.policy).buffered_quantile(0.3, beta)


def test_estimates_with_declarations_can_be_sent_to_another_process():
    estimate = fit(coin(50, 50), reward_range=(0, 1), start="s")
    assert pickle.loads(pickle.dumps(estimate)).gains(0.5) == estimate.gains(0.5)


def test_the_interval_of_the_logging_policy_allows_for_episodes_that_were_cut_off():
    """Long episodes are cut off more often; intervals of the others alone once missed the quantile in most logs."""
    rng, rows = np.random.default_rng(0), []
    for episode in range(400):
        length, cut = min(int(rng.geometric(0.3)), 8), int(rng.integers(1, 9))
        ends = {length - 1: "terminal"} if length <= cut else {cut - 1: "truncated"}
        rows += [(episode, ends.get(h, "")) for h in range(min(length, cut))]
    log = dict(zip(("episode", "end"), zip(*rows, strict=True), strict=True))
    log |= {"state": ["on"] * len(rows), "action": ["go"] * len(rows), "reward": [-1.0] * len(rows)}
    estimate = fit(log, horizon=8, stationary=True, reward_range=(-1, 0))
    assert estimate.returns.size < estimate.episodes
    true = -7.0  # P(length >= 7) = 0.7^6 = 0.118, P(length = 8) = 0.082
    found = estimate.logged(0.1)
    assert found["lower"] <= true <= found["upper"]


def test_the_logging_policy_has_no_estimate_where_it_depends_on_episodes_that_were_cut_off():
    """Only those who live on are followed to the end: their quantile was shown, far above that of all episodes."""
    rng, rows, returns = np.random.default_rng(1), [], []
    for episode in range(300):
        length, cut = min(int(rng.geometric(0.3)), 8), 8 if rng.random() < 0.6 else int(rng.integers(1, 8))
        returns.append(length)
        end = "terminal" if length <= cut else "truncated"
        rows += [(episode, end if h == min(length, cut) - 1 else "") for h in range(min(length, cut))]
    log = dict(zip(("episode", "end"), zip(*rows, strict=True), strict=True))
    log |= {"state": ["on"] * len(rows), "action": ["go"] * len(rows), "reward": [1.0] * len(rows)}
    estimate = fit(log, horizon=8, stationary=True, reward_range=(0, 1))
    cut = estimate.episodes - estimate.returns.size
    assert cut > 0
    for tau in (0.05, 0.2, 0.5, 0.8):
        found = estimate.logged(tau)
        assert found["lower"] <= Law(returns, np.full(300, 1 / 300)).quantile(tau) <= found["upper"]
        assert np.isnan(found["value"]) or found["value"] == Law(returns, np.full(300, 1 / 300)).quantile(tau)
    assert np.isnan(estimate.logged(0.8)["value"])
    assert estimate.logged(0.5)["value"] == 2.0  # whatever the returns of the others
    assert np.isnan(estimate.logged(0.5, 0.1)["value"])


def smallest_estimates(seeds, share=1.0, *, without_range=False):
    """Random problems with estimates from random logs, whose balls are the smallest that contain the truth."""
    for seed in seeds:
        rng = np.random.default_rng(seed)
        problem, marked = random_problem(rng), bool(rng.random() < 0.5)
        log = log_of(problem, int(rng.choice([3, 20, 100])), rng, marked)
        options = {"stationary": len(problem.rows) == 1, "discount": float(rng.choice([1.0, 0.5]))}
        options |= {"reward_by": "state-action"} if problem.deterministic else {}
        lowest = {} if without_range else {"reward_range": (-3, 2)}
        if without_range and not problem.deterministic:
            continue
        estimate = fit(log, horizon=problem.H, start=problem.start, **lowest, **options)
        yield seed, problem, tightened(problem, estimate, share)


def broken_promises(seeds, share=1.0):
    """Promises of random logs with the smallest balls that contain the truth: how many are useful, and which are broken."""
    useful, broken = 0, []
    for seed, problem, estimate in smallest_estimates(seeds, share):
        for tau in (0.1, 0.3, 0.5, 0.9):
            plan = estimate.solve(tau)
            useful += not estimate.trivial(plan.value)
            law = exact_law(problem, estimate, plan.policy)
            below = sum(p for total, p in law.items() if total < plan.value - 1e-6)
            if below >= tau - 1e-9:
                broken.append((seed, tau, plan.value))
    return useful, broken


def test_promises_hold_with_the_smallest_balls_that_contain_the_truth():
    useful, broken = broken_promises(range(60))
    assert useful > 120
    assert broken == []
    assert broken_promises(range(60), share=0.6)[1]  # smaller balls do break promises


OTHERS = (
    bqrl.Mean(), bqrl.Entropic(0.5), bqrl.Entropic(-0.5), bqrl.Chance(-1.0), bqrl.Chance(1.0), bqrl.MeanCVaR(0.3, 0.5),
    bqrl.Utility(lambda g: min(g, 1.0), increasing=True),
)  # fmt: skip


@pytest.mark.parametrize("objective", OTHERS, ids=str)
def test_promises_of_every_objective_hold_with_the_smallest_balls_that_contain_the_truth(objective):
    def broken(share):
        found, useful = [], 0
        for seed, problem, estimate in smallest_estimates(range(20), share):
            plan = estimate.solve(objective, **({"points": 200} if isinstance(objective, bqrl.MeanCVaR) else {}))
            law = exact_law(problem, estimate, plan.policy)
            truth = objective(Law(np.array(list(law)), np.array(list(law.values()))))
            found += [seed] if plan.value > truth + 1e-7 else []
            useful += plan.value > objective(Law([estimate.floor], [1.0])) + 1e-6
        return found, useful

    found, useful = broken(1.0)
    assert found == []
    assert useful > 7
    assert broken(0.5)[0]  # smaller balls do break promises


def test_a_promised_chance_needs_no_lowest_reward_but_other_objectives_do():
    for seed, problem, estimate in smallest_estimates(range(60), without_range=True):
        for target in (-2.0, 0.0, 1.0):
            plan = estimate.solve(bqrl.Chance(target))
            law = exact_law(problem, estimate, plan.policy)
            assert plan.value <= sum(p for total, p in law.items() if total >= target - 1e-9) + 1e-9, seed
        if estimate.floor == -math.inf:
            with pytest.raises(ValueError, match="reward_range must be given to fit for the mean, because"):
                estimate.solve(bqrl.Mean())


def test_the_mean_is_promised_in_words_and_says_if_it_uses_no_data():
    estimate = fit(coin(2000, 2000), reward_range=(0, 1))
    plan = estimate.solve(bqrl.Mean())
    assert 0.0 < plan.value <= plan.nominal <= plan.upper
    assert plan.remarks[0].startswith("With 95 % confidence, the mean of the return is at least 0.")
    assert "uses no data" not in plan.remarks[0]
    assert "This promise uses no data" in fit(coin(2, 2), reward_range=(0, 1)).solve(bqrl.Mean()).remarks[0]
    assert "with probability at least" in estimate.solve(bqrl.Chance(1.0)).remarks[0]
    assert estimate.solve(bqrl.Mean()) is plan  # computed once


def test_an_estimated_law_of_first_states_lowers_the_promise_of_a_mean():
    estimate = fit(coin(300, 100), reward_range=(0, 1))
    less = replace(estimate, start_atoms=1, _memo={})
    error, lowest = less.start_error(), lowest_return(estimate.mdp)
    assert 0.0 < error < 1.0
    known, worst = (one.solve(bqrl.Mean()).value for one in (estimate, less))
    assert worst == pytest.approx(
        (1.0 - error) * known + error * lowest
    )  # there is one first state, which gives the mass


def test_a_confidence_below_one_is_not_called_certain():
    estimate = fit(coin(200, 200), 0.9999999, reward_range=(0, 1))
    assert estimate.solve(0.7).remarks[0].startswith("With 99.99999 % confidence, in 3 of 10 episodes")
    assert "confidence=0.9999999" in repr(estimate)
    for confidence, tau, words in (
        (0.29, 0.5, "With 29 % confidence, in half of all episodes you get"),
        (1.0 - 2.0**-53, 0.999999, "With more than 99.9999 % confidence, in 0.0001 % of episodes you get"),
        (1.0 - 1e-13, 0.5, "With 99.99999999999 % confidence, in half"),
    ):
        estimate = fit(coin(200, 200), confidence, reward_range=(0, 1))
        assert estimate.solve(tau).remarks[0].startswith(words)
    known = fit(coin(200, 200), known=[("s", "a", "(end)", 1.0, 1.0)], reward_range=(0, 1))
    assert ", in all but 1e-11 % of episodes you get at least 1," in known.solve(1e-13).remarks[0]


def test_the_headline_is_to_keep_the_old_policy_where_it_promises_more():
    """The new plan promised the lowest return, and nobody said that the log itself promises more."""
    log = coin(60, 58)
    estimate = fit(log, reward_range=(-5, 1))
    plan = estimate.solve(0.2)
    assert estimate.old_promise(0.2) == estimate.logged(0.2)["lower"] == plan.details["old_promise"] == 1.0 > plan.value
    assert plan.remarks[0].startswith(
        "Keep the old policy: with 95 % confidence, in 4 of 5 episodes you get at least 1, assuming"
    )
    assert "the logged episodes are independent and follow one policy" in plan.remarks[0]
    assert plan.value == estimate.promise_of(plan, 0.2) or estimate.trivial(
        plan.value
    )  # the value belongs to the policy


def test_an_adaptive_log_has_no_promise_for_the_old_policy_and_more_for_the_new_plan():
    log = coin(600, 560)
    plain, adaptive = (fit(log, reward_range=(0, 1), adaptive=flag) for flag in (False, True))
    assert adaptive.old_promise(0.2) == -np.inf
    assert np.all(adaptive.radii <= plain.radii)
    assert plain.balls.delta == pytest.approx(0.025)
    assert adaptive.balls.delta == pytest.approx(0.05)
    assert "old policy" not in adaptive.solve(0.2).remarks[0]


def test_the_old_policy_of_a_log_with_cuts_counts_them_as_the_worst():
    ends = ["truncated"] * 5 + ["terminal"] * 95
    estimate = fit(coin(100, 100) | {"end": ends}, reward_by="state-action", horizon=2)
    worst = np.r_[np.full(5, -np.inf), np.ones(95)]
    assert estimate.old_promise(0.2) == quantile_interval(worst, 0.2, 0.95)["lower"] == 1.0
    assert estimate.old_promise(0.05) == -np.inf


@pytest.mark.parametrize(("low", "high"), [(0.0, 2.0), (-1.0, 2.0), (1.0, 2.0), (-3.0, -1.0)])
def test_a_cut_episode_counts_with_what_it_earned_and_the_least_that_can_come(low, high):
    """Cut episodes once counted as -inf, also where `reward_range` bounds what could still come."""
    reward = 1.0 if high > 0.0 else -1.0
    log = {
        "episode": np.repeat(np.arange(200), 2),
        "state": ["s"] * 400,
        "action": ["a"] * 400,
        "reward": [reward] * 400,
    }
    log["end"] = ["", "truncated"] * 200
    asked = {"horizon": 3, "discount": 0.5, "stationary": True}
    estimate = fit(log, reward_range=(low, high), **asked)
    ends = [1.5 * reward + min(low, 0.0) / 4, 1.5 * reward + max(high, 0.0) / 4]  # an episode may end before step 3
    assert estimate.returns.size == 0
    assert estimate.cut.tolist() == [ends] * 200
    assert estimate.old_promise(0.2) == ends[0]
    assert any("rewards lie between" in text for text in estimate.solve(0.2).notes[0].old_assumptions)
    assert fit(log, reward_by="state-action", **asked).old_promise(0.2) == -np.inf
    assert fit(log, reward_range=(low, high), adaptive=True, **asked).old_promise(0.2) == -np.inf


def test_a_cut_episode_counts_with_the_least_that_the_model_still_pays():
    rows = [("a", "go", "b", 1.0, 5.0), ("b", "go", "b", 0.5, -1.0), ("b", "go", "b", 0.5, 4.0)]
    model = bqrl.MDP(
        [dict(zip(("state", "action", "next_state", "probability", "reward"), row, strict=True)) for row in rows],
        horizon=3,
        start="a",
    )
    log = {"episode": range(100), "state": ["a"] * 100, "action": ["go"] * 100, "reward": [5.0] * 100}
    estimate = fit(log | {"next_state": ["b"] * 100, "end": ["truncated"] * 100}, model=model)
    assert estimate.cut[0].tolist() == [3.0, 15.0]
    assert estimate.old_promise(0.2) == 3.0 == bqrl.evaluate(model, "always:go").values[0]
