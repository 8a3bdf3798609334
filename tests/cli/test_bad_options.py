"""Options that cannot be used: one line, exit code 2, and nothing is written."""

import os

import pytest
from helpers import TINY_CSV, assert_refused

# Arguments, and what the one line says.
SOLVE = {
    "AssetSeling --tau 0.1": "did you mean 'AssetSelling'?",
    "zzz --tau 0.1": "choose from AmericanPut, AssetSelling",
    "Nope --tau 0.1": "Staffing, TreatmentChoice\n",  # no names of Gymnasium, which are not near
    "tiny.jsn --tau 0.1": "neither a model file",
    "tinny.json --tau 0.1": "there is no file tinny.json; did you mean 'tiny.json'?",
    "empty.csv --tau 0.1": "empty.csv: expected a header such as state,action,next_state",
    "nan.csv --tau 0.1": "nan.csv: line 2, column 'reward': expected a finite reward, got nan",
    "folder.csv --tau 0.1": "folder.csv is a folder",
    "tiny.json --tau 1.2": "--tau must be a number in (0, 1], got 1.2",
    "tiny.json --tau nan": "tau must be a number in (0, 1], got nan",
    "tiny.json --tau 0.1 --tau 0": "tau must be a number in (0, 1], got 0",
    "tiny.json --tau 0.1 --beta 0.2": "beta must be a number in [0, tau]",
    "tiny.json --tau x": "--tau must be a number, got 'x'",
    "tiny.json --tau 0.1 --tau abc": "--tau must be a number, got 'abc'",
    "tiny.json --tau 0.1 --beta x": "--beta must be a number, got 'x'",
    "tiny.json --tau 0.1 --horizon 2.5": "--horizon must be a whole number, got '2.5'",
    "tiny.json --tau 0.1 --horizon 1000000000": "horizon must be at most 1000000, got 1000000000",
    "tiny.json --tau 0.1 --horizon 1000000000000000000000": "horizon must be at most 1000000, got 1000000000000000000000",
    "tiny.json --tau 0.1 --max-memory 0": "--max-memory must be a number in (0, 1e+09], got 0",
    "tiny.json --tau 0.1 --max-memory -1": "--max-memory must be a number in (0, 1e+09], got -1",
    "tiny.json --tau 0.1 --max-memory inf": "--max-memory must be a number in (0, 1e+09], got inf",
    "tiny.json --tau 0.1 --gap -1": "--gap must be a number above 0, got -1",
    "tiny.json --tau 0.1 --gap 0": "--gap must be a number above 0, got 0",
    "tiny.json --tau 0.1 --gap nan": "--gap must be a number above 0, got nan",
    "tiny.json --tau 0.1 --points 0": "--points must be a whole number of at least 2, got 0",
    "tiny.json --tau 0.1 --points -5": "--points must be a whole number of at least 2, got -5",
    "tiny.json": "Missing option '--tau', e.g. --tau 0.1, or --certainty 90%",
    "tiny.json --tau 10": "--tau must be a number in (0, 1], got 10; write 0.1 for 10 %",
    "tiny.json --tau 10%": "--tau must be a number, got '10%'; write 0.1 for 10 %",
    "tiny.json --tau 0.1 --start out:0.5": "did you mean 'out'? (a law: --start Well=0.8,Sick=0.2)",
    "tiny.json --tau 0.1 --start outt": "start must name a state, got 'outt'; did you mean 'out'?",
    "tiny.json --tau 0.1 --planner targt": "did you mean 'target'?",
    "tiny.json --tau 0.1 --radius 0.1": "attitude must be given with radius, got None; pass both",
    "tiny.json --tau 0.1 --attitude robust": "radius must be given with attitude, got None; pass both",
    "tiny.json --tau 0.1 --radius 0.1 --attitude bold": "attitude must be",
    "tiny.json --tau 0.1 --planner greedy --randomized": "planner must be 'target' with randomized=True, got 'greedy'",
    "tiny.json --tau 0.1 --max-nodes 9": "--max-nodes requires --no-randomized",
    "tiny.json --tau 0.1 --secondary median": "secondary must be one of 'mean'",
    "tiny.json --tau 0.1 --arithmetic octal": "arithmetic must be",
    "tiny.json --tau 0.1 --horizon 0": "horizon must be a whole number of at least 1",
    "tiny.json --tau 0.1 --discount 2": "discount must be a number in (0, 1]",
    "tiny.json --tau 0.1 --points 1": "--points must be a whole number of at least 2, got 1",
    "tiny.json --tau 0.1 --points 50 --max-memory 1e-9": "raise --max-memory",
    "tiny.json --tau 0.1 --out empty.csv/here": "cannot write to the folder",
    "tiny.json --tau 0.1 --out empty.csv": "cannot write to the folder empty.csv: empty.csv is a file; name a folder",
    "tiny.json --tau 0.1 --out=": "'--out': it is empty; name a folder",
    "tiny.json --tau 0.1 --out new/made --planner targt": "did you mean 'target'?",
    "tiny.json --tau 0.1 --out new/made --points 50 --max-memory 1e-9": "raise --max-memory",
    "tinny.json --tau 0.1 --out new/made": "there is no file tinny.json",
    "tiny.json --tau 0.1 --tua 0.5": "No such option",
}
LEARN_OR_COMPARE = {
    "AssetSeling": "did you mean 'AssetSelling'?",
    "FrozenLake-v9": "did you mean 'FrozenLake-v1'?",
    "nothing.csv": "there is no file nothing.csv",
    "no_module_here:Env-v0": "No module named 'no_module_here'",
    "CartPole-v1": "Tuple or Dict observations, got Box in CartPoleEnv; pass bins=",
    "Pendulum-v1": "must have Discrete actions, got Box in PendulumEnv",
    "tiny.json --tau 1.2": "tau must be a number in (0, 1), got 1.2",
    "tiny.json --episodes 0": "at least 1, got 0",
    "tiny.json --seeds 0": "--seeds must be a whole number from 1 to 1000000, got 0",
    "tiny.json --seeds 1000000000000": "seeds must be a whole number from 1 to 1000000",
    "tiny.json --seed -3": "--seed must be a whole number of at least 0, got -3",
    "tiny.json --workers 0": "--workers must be a whole number of at least 1, got 0",
    "tiny.json --workers two": "--workers must be a whole number, got 'two'",
    "tiny.json --delta 1.5": "delta must be a number in (0, 1), got 1.5",
    "tiny.json --horizon 0": "horizon must be a whole number of at least 1",
    "tiny.json --start in": "start must name a state, got 'in'; did you mean '<in>'?",
    "tiny.json --start up": "start must name a state, got 'up'; states run from '<in>' to 'out'",
    "tiny.json --discount 2": "discount must be a number in (0, 1]",
    "tiny.json --out tiny.json/here": "cannot write to the folder",
}
LEARN = LEARN_OR_COMPARE | {
    "tiny.json --learner ucb-bqlr": "did you mean 'ucb-bqrl'?",
    "tiny.json --learner ucb-bqrl --set c_cnf=1": "expected a parameter of ucb-bqrl, got 'c_cnf'; did you mean 'c_conf'?",
    "tiny.json --learner ucb-bqrl --set c_conf": "given as name=value",
    "tiny.json --learner ucb-bqrl --set c_conf=1 --set c_conf=2": "c_conf is given twice, the second time as '2'",
    "tiny.json --planner greedy --set planner=target": "planner is given twice",
    "tiny.json --learner ucb-bqrl --set c_conf=-1": "c_conf must be a number of at least 0, got -1",
    "tiny.json --learner ucb-bqrl --set c_conf=abc": "c_conf must be 'visits', 'theory' or a number, got 'abc'",
    "tiny.json --set stationary=maybe": "stationary must be True, False or None, got 'maybe'",
    "tiny.json --learner ucb-bqrl --set replan_factor=often": "replan_factor must be a number of at least 1, got 'often'",
    "tiny.json --set tau=0.5": "expected a parameter of psrl, got 'tau'",
    "tiny.json --learner ppo --set batch=2.5": "batch must be a whole number of at least 1, got 2.5",
    "tiny.json --learner ucbvi --planner greedy": "expected a parameter of ucbvi, got 'planner'",
    "tiny.json --learner ucb-bqrl --planner gredy": "planner must be one of 'target', 'greedy', 'frontier'",
    "tiny.json --log": "--log and --tensorboard write into a folder; name it with --out DIR",
    "tiny.json --tensorboard": "--tensorboard write into a folder; name it with --out DIR",
}
COMPARE = LEARN_OR_COMPARE | {
    "tiny.json --learner ucbvi --learner ucbvy": "did you mean 'ucbvi'?",
    "tiny.json --learner ucbvi --learner ucbvi": "the learner 'ucbvi' is given twice",
    "tiny.json --learner ucbvi --learner ppo:bach=3": "did you mean 'batch'?",
    "tiny.json --learner ucbvi --learner ppo:batch=0": "batch must be a whole number of at least 1, got 0",
    "tiny.json --learner :planner=greedy": "learner must be one of",
    "tiny.json --learner ucbvi:scale": "given as name=value",
}
CASES = [
    (command, arguments, message)
    for command, table in {"solve": SOLVE, "learn": LEARN, "compare": COMPARE}.items()
    for arguments, message in table.items()
]


@pytest.mark.parametrize(("command", "arguments", "message"), CASES, ids=[" ".join(case[:2]) for case in CASES])
def test_bad_options_are_one_line_and_exit_code_2(cli, tiny, tmp_path, monkeypatch, command, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.csv").touch()
    (tmp_path / "nan.csv").write_text(f"{TINY_CSV.splitlines()[0]}\n1,1,1,1.0,nan\n")
    (tmp_path / "folder.csv").mkdir()
    for more in ([], ["--json"]):
        assert_refused(cli(command, *arguments.split(), *more), message)
    assert set(os.listdir(tmp_path)) == {"tiny.json", "empty.csv", "nan.csv", "folder.csv"}
