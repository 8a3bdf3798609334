import csv
import gzip
import html
import re

import numpy as np
import pytest
from helpers import assert_refused, one_line, strict

import bqrl
from bqrl.planners.solve import read_objective
from bqrl.results.page import PAGE


@pytest.fixture
def log(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["episode,stage,condition,action,reward"]
    for episode in range(2000):
        for stage in range(2):
            treated = rng.random() < 0.5
            rows.append(
                f"{episode},{stage},well,{'treat' if treated else 'wait'},{1 if treated or rng.random() < 0.5 else 0}"
            )
    path = tmp_path / "log.csv.gz"
    with gzip.open(path, "wt") as file:
        file.write("\n".join(rows))
    return path


def test_the_command_prints_three_policies_the_sentence_and_what_limits_it(cli, log):
    code, out, err = cli("fit", log, "--tau", "0.1", "--columns", "state=condition", "--reward-range", "0,1")
    assert (code, err) == (0, "")
    for words in ("old policy", "not a promise", "new plan", "With 95 % confidence, in 9 of 10 episodes", "Coverage:",
                  "The rows whose uncertainty adds most to", "A projection for more data, not a promise"):  # fmt: skip
        assert words in out


def test_the_command_prints_json(cli, log):
    code, out, _ = cli("fit", log, "--tau", 0.1, "--columns", "state=condition", "--reward-range", "0,1", "--json")
    content = strict(out)
    assert code == 0
    assert [row["policy"] for row in content["policies"]] == ["old policy", "plug-in plan", "new plan"]
    assert content["policies"][2]["value"] <= content["policies"][1]["value"]
    assert content["coverage"]["rows_seen"] == 4
    asked = ("--certainty", "90%", "--columns", "state=condition", "--reward-range", "0,1", "--json")
    assert strict(cli("fit", log, *asked)[1])["policies"] == content["policies"]


def test_the_command_writes_a_folder_and_its_page(cli, log, tmp_path):
    out = tmp_path / "result"
    code, text, _ = cli("fit", log, "--tau", 0.1, "--columns", "state=condition", "--reward-range", "0,1", "--out", out)
    assert (code, "Wrote" in text) == (0, True)
    estimate = bqrl.load(out / "estimate.npz")
    plan = estimate.solve(0.1)
    assert plan.policy.target == bqrl.load(out / "policy.npz").target
    decisions = list(csv.DictReader((out / "policy.csv").read_text().splitlines()))
    assert [(row["stage"], row["state"], row["action"]) for row in decisions] == [
        (str(row["stage"]), row["state"], row["action"]) for row in plan.policy.table(estimate.mdp)
    ]
    assert {row["stage"] for row in csv.DictReader((out / "rows.csv").read_text().splitlines())} == {"1", "2"}
    assert (out / "limits.csv").read_text().count("\n") > 1
    code, _, err = cli("report", out)
    assert (code, err) == (0, "")
    page = (out / PAGE).read_text()
    assert "With 95 % confidence" in page
    headline = page.partition('id="sentences"')[2].partition("</p>")[0]
    assert "in 9 of 10 episodes you get at least 2, under the assumptions below." in headline
    assert "assuming that" not in headline
    assert text.count("With 95 % confidence") == 1
    assumed = "every episode starts in state 'well'"  # first states that the log does not show are not allowed for
    assert assumed in " ".join(text.split())
    assert assumed in html.unescape(page)
    assert "in each situation that can occur; the column stage counts from 1" in page


def test_the_unit_and_the_name_of_a_stage(cli, log):
    options = ("--columns", "state=condition", "--reward-range", "0,1", "--unit", "QALY", "--stage-name", "week")
    code, out, _ = cli("fit", log, "--tau", 0.1, *options)
    assert code == 0
    assert "depend only on the week, state and action" in " ".join(out.split())
    for words in (
        "0.1-quantile (QALY)",
        " QALY, assuming that",
        " QALY, the lowest that is not promised.",
        "added probability",
        "95 % confidence interval of the old policy's quantile",
    ):
        assert words in " ".join(out.split())
    limits = out.partition(" QALY, the lowest that is not promised.\n")[2].splitlines()
    assert limits[0].split()[:4] == ["week", "state", "action", "visits"]
    assert {line.split()[0] for line in limits[2 : limits.index("")]} == {"1", "2"}
    assert_refused(cli("fit", log, "--tau", 0.1, *options[:-1], "action"), "--stage-name must not be a column")


KNOWN = ("--columns", "state=condition", "--reward-range", "0,1")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            (),
            "expected a column for the state, got 'condition'; map state to a header with --columns",
        ),
        (("--columns", "state"), "--columns must hold ROLE=HEADER"),
        (("--columns", "state=condition"), "give it, or declare support or reward_by"),
        (
            ("--columns", "state=condition", "--reward-range", "0"),
            "e.g. (0, 1), got 0",
        ),
        (("--columns", "state=condition", "--reward-range", "0,1", "--horizon", "1"), "line 3, column 'stage'"),
        (
            (*KNOWN, "--horizon", "1"),
            "expected at most 1 steps per episode, got 2; raise --horizon or cut every episode",
        ),
        ((*KNOWN[:2], "--reward-range", "1,0"), "must be a number of at least 1, got 0"),
        ((*KNOWN[:2], "--reward-range", "a,1"), "must be two numbers, e.g. (0, 1), got 'a,1'"),
        ((*KNOWN[:2], "--reward-range", "0,0.5"), "as --reward-range says, got 1; widen it"),
        ((*KNOWN, "--reward-by", "state-action"), "got 1; drop --reward-by"),
        ((*KNOWN, "--tau", "1"), "--tau must be a number in (0, 1), got 1"),
        ((*KNOWN, "--psa", "0"), "--psa must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_input_is_one_line(cli, log, options, words):
    level = () if "--tau" in options else ("--tau", 0.1)
    answer = cli("fit", log, *level, *options)
    assert_refused(answer, words)
    assert not re.search(r"(columns|model|support|reward_by|ends|horizon|beta)=", answer[2])  # no arguments of Python


def test_a_discount_rate_is_a_factor(cli, log):
    answers = [
        strict(cli("fit", log, "--tau", 0.1, *KNOWN, *discount, "--json")[1])
        for discount in (("--discount-rate", "25%"), ("--discount", "0.8"), ())
    ]
    assert answers[0] == answers[1]
    assert [answer["settings"]["discount"] for answer in answers] == [0.8, 0.8, 1.0]
    assert answers[1]["policies"] != answers[2]["policies"]
    both = ("--discount-rate", "25%", "--discount", "0.8")
    assert_refused(cli("fit", log, "--tau", 0.1, *KNOWN, *both), "--discount and --discount-rate exclude each other")


def test_a_buffer_applies_to_every_number(cli, log):
    options = (log, "--tau", 0.2, *KNOWN)
    content = strict(cli("fit", *options, "--beta", 0.2, "--json")[1])
    estimate = bqrl.fit(log, columns={"state": "condition"}, reward_range=(0, 1))
    logging, plug_in, robust = content["policies"]
    assert robust["promise"] == estimate.solve(0.2, 0.2).value
    assert plug_in["value"] == estimate.plug_in(0.2, 0.2).value > robust["promise"]
    worst = np.sort(estimate.returns)[: round(0.2 * estimate.returns.size)]
    assert logging["value"] == pytest.approx(worst.mean())
    assert [row["value"] for row in content["projection"]] == sorted(row["value"] for row in content["projection"])
    assert robust["promise"] < content["projection"][0]["value"] < plug_in["value"]
    assert logging["promise"] == estimate.old_promise(0.2, 0.2) < logging["value"]
    assert "over the worst 20 % of episodes you get at least" in content["sentence"]
    (header,) = (line for line in cli("fit", *options, "--beta", 0.2)[1].splitlines() if line.startswith("policy "))
    assert "CVaR at 0.2" in header
    assert_refused(cli("fit", *options, "--beta", 0.3), "beta must be a number in [0, tau] = [0, 0.2], got 0.3")


@pytest.mark.parametrize("goal", ["chance:2", "mean", "entropic:0.5", "mean-cvar:0.2,0.5"])
def test_every_objective_with_a_text_form_is_promised(cli, log, tmp_path, goal):
    out = tmp_path / "result"
    code, text, err = cli("fit", log, "--objective", goal, *KNOWN, "--unit", "QALY", "--out", out)
    assert (code, err) == (0, "")
    content, objective = strict((out / "result.json").read_text())["details"], read_objective(goal)
    estimate = bqrl.fit(log, columns={"state": "condition"}, reward_range=(0, 1))
    old, plug_in, new = content["policies"]
    assert old["promise"] == pytest.approx(estimate.old_promise(objective))
    assert new["promise"] == pytest.approx(estimate.solve(objective).value)
    assert old["promise"] < old["value"] < new["promise"] < new["value"]
    assert (old["lower"] is None, plug_in["promise"]) == (goal != "chance:2", None)
    assert (content["limits"], content["useful"], content["headline"]["keep"]) == ([], True, "new plan")
    projected = [row["value"] for row in content["projection"]]
    assert new["promise"] < projected[0] < projected[1] < projected[2] < plug_in["value"]
    assert ("QALY, assuming that" in " ".join(text.split())) == (goal != "chance:2")  # a probability has no unit
    assert "The rows whose uncertainty" not in text
    assert cli("report", out)[0] == 0
    assert "confidence, " in (out / PAGE).read_text()


def test_the_mean_needs_a_lowest_reward_and_a_chance_does_not(cli, tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["episode,state,action,reward", *(f"{i},well,go,1" for i in range(300))]))
    asked = ("fit", path, "--reward-by", "state-action", "--horizon", 2, "--objective")
    assert_refused(cli(*asked, "mean"), "reward-range must be given to fit for the mean")
    assert_refused(cli(*asked, "chance:1", "--at-least", "1"), "must be given for a quantile without buffer")
    assert strict(cli(*asked, "chance:1", "--json")[1])["policies"][2]["promise"] > 0.9


def test_the_sentences_do_not_speak_python(cli, log, tmp_path):
    """They once said "see limits(0.1)" and "got None; pass it, support= or model="."""
    lines = ["episode,state,action,reward", *(f"{i},well,wait,1\n{i},well,wait,1" for i in range(30))]
    (tmp_path / "short.csv").write_text("\n".join(lines))
    code, out, _ = cli("fit", tmp_path / "short.csv", "--tau", 0.1, "--reward-by", "state-action")
    assert code == 0
    out = " ".join(out.split())
    assert "No promise is possible at level 0.1 with these 30 episodes; declare --reward-range" in out
    assert "Without the declaration --reward-by this log cannot be fitted: it requires --reward-range." in out
    assert not re.search(r"\w\(|None|\w=", out)


def test_the_level_is_checked_before_the_log_is_read(cli):
    assert_refused(cli("fit", "absent.csv", "--tau", "nan"), "--tau must be a number in (0, 1), got nan")


def test_the_start_may_be_a_law(cli, tmp_path):
    """Only one state was once accepted, in contrast to the library and to `bqrl solve`."""
    rng, path = np.random.default_rng(0), tmp_path / "log.csv"
    rows = [(i, rng.choice(["Well", "Sick"], p=[0.8, 0.2]), "wait") for i in range(500)]
    path.write_text(
        "episode,state,action,reward\n" + "\n".join(f"{i},{s},{a},{2 if s == 'Well' else 1}" for i, s, a in rows)
    )
    options = (path, "--tau", 0.3, "--reward-range", "0,2", "--json")
    content = strict(cli("fit", *options, "--start", "Well=0.8, Sick=0.2")[1])
    estimate = bqrl.fit(path, reward_range=(0, 2), start={"Well": 0.8, "Sick": 0.2})
    assert content["policies"][2]["value"] == estimate.solve(0.3).value == 2.0
    assert "the given law of the first state is right" in content["assumptions"]
    assert content["settings"]["start"] == "Well=0.8, Sick=0.2"
    assert strict(cli("fit", *options, "--start", "Sick")[1])["policies"][2]["value"] == 1.0
    assert_refused(
        cli("fit", *options, "--start", "Well=0.8,Sick=0.1"),
        "that sums to 1, got {'Sick': 0.1, 'Well': 0.8} (a law: --start Well=0.8,Sick=0.2)",
    )


def test_a_warning_about_a_log_is_one_line(cli, tmp_path):
    """Once it came with a place in the code of another library."""
    (tmp_path / "log.csv").write_text("episode,state,action,cost\n1,a,x,1\n2,a,y,3\n")
    code, _, err = cli("fit", tmp_path / "log.csv", "--tau", 0.5, "--reward-range", "0,5", "--columns", "reward=cost")
    assert code == 0
    assert one_line(err)
    assert "the column 'cost' is read as rewards" in err


# -- counts, absorbing states, known rows, models ------------------------------------------------------------------------


@pytest.fixture
def trial(tmp_path):
    path = tmp_path / "trial.csv"
    path.write_text("state,action,next_state,n\nWell,treat,Well,980\nWell,treat,Dead,20\n")
    (tmp_path / "worth.csv").write_text("state,action,reward\nWell,treat,1\n")
    return path


def test_counts_give_a_promise_and_posterior_draws(cli, trial, tmp_path):
    asked = (
        "--counts",
        trial,
        "--rewards",
        tmp_path / "worth.csv",
        "--absorbing",
        "Dead",
        "--horizon",
        5,
        "--tau",
        0.2,
    )
    out = tmp_path / "result"
    code, text, err = cli("fit", *asked, "--psa", 50, "--out", out)
    assert (code, err) == (0, "")
    assert "With 95 % confidence, in 4 of 5 episodes you get at least 5" in text.replace("\n", " ")
    assert "statement about the posterior" in text.replace("\n", " ")
    assert (out / "posterior.csv").is_file()
    assert (out / "posterior.vl.json").is_file()
    content = strict(cli("fit", *asked, "--psa", 50, "--json")[1])
    assert content["posterior"]["share"] == 1.0
    assert content["policies"][0]["policy"] != "old policy"
    exact, rounded = (strict(cli("fit", *asked, *more, "--json")[1]) for more in ((), ("--points", 3)))
    promises = [one["policies"][1]["promise"] for one in (exact, rounded)]
    assert promises[1] <= promises[0] == 5  # once a coarse grid was left at its end
    assert rounded["settings"]["points"] == 3


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--tau", "0.2"), "expected a log or --counts FILE, got neither"),
        (("--counts", "TRIAL", "--tau", "0.2"), "--counts requires --horizon"),
        (
            ("--counts", "TRIAL", "--tau", "0.2", "--horizon", "5", "--stationary"),
            "--stationary is for logs, not for --counts",
        ),
        (("--counts", "TRIAL", "--tau", "0.2", "--horizon", "5"), "absorbing must name 'Dead' if it is never left"),
        (("TRIAL", "--counts", "TRIAL", "--tau", "0.2"), "expected a log or --counts FILE, got both"),
        (("TRIAL", "--rewards", "TRIAL", "--tau", "0.2"), "--rewards requires --counts"),
    ],
)
def test_bad_counts_are_refused_in_one_line(cli, trial, options, words):
    assert_refused(cli("fit", *(trial if text == "TRIAL" else text for text in options)), words)


def test_a_registry_is_fitted_with_an_absorbing_state_rounded_rewards_and_a_grid(cli, tmp_path):
    path, rows = tmp_path / "registry.csv", ["patient,year,state,action,reward"]
    for patient in range(60):
        rows += [f"{patient},{year},Well,treat,{1000 + patient % 7}" for year in range(3 if patient % 3 else 2)]
        rows += [] if patient % 3 else [f"{patient},2,Dead,,0"]
    path.write_text("\n".join(rows))
    asked = ("fit", path, "--columns", "episode=patient,stage=year", "--ends", "truncated", "--reward-range", "0,1100")
    asked += ("--stationary", "--tau", "0.9", "--absorbing", "Dead", "--round-rewards", "1000")
    code, text, err = cli(*asked)
    assert (code, err) == (0, "")
    assert "each reward counts as the next lower multiple of 1,000" in text.replace("\n", " ")
    assert cli(*asked, "--points", "200")[0] == 0
    assert_refused(cli(*asked[:-4]), "if the state 'Dead' is never left, declare it absorbing")


def test_known_rows_and_a_model_come_from_files(cli, log, tmp_path):
    known = tmp_path / "known.csv"
    known.write_text("state,action,next_state,probability,reward\nwell,treat,well,1,1\n")
    asked = ("--columns", "state=condition", "--tau", "0.1", "--json")
    content = strict(cli("fit", log, *asked, "--reward-range", "0,1", "--known", known)[1])
    assert "the known rows are right" in content["assumptions"]
    model = tmp_path / "model.csv"
    rows = [
        "state,action,next_state,probability,reward",
        "well,treat,well,1,1",
        "well,wait,well,0.5,1",
        "well,wait,well,0.5,0",
    ]
    model.write_text("\n".join(rows))
    content = strict(cli("fit", log, *asked, "--model", model, "--horizon", 2)[1])
    assert "the given model has the right outcomes, rewards and first state" in content["assumptions"]
    assert content["policies"][2]["value"] == 2.0


def test_costs_show_which_strategy_is_worth_them(cli, tmp_path):
    trial, worth, out = tmp_path / "trial.csv", tmp_path / "worth.csv", tmp_path / "result"
    lines = ["Well,new,Well,90", "Well,new,Dead,10", "Well,old,Well,60", "Well,old,Dead,40"]
    trial.write_text("\n".join(["state,action,next_state,count", *lines]))
    worth.write_text("state,action,reward,outcome:cost\nWell,new,1,1000\nWell,old,1,0\n")
    asked = ("fit", "--counts", trial, "--rewards", worth, "--absorbing", "Dead", "--horizon", 3, "--tau", 0.2)
    asked += ("--psa", 40, "--cost", "cost")
    more = ("--policy", "old=always:old", "--threshold", 20_000, "--threshold", 0)
    code, text, err = cli(*asked, *more, "--out", out)
    assert (code, err) == (0, "")
    assert "If one unit of reward is worth 20,000, 'new plan' has the highest mean net benefit" in " ".join(
        text.split()
    )
    assert (out / "acceptability.vl.json").is_file()
    content = strict(cli(*asked, *more, "--json")[1])
    best = [(row["threshold"], row["strategy"]) for row in content["acceptability"]["rows"] if row["best"]]
    assert best == [(0, "old"), (20_000, "new plan")]
    assert {row["state"] for row in csv.DictReader((out / "policy.csv").read_text().splitlines())} == {"Well"}
    assert_refused(cli(*asked), "--cost requires --psa, --policy and --threshold")


def test_a_promise_that_suffices_may_be_that_of_the_old_policy(cli, log):
    asked = (
        "fit",
        log,
        "--tau",
        0.3,
        "--columns",
        "state=condition",
        "--reward-range",
        "0,1",
        "--stationary",
        "--json",
    )
    best, content, number = (strict(cli(*asked, *more)[1]) for more in ((), ("--at-least", "old"), ("--at-least", "0")))
    old, new = content["policies"][0]["promise"], content["policies"][2]["promise"]
    assert old <= new <= best["policies"][2]["promise"]
    assert number["policies"][2]["value"] >= best["policies"][2]["value"]
    assert_refused(cli(*asked, "--at-least", "5"), "at-least must be at most")
    assert_refused(cli(*asked, "--adaptive", "--at-least", "old"), "requires a promise of the old policy")


def test_the_promise_of_the_old_policy_may_exceed_every_new_one(cli, tmp_path):
    """Then --at-least old was refused with the number, to be lowered; now it asks for the highest promise."""
    path = tmp_path / "few.csv"
    rewards = ["1" if i % 30 else "0" for i in range(60)]
    path.write_text("\n".join(["episode,state,action,reward", *(f"{i},s,a,{r}" for i, r in enumerate(rewards))]))
    asked = "fit", path, "--tau", 0.2, "--reward-range=-5,1", "--json"
    plain, content = (strict(cli(*asked, *more)[1]) for more in ((), ("--at-least", "old")))
    assert content["headline"] == {"keep": "old policy", "promise": 1.0}
    assert content["policies"] == plain["policies"]


def test_a_log_whose_actions_change_says_so_unless_it_is_one_policy(cli, tmp_path):
    """The episodes are sorted by their action."""
    path = tmp_path / "sorted.csv"
    lines = [f"{i},well,{'a' if i < 60 else 'b'},1" for i in range(120)]
    path.write_text("\n".join(["episode,state,action,reward", *lines]))
    asked = ("fit", path, "--tau", 0.2, "--reward-range", "0,1")
    assert "The actions change between the first and the second half of the log" in cli(*asked)[1].replace("\n", " ")
    assert "The actions change" not in cli(*asked, "--one-policy")[1]
    assert strict(cli(*asked, "--one-policy", "--json")[1])["policies"][0]["promise"] == 1


def test_an_environment_without_a_time_limit_asks_for_the_option(cli):
    assert_refused(
        cli("fit", "Blackjack-v1", "--tau", 0.1, "--episodes", 9), "got None; pass e.g. --horizon 100, the number"
    )
