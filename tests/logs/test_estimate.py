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
from bqrl.results.words import Words, remarks


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


def test_plug_in_plans_break_their_word_where_promises_hold():
    mdp = study.problems()["inventory"]
    found = [list(study.promises(mdp, "fixed", 100, seed=(1, k)))[1] for k in range(20)]
    assert sum(one["claimed"] > one["plug_in"] + 1e-9 for one in found) >= 5
    assert all(one["promise"] <= one["truth"] + 1e-9 for one in found)


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


def test_the_sentence_calls_a_stage_what_the_caller_does():
    log = late_log(tried=("go",)) | {
        "state": ["stage" if s == "start" else s for s in late_log(tried=("go",))["state"]]
    }
    staged, pooled = (fit(log, reward_range=(1, 2), stationary=stationary) for stationary in (False, True))
    yearly = Words(title="", stage="year")
    said = remarks(staged.solve(0.1), yearly)[0]
    assert "depend only on the year, state and action; every episode starts in state 'stage'" in said
    assert "their law is the same in every year" in remarks(pooled.solve(0.1), yearly)[0]
    assert "their law is the same in every stage" in pooled.solve(0.1).remarks[0]


def test_buffered_promises_hold_and_need_a_lowest_reward():
    mdp, log = simulated("random", 3000)
    estimate = study.fitted(mdp, log, "nothing known")
    plan = estimate.solve(0.3, 0.3)
    truth = bqrl.evaluate(study.embedded(mdp, estimate), plan.policy).cvar(0.3)
    assert 0.0 < plan.value <= truth
    assert "over the worst 30 % of episodes you get at least" in plan.remarks[0]
    with pytest.raises(ValueError, match="reward_range must be given to fit"):
        fit(coin(9, 9), reward_by="state-action", horizon=2).solve(0.5, 0.1)


def test_projections_grow_and_start_at_the_promise():
    mdp, log = simulated("machine", 200)
    estimate = fit(log, model=mdp)
    values = [one["value"] for one in estimate.projection(0.1, (1, 2, 4, 10))]
    assert values == sorted(values)
    assert values[0] == estimate.solve(0.1).value
    assert values[0] < values[-1] <= estimate.plug_in(0.1).value


def late_log(n=300, tried=()):
    """From start, 40 % of the episodes go to late; there only the actions in `tried` were logged, at the last stage."""
    rows = [("start", "wait", 1.0, "late" if i % 5 < 2 else "early") for i in range(n)]
    steps = {"episode": [], "stage": [], "state": [], "action": [], "reward": [], "next_state": []}
    for i, row in enumerate(rows):
        listed = [row]
        if row[3] == "early" or tried:
            listed.append((row[3], "go" if row[3] == "early" else tried[i % len(tried)], 2.0, "early"))
        for h, (s, a, r, s_next) in enumerate(listed):
            for name, value in zip(steps, (i, h, s, a, r, s_next), strict=True):
                steps[name].append(value)
    return steps


def test_the_reason_names_a_state_in_which_nothing_was_tried():
    estimate = fit(late_log(), reward_range=(1, 2), ends="truncated")
    assert estimate.solve(0.1).value == 1.0  # the lowest possible return: one step, then an early end
    assert "in state 'late' at stage 2, which has probability 0.4" in estimate.reason(0.1)
    assert "in state 'late' at week 2, " in estimate.reason(0.1, stage="week")
    assert estimate.reason(0.9) is None


def test_people_read_stages_from_1():
    """Rows, limits and reasons once counted from 0, the decision table of the same plan from 1."""
    estimate = fit(late_log(tried=("go", "stay")), reward_range=(1, 2))
    assert {row["stage"] for row in estimate.rows()} == {1, 2}
    stages = {row["state"]: row["stage"] for row in estimate.limits(0.1)}
    assert stages["start"] == 1
    assert stages["late"] == 2
    assert {row["stage"] for row in fit(late_log(), reward_range=(1, 2), stationary=True).rows()} == {None}


def test_the_reason_names_a_row_that_was_tried_too_seldom():
    estimate = fit(coin(12, 12), reward_range=(0, 1))
    assert estimate.solve(0.05).value == 0.0
    found = estimate.reason(0.05)
    assert found.startswith("action 'a' in state 's' was tried 12 times: with the radius ")
    assert "\n" not in found


def test_the_reason_names_a_row_that_was_never_tried():
    """From s the model moves to late for certain; what late pays, no episode of the log shows."""
    rows = [(0, 0, 1, 1.0, 0.0), (1, 0, 0, 0.5, 0.0), (1, 0, 0, 0.5, 1.0)]
    model = bqrl.MDP(rows, horizon=2, state_names=["s", "late"], action_names=["3"])
    log = {
        "episode": [0, 1],
        "state": ["s", "s"],
        "action": ["3", "3"],
        "reward": [0.0, 0.0],
        "next_state": ["late", "late"],
    }
    estimate = fit(log, model=model, ends="truncated")
    assert estimate.reason(0.1) == "action '3' in state 'late' was never tried"


def test_the_reason_says_that_the_first_state_is_unknown():
    log = {"episode": range(20), "state": ["a", "b"] * 10, "action": ["x"] * 20, "reward": [1.0, 2.0] * 10}
    assert "declare start" in fit(log, reward_range=(0, 2)).reason(0.1)


def test_no_promise_names_the_remedy_that_helps():
    """It once said to declare reward_range also where only the law of the first state was the cause."""
    log = coin(20, 20, state=["s", "t"] * 10)
    sentence = fit(log, reward_by="state-action").solve(0.1).remarks[0]
    assert "declare start" in sentence
    assert "reward_range" not in sentence
    assert fit(log, reward_by="state-action", start={"s": 0.5, "t": 0.5}).solve(0.1).value == 1.0


def test_useless_means_not_above_the_lowest_possible_return():
    estimate = fit(coin(3000, 3000), reward_range=(0, 1))
    assert estimate.reason(0.1) is None
    assert math.isfinite(estimate.floor)
    assert estimate.trivial(estimate.floor)
    assert not estimate.trivial(estimate.floor + 0.1)


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


def sale(n, good):
    """To sell pays 1 for sure; to wait pays 3 in `good` of n episodes, and else 0."""
    log = coin(n + 5, n + 5) | {
        "action": ["sell"] * 5 + ["wait"] * n,
        "reward": [1.0] * 5 + [3.0] * good + [0.0] * (n - good),
    }
    support = [("s", "sell", "(end)", 1.0), ("s", "wait", "(end)", 0.0), ("s", "wait", "(end)", 3.0)]
    return fit(log | {"next_state": ["(end)"] * (n + 5)}, support=support, reward_range=(0, 3))


def test_a_promise_that_uses_no_data_says_so():
    """It was presented like any other, although the declarations alone guarantee it."""
    few, many = sale(20, 19), sale(2000, 1900)
    said = "This promise uses no data: it is what the declared support and rewards alone guarantee."
    assert few.solve(0.3).value == few.without_data(0.3) == 1.0
    assert said in few.solve(0.3).remarks[0]
    assert few.reason(0.3).startswith("action 'wait' in state 's' was tried 20 times")
    assert many.solve(0.3).value == 3.0 > many.without_data(0.3)
    assert "no data" not in many.solve(0.3).remarks[0]
    assert many.reason(0.3) is None
    for beta in (0.1, 0.3):
        assert few.without_data(0.3, beta) == pytest.approx(1.0)
        assert said in few.solve(0.3, beta).remarks[0]


def test_a_promise_may_use_the_first_states_alone():
    rows = [(0, "a", 1.0)] * 60 + [(0, "b", 2.0)] * 540
    log = {
        "episode": range(600),
        "state": [s for _, s, _ in rows],
        "action": ["x"] * 600,
        "reward": [r for *_, r in rows],
    }
    estimate = fit(log, reward_by="state-action", support=[("a", "x", "(end)"), ("b", "x", "(end)")])
    assert estimate.solve(0.5).value == 2.0
    assert "This promise uses no data but the first states: it is what" in estimate.solve(0.5).remarks[0]


def test_a_problem_that_is_known_exactly_has_a_useful_promise():
    known = [("s", "a", "(end)", 0.5, 0.0), ("s", "a", "(end)", 0.5, 1.0)]
    estimate = fit(coin(20, 10), reward_range=(0, 1), known=known)
    assert estimate.solve(0.6).value == estimate.without_data(0.6) == 1.0
    assert estimate.reason(0.6) is None
    assert "This promise uses no data" in estimate.solve(0.6).remarks[0]


@pytest.mark.parametrize("seed", range(12))
def test_the_promise_without_data_is_that_of_a_log_without_visits(seed):
    rng = np.random.default_rng(seed)
    problem = random_problem(rng)
    options = [{"reward_range": (-3, 3)}, {"support": "states", "reward_by": "state-action", "reward_range": (-3, 3)}]
    declared = options[problem.deterministic and seed % 2]
    estimate = fit(log_of(problem, 30, rng), horizon=problem.H, stationary=len(problem.rows) == 1, **declared)
    blank = replace(estimate, balls=replace(estimate.balls, visits=np.zeros_like(estimate.balls.visits)), _memo={})
    for tau in (0.3, 0.7):
        assert estimate.without_data(tau) == blank.solve(tau).value <= estimate.solve(tau).value


def mortality(rng, episodes, H=6):
    """Patients die; a final row says so and has no successor. Others are lost to follow-up."""
    chances = {"wait": (0.8, 0.1), "treat": (0.9, 0.05)}  # well to well, and to death
    rows = []
    for episode in range(episodes):
        s, cut = "well", int(rng.integers(3, H + 1))
        for h in range(H):
            if s == "dead" or h >= cut:
                rows += [(episode, h, s, "wait", 0.0)] * (s == "dead")
                break
            a = str(rng.choice(["wait", "treat"]))
            stay, die = chances[a]
            rows.append((episode, h, s, a, 1.0 if s == "well" else 0.0))
            s = str(rng.choice(["well", "dead", "sick"], p=[stay, die, 1 - stay - die]))
    names = ("episode", "stage", "state", "action", "reward")
    return {name: [row[i] for row in rows] for i, name in enumerate(names)}


def test_a_state_that_is_never_left_is_named_as_the_cause():
    """An action with 510 tries was blamed; the last row of every death had no successor."""
    log = mortality(np.random.default_rng(0), 300)
    options = {"horizon": 6, "stationary": True, "support": "states", "reward_by": "state-action"}
    open_end = fit(log, ends="truncated", **options)
    deaths = log["state"].count("dead")
    cause = f"no successor is recorded for state 'dead' ({deaths} steps), so the worst is assumed to follow; declare it absorbing"
    assert open_end.solve(0.3).value == -np.inf
    assert open_end.reason(0.3).startswith(cause)
    assert open_end.solve(0.3).remarks[1].startswith(cause)
    assert open_end.uncounted.sum() == open_end.steps - open_end.counted
    stays, ends = ([word if s == "dead" else "" for s in log["state"]] for word in ("dead", "terminal"))
    for remedy in (
        fit(log | {"next_state": stays}, ends="truncated", **options),
        fit(log | {"end": ends}, **options),
    ):
        assert remedy.solve(0.3).value >= 1.0
        assert not any("successor" in note for note in remedy.solve(0.3).remarks)


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


def test_the_reason_names_rewards_that_never_repeat():
    """Continuous rewards make every step a new outcome, and no number of episodes gives a promise."""
    rewards = np.random.default_rng(0).random(300)
    log = coin(300, 0, reward=rewards)
    assert "it showed 300 different outcomes, round its rewards down" in fit(log, reward_range=(0, 1)).reason(0.3)
    rounded = fit(log | {"reward": np.floor(4 * rewards) / 4}, reward_range=(0, 1))
    assert rounded.reason(0.5) is None
    assert "different outcomes" not in rounded.reason(0.01)


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
    estimate = fit(coin(100, 100) | {"end": ends}, reward_range=(0, 1), horizon=2)
    worst = np.r_[np.full(5, -np.inf), np.ones(95)]
    assert estimate.old_promise(0.2) == quantile_interval(worst, 0.2, 0.95)["lower"] == 1.0
    assert estimate.old_promise(0.05) == -np.inf


def test_a_declaration_that_lowers_the_promise_is_named_by_the_plan():
    """`support="states"` lowered a promise, and only `gains` told."""
    rng = np.random.default_rng(0)
    first = rng.integers(40, size=4000)
    moved = (first + rng.integers(2, size=4000)) % 40
    log = {"episode": range(4000), "state": [f"s{i}" for i in first], "next_state": [f"s{i}" for i in moved]}
    log |= {"action": ["go"] * 4000, "reward": (first != moved).astype(float)}
    start = {f"s{i}": 1 / 40 for i in range(40)}
    plan = fit(log, reward_range=(0, 1), support="states", start=start, adaptive=True).solve(0.833)
    assert any(
        "the declaration support lowers the promise: 0 with it and 1 without it" in text.lower()
        for text in plan.remarks
    )
