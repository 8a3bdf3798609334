"""Bad inputs, and the one line that each is answered with.

A row of a table is (name, call, exception, what the message must say). A call may take `folder`, an empty folder.
"""

# ruff: noqa: E501  (a bad input and its answer stay on one line)

import io
import json
import zipfile

import gymnasium as gym
import numpy as np
import pytest
from scipy import sparse

import bqrl
from bqrl import MDP

HUGE = 10**400  # beyond all floats
LOOP = np.ones((1, 1, 1))
P = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])  # (S, A, S)
R = np.array([[0.0, 1.0], [2.0, 3.0]])
GOOD = MDP(P, R, horizon=3)
ONLY_FIRST = MDP([(0, 0, 1, 1.0, 0.0), (1, 1, 0, 1.0, 0.0)], horizon=2)
STAGED = MDP(np.stack([P, P]), R)


def changed(array, place, value):
    """A copy of an array with one entry changed."""
    array = np.array(array, dtype=float)
    array[place] = value
    return array


MODELS = [
    ("rows that do not sum to 1", lambda: MDP(changed(P, (0, 0, 1), 0.48), R, horizon=2), ValueError, "row (s=0, a=0) must sum to 1 (tolerance 1e-09), got 0.98"),
    ("the stage of such a row", lambda: MDP(changed([P] * 4, (3, 1, 1, 0), 0.2), R), ValueError, "row (h=3, s=1, a=1) must sum to 1 (tolerance 1e-09), got 0.95"),
    ("an all-zero row", lambda: MDP(changed(P, (1, 0, 1), 0.0), R, horizon=2), ValueError, "row (s=1, a=0) must sum to 1, got 0; mask actions that do not exist with available="),
    ("NaN probability", lambda: MDP(changed(P, (0, 0, 0), np.nan), R, horizon=2), ValueError, "row (s=0, a=0): the probability of successor 0 must be a number in [0, 1], got nan"),
    ("infinite probability", lambda: MDP(changed(P, (0, 0, 0), np.inf), R, horizon=2), ValueError, "row (s=0, a=0): the probability of successor 0 must be a number in [0, 1], got inf"),
    ("negative probability", lambda: MDP(changed(P, (0, 0), [-0.5, 1.5]), R, horizon=2), ValueError, "row (s=0, a=0): the probability of successor 0 must be a number in [0, 1], got -0.5"),
    ("NaN reward", lambda: MDP(P, changed(R, (1, 0), np.nan), horizon=2), ValueError, "the reward of row (s=1, a=0) must be finite, got nan"),
    ("infinite reward of a stage", lambda: MDP(P, changed([R] * 3, (2, 0, 1), np.inf), horizon=3), ValueError, "the reward of row (s=0, a=1) at stage 3 must be finite, got inf"),
    ("infinite reward of an outcome", lambda: MDP(P, changed(np.zeros((2, 2, 2)), (1, 1, 0), -np.inf), horizon=3), ValueError, "the reward of row (s=1, a=1) must be finite, got -inf"),
    ("a kernel that is not square", lambda: MDP(np.ones((2, 1, 3)), np.zeros((2, 1)), horizon=2), ValueError, "transitions must have shape (H,S,A,S), or (S,A,S) with horizon, got (2, 1, 3)"),
    ("a kernel of two axes", lambda: MDP(np.eye(2), np.zeros((2, 1)), horizon=2), ValueError, "transitions must have shape"),
    ("no states", lambda: MDP(np.ones((0, 1, 0)), np.zeros((0, 1)), horizon=2), ValueError, "at least one stage, state and action"),
    ("words for numbers", lambda: MDP("kernel", R, horizon=2), TypeError, "transitions must be arrays or a table, got 'kernel'; read a file with bqrl.load"),
    ("ragged lists", lambda: MDP([[[1.0, 0.0]], [[1.0]]], R, horizon=2), TypeError, "transitions must be an array of numbers of one shape"),
    ("complex numbers", lambda: MDP(P + 0j, R, horizon=2), TypeError, "transitions must be an array of numbers"),
    ("rewards of another shape", lambda: MDP(P, np.zeros((3, 2)), horizon=2), ValueError, "rewards must have shape (2, 2), (2, 2, 2), or one of these with a trailing successor axis, got (3, 2)"),
    ("rewards that could mean two things", lambda: MDP(P, np.zeros((2, 2, 2)), horizon=2), ValueError, "rewards must have an unambiguous shape, got (2, 2, 2), which may mean (H,S,A) or (S,A,S)"),
    ("support of a list", lambda: MDP([(0, 0, 0, 1.0, 0.0)], horizon=2, support=LOOP > 0), ValueError, "support must not be given with a list of transitions, got array([[[ True]]])"),
    ("no horizon", lambda: MDP(P, R), ValueError, "horizon must be given for transitions without stages, got None"),
    ("horizon 0", lambda: MDP(P, R, horizon=0), ValueError, "horizon must be a whole number of at least 1, got 0"),
    ("half a stage", lambda: MDP(P, R, horizon=2.5), TypeError, "horizon must be a whole number of at least 1, got 2.5"),
    ("a horizon of True", lambda: MDP(P, R, horizon=True), TypeError, "horizon must be a whole number of at least 1, got True"),
    ("a horizon beside stages", lambda: MDP(np.stack([P] * 3), R, horizon=2), ValueError, "horizon must be 3, the number of stages of transitions, got 2"),
    ("a start below 0", lambda: MDP(P, R, start=-1, horizon=2), ValueError, "start must be a whole number from 0 to 1, got -1"),
    ("a start beyond the states", lambda: MDP(P, R, start=2, horizon=2), ValueError, "start must be a whole number from 0 to 1, got 2"),
    ("names in a list of tuples", lambda: MDP([("a", "x", "a", 1.0, 0)], horizon=2), TypeError, "got list; give names as a frame or a list of dicts with state, action, next_state, probability and reward"),
    ("a start without that name", lambda: MDP(P, R, start="hill", horizon=2), ValueError, "start must name a state, got 'hill'; states run from '0' to '1'"),
    ("a start that is no law", lambda: MDP(P, R, start=[0.5, 0.6], horizon=2), ValueError, "2 probabilities that sum to 1, got the sum 1.1"),
    ("a long start that is no law", lambda: MDP(P, R, start=np.ones(500), horizon=2), ValueError, "got shape (500,), values from 1 to 1"),
    ("a start between states", lambda: MDP(P, R, start=0.5, horizon=2), ValueError, "start must be a state"),
    ("a start of nothing", lambda: MDP(P, R, start={}, horizon=2), ValueError, "2 probabilities that sum to 1, got the sum 0"),
    ("discount 0", lambda: MDP(P, R, horizon=2, discount=0.0), ValueError, "discount must be a number in (0, 1], got 0"),
    ("a rate of interest as a discount", lambda: MDP(P, R, horizon=2, discount=1.03), ValueError, "discount must be a number in (0, 1], got 1.03; for interest of 3 % per stage give 1 / 1.03"),
    ("a percentage of interest as a discount", lambda: MDP(P, R, horizon=2, discount=3), ValueError, "discount must be a number in (0, 1], got 3; for interest of 3 % per stage give 1 / 1.03"),
    ("interest as the discount of a log", lambda: bqrl.fit({"episode": [0], "state": [0], "action": [0], "reward": [1.0]}, discount=3), ValueError, "discount must be a number in (0, 1], got 3; for interest of 3 % per stage give 1 / 1.03"),
    ("interest as the discount of updates", lambda: bqrl.learn(GOOD, "sarsa", 0.3, 3, 0, discount=3), ValueError, "discount must be a number in (0, 1], got 3; for interest of 3 % per stage give 1 / 1.03"),
    ("a percentage as a discount", lambda: MDP(P, R, horizon=2, discount=97), ValueError, "discount must be a number in (0, 1], got 97; write 0.97 for 97 %"),
    ("a huge horizon", lambda: MDP(P, R, horizon=HUGE), ValueError, "horizon must be at most 1000000, got 1000"),
    ("a huge reward of a step", lambda: bqrl.from_step(lambda s, a, e: (s, HUGE), [0], {0: 1.0}, 2, 0), ValueError, "must return a finite reward, got 1000"),
    ("discount above 1", lambda: MDP(P, R, horizon=2, discount=1.01), ValueError, "discount must be a number in (0, 1], got 1.01"),
    ("NaN discount", lambda: MDP(P, R, horizon=2, discount=np.nan), ValueError, "discount must be a number in (0, 1], got nan"),
    ("a discount in words", lambda: MDP(P, R, horizon=2, discount="0.9"), TypeError, "discount must be a number in (0, 1], got '0.9'"),
    ("a mask of another shape", lambda: MDP(P, R, horizon=2, available=np.ones((3, 2), bool)), ValueError, "available must be a boolean array of shape (2, 2)"),
    ("a mask of numbers", lambda: MDP(P, R, horizon=2, available=np.ones((2, 2))), ValueError, "available must be a boolean array"),
    ("a mask by stage on one kernel", lambda: MDP(P, R, horizon=3, available=np.ones((3, 2, 2), bool)), ValueError, "available must be a boolean array of shape (2, 2), or one per stage of the transitions, got (3, 2, 2) of bool; give the transitions per stage, too"),
    ("a mask of everything", lambda: MDP(P, R, horizon=2, available=np.zeros((2, 2), bool)), ValueError, "a model must have at least one transition, got none"),
    ("a state without an action", lambda: MDP(P, R, horizon=2, available=[[True, True], [False, False]]), ValueError, "state 1, reachable at stage 2, must have an action, got none; give it one"),
    ("known rows of another shape", lambda: MDP(P, R, horizon=2, known=[True]), ValueError, "known must be a boolean array of shape (2, 2)"),
    ("support of another shape", lambda: MDP(P, R, horizon=2, support=np.ones((2, 2), bool)), ValueError, "support must be a boolean array of shape (2, 2, 2)"),
    ("too few names", lambda: MDP(P, R, horizon=2, state_names=["a"]), ValueError, "state_names must hold 2 names, got 1"),
    ("one name twice", lambda: MDP(P, R, horizon=2, action_names=["go", "go"]), ValueError, "action_names must be distinct, got 'go' twice"),
    ("a name of two lines", lambda: MDP(P, R, horizon=2, state_names=["a", "b\nc"]), ValueError, r"state_names must be printable on one line, got 'b\nc'"),
    ("an empty list", lambda: MDP([]), ValueError, "transitions must list (s, a, s_next, probability, reward)"),
    ("lists of four numbers", lambda: MDP([(0, 0, 0, 1.0)], horizon=2), ValueError, "in front, got shape (1, 4)"),
    ("half a state in a list", lambda: MDP([(0, 0, 0.5, 1.0, 0.0)], horizon=2), ValueError, "transitions[0] must have ids that are whole numbers from 0 to 2147483646, got [0.0, 0.0, 0.5]"),
    ("a negative state in a list", lambda: MDP([(0, 0, 0, 1.0, 0.0), (-1, 0, 0, 1.0, 0.0)], horizon=2), ValueError, "transitions[1] must have ids that are whole numbers from 0 to 2147483646, got [-1.0, 0.0, 0.0]"),
    ("a huge state in a list", lambda: MDP([(0, 0, 10**12, 1.0, 0.0)], horizon=2), ValueError, "transitions[0] must have ids that are whole numbers from 0 to 2147483646, got [0.0, 0.0, 1000000000000.0]"),
    ("a large gap in a list", lambda: MDP([(0, 0, 10**9, 1.0, 0.0)], horizon=2), ValueError, "1 transitions must describe at most 16777216 rows, got 1000000001"),
    ("a row of listed zeros", lambda: MDP([(0, 0, 0, 1.0, 0.0), (0, 1, 0, 0.0, 0.0)], horizon=2), ValueError, "row (s=0, a=1) must sum to 1, got 0"),
    ("a sparse kernel of another shape", lambda: MDP(sparse.eye_array(5, 3), R, horizon=2), ValueError, "a sparse kernel must have shape (S*A, S), row s*A + a, got (5, 3)"),
    ("sparse stages of two shapes", lambda: MDP([sparse.eye_array(2), sparse.eye_array(3)], R), ValueError, "transitions must be SciPy matrices of shape (2, 2), got [(2, 2), (3, 3)]"),
    ("a sparse kernel without rewards", lambda: MDP(sparse.eye_array(2), horizon=2), TypeError, "rewards must be given with an array of transitions, as (S,A)"),
    ("sparse rewards of another shape", lambda: MDP(sparse.eye_array(2), sparse.eye_array(3), horizon=2), ValueError, "rewards must be SciPy matrices of shape (2, 2), 1 or 2 of them, got [(3, 3)]"),
    ("a sparse kernel with a support of three axes", lambda: MDP(sparse.eye_array(2), [[0.0], [0.0]], horizon=2, support=np.ones((2, 1, 2), bool)), TypeError, "support must be real SciPy matrices at every stage, got"),
    ("a sparse kernel with support for too many stages", lambda: MDP(sparse.eye_array(2), [[0.0], [0.0]], horizon=2, support=[sparse.eye_array(2)] * 2), ValueError, "support must be SciPy matrices of shape (2, 2), 1 of them, got [(2, 2), (2, 2)]"),
    ("half of the stages sparse", lambda: MDP([sparse.eye_array(2), np.eye(2)], R), TypeError, "transitions must be real SciPy matrices at every stage"),
    ("a longer horizon of differing stages", lambda: STAGED.replace(horizon=5), ValueError, "horizon must be 2 for a model whose stages differ, got 5"),
    ("replacing the horizon by 0", lambda: GOOD.replace(horizon=0), ValueError, "horizon must be a whole number of at least 1, got 0"),
    ("other probabilities of another shape", lambda: GOOD.with_probability(np.ones(3)), ValueError, "probability must have shape (6,), got (3,)"),
    ("other probabilities that are none", lambda: GOOD.with_probability(np.full(6, 0.5)), ValueError, "row (s=0, a=1) must sum to 1 (tolerance 1e-09), got 0.5; add the outcomes that are missing, or divide the row by its sum"),
]  # fmt: skip


# -- files ---------------------------------------------------------------------------------------------------------------

HEADER = "idstatefrom,idaction,idstateto,probability,reward"
MODEL = {
    "horizon": 2,
    "states": ["a", "b"],
    "actions": 1,
    "transitions": [["a", 0, "b", 1.0, 0.0], ["b", 0, "a", 1.0, 0.0]],
}


def loading(content, name="m.csv", **options):
    """A call that writes `content` and loads it."""

    def call(folder):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return bqrl.load(path, **({"horizon": 3} if name == "m.csv" else {}) | options)

    return call


def csv(*lines):
    return loading("\n".join([HEADER, *lines]))


def as_json(**changes):
    return loading(json.dumps({key: value for key, value in (MODEL | changes).items() if value is not ...}), "m.json")


def npz(drop=(), **changes):
    def call(folder):
        GOOD.save(folder / "m.npz")
        with np.load(folder / "m.npz") as archive:
            arrays = {name: archive[name] for name in archive.files if name not in drop}
        np.savez(folder / "m.npz", **arrays | changes)
        return bqrl.load(folder / "m.npz")

    return call


def zipped(name, content):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(name, content)
    return loading(file.getvalue(), "m.npz")


FILES = [
    ("an unknown ending", lambda folder: bqrl.load(folder / "m.txt"), ValueError, "path must end in .csv, .csv.gz, .xlsx, .parquet, .npz, .json, .umb or .drn, got 'm.txt'"),
    ("no ending", lambda folder: bqrl.load(folder / "model"), ValueError, "path must end in .csv, .csv.gz, .xlsx, .parquet, .npz, .json, .umb or .drn, got 'model'"),
    ("a missing file", lambda folder: bqrl.load(folder / "m.csv", horizon=2), FileNotFoundError, "there is no file "),
    ("a folder", lambda folder: (folder / "m.csv").mkdir() or bqrl.load(folder / "m.csv"), IsADirectoryError, "is a folder; give the name of a file"),
    ("a number for a path", lambda: bqrl.load(5), TypeError, "int"),
    ("saving to an unknown ending", lambda folder: GOOD.save(folder / "m.pkl"), ValueError, "path must end in .csv, .csv.gz, .npz or .json, got 'm.pkl'"),
    ("saving into a folder that is not there", lambda folder: GOOD.save(folder / "no" / "m.npz"), FileNotFoundError, "does not exist; create it first"),
    ("saving something else", lambda folder: bqrl.save({}, folder / "m.npz"), TypeError, "thing must be a model, policy, plan, record, experiment, suite, estimate or chart, got 'dict'"),
    ("csv: horizon 0", loading(f"{HEADER}\n1,1,1,1,0", horizon=0), ValueError, "horizon must be a whole number of at least 1, got 0"),
    ("csv: an unknown start", loading(f"{HEADER}\n1,1,1,1,0", start="2"), ValueError, "m.csv: start must name a state, got '2'; states run from '1' to '1'"),
    ("csv: empty", loading(""), ValueError, "m.csv: expected a header such as state,action,next_state,probability,reward, got an empty file"),
    ("csv: blank", loading(" \n\n"), ValueError, "m.csv: expected a header such as state,action,next_state,probability,reward, got an empty file"),
    ("csv: binary", loading(bytes(range(256)) * 4), ValueError, "m.csv: near line 1: expected CSV text in UTF-8, got other bytes; save the file as CSV UTF-8"),
    ("csv: another encoding", loading(f"{HEADER}\ncaf\xe9,1,1,1,0\n".encode("utf-16-be")), ValueError, "m.csv: line 1: expected a header such as state,action,next_state,probability,reward, got control characters"),
    ("csv: zeros", loading(b"\0" * 100), ValueError, "m.csv: line 1: expected a header such as state,action,next_state,probability,reward, got control characters"),
    ("csv: a header alone", csv(), ValueError, "m.csv: line 1: expected rows below the header, got no rows; is the file truncated?"),
    ("csv: no header", loading("1,1,1,1.0,0.0\n"), ValueError, "m.csv: line 1: expected a header such as state,action,next_state,probability,reward, got numbers"),
    ("csv: names without a header", loading("A,x,A,1,0\n"), ValueError, "m.csv: line 1: expected a header such as state,action,next_state,probability,reward, got 'A', 'x', 'A', '1', '0'; add this line, or give the headers with columns"),
    ("csv: no probabilities", loading("state,action,next_state,reward\nA,x,A,0\n"), ValueError, "m.csv: line 1: expected a column for the probability, got none; add it"),
    ("csv: a slip in the header", loading(HEADER.replace("prob", "porb") + "\n1,1,1,1,0"), ValueError, "m.csv: line 1: expected a column for the probability, got 'porbability'; map probability to 'porbability' with columns"),
    ("csv: a column twice", loading(f"{HEADER},reward\n1,1,1,1,0,1"), ValueError, "m.csv: line 1: expected distinct headers, got 'reward' twice"),
    ("csv: a word", csv("1,1,1,1,0", "2,1,1,half,0", "2,1,1,half,0"), ValueError, "m.csv: line 3, column 'probability': expected a number, got 'half'"),
    ("csv: a state by name", csv("1,1,1,1,0", "home,1,1,1,0", "1,1,1,1,0"), ValueError, "m.csv: line 3, column 'idstatefrom': expected a number as for other states, got the name 'home'; use one kind"),
    ("csv: a missing cell", csv("1,1,1,,0", "1,1,1,1,0"), ValueError, "m.csv: line 2, column 'probability': expected a number, got ''"),
    ("csv: a missing column", csv("1,1,1,1", "1,1,1,1,0"), ValueError, "m.csv: line 2: expected 5 columns as in the header, got 4"),
    ("csv: cut in the last line", csv("1,1,1,0.5,0", "1,1,"), ValueError, "m.csv: line 3: expected 5 columns as in the header, got 3; is the file truncated?"),
    ("csv: cut between lines", csv("1,1,1,1,0", "", "2,1,1,0.5,0"), ValueError, "m.csv: line 4, column 'probability': row (s=2, a=1) must sum to 1, got 0.5; is the file truncated?"),
    ("csv: a row that does not sum to 1", csv("0,0,0,0.5,0", "0,0,0,0.2,1", "0,1,0,1,0"), ValueError, "m.csv: line 2, column 'probability': row (s=0, a=0) must sum to 1, got 0.7; add the outcomes that are missing, or divide the row by its sum"),
    ("csv: a line twice", csv("1,1,1,1,0", "1,1,1,1,0"), ValueError, "m.csv: lines 2 and 3: expected distinct outcomes, got (s=1, a=1, s'=1) with reward 0 twice; the row sums to 2"),
    ("csv: NaN probability", csv("1,1,1,nan,0"), ValueError, "m.csv: line 2, column 'probability': expected a probability in [0, 1], got nan"),
    ("csv: negative probability", csv("1,1,1,-0.5,0", "1,1,1,1.5,0"), ValueError, "m.csv: line 2, column 'probability': expected a probability in [0, 1], got -0.5"),
    ("csv: probability above 1", csv("1,1,1,1.5,0"), ValueError, "m.csv: line 2, column 'probability': expected a probability in [0, 1], got 1.5"),
    ("csv: infinite reward", csv("1,1,1,1,0", "1,2,1,1,-inf"), ValueError, "m.csv: line 3, column 'reward': expected a finite reward, got -inf"),
    ("csv: half a state", csv("1.5,1,1,1,0"), ValueError, "m.csv: line 2, column 'idstatefrom': expected a name or a whole number from 0 or 1, got '1.5'"),
    ("csv: a negative action", csv("1,-1,1,1,0"), ValueError, "m.csv: line 2, column 'idaction': expected a name or a whole number from 0 or 1, got '-1'"),
    ("csv: a huge state", csv("1,1,1,1,0", "1,2,1000000000000,1,0"), ValueError, "m.csv: line 3, column 'idstateto': expected a name or a whole number from 0 or 1, got '1000000000000'"),
    ("csv: a large gap", csv("1,1,1,1,0", "1,2,900000000,1,0"), ValueError, "m.csv: line 3: 2 transitions must describe at most 16777216 rows, got 1800000000"),
    ("csv: states from 2", csv("2,1,2,1,0"), ValueError, "m.csv: line 2, column 'idstatefrom': expected state ids that begin at 0 or 1, got 2; renumber them"),
    ("csv: actions from 5", csv("1,5,1,1,0"), ValueError, "m.csv: line 2, column 'idaction': expected action ids that begin at 0 or 1, got 5; renumber them"),
    ("csv: a state without an action", csv("1,1,2,1,0"), ValueError, "m.csv: line 2: state 2, reachable at stage 2, must have an action, got none; give it one (a loop will do)"),
    ("csv: known rows", lambda folder: MDP(P, R, horizon=2, known=np.ones((2, 2), bool)).save(folder / "m.csv"), ValueError, "expected a model that a .csv file can hold, got one with rows known to learners; save to .npz instead"),
    ("csv: zeros in the support", lambda folder: bqrl.envs.make("AssetSelling", offers=2, start=1, distribution=[0, 1]).save(folder / "m.csv"), ValueError, "expected a model that a .csv file can hold, got one with possible successors of probability zero"),
    ("json: empty", loading("", "m.json"), ValueError, "m.json: line 1: expected JSON, got other text (Expecting value)"),
    ("json: cut", loading(json.dumps(MODEL, indent=1)[:-20], "m.json"), ValueError, "m.json: line "),
    ("json: binary", loading(b"\xff\xfe\x00", "m.json"), ValueError, "m.json: expected JSON in UTF-8, got other bytes"),
    ("json: a list", loading("[1, 2]", "m.json"), ValueError, "m.json: expected a JSON object with the keys horizon"),
    ("json: nested", loading("[" * 100_000, "m.json"), ValueError, "m.json: expected a flat JSON object, got one that is nested too deeply"),
    ("json: a slip in a key", as_json(horizont=3), ValueError, "m.json: expected a known key, got 'horizont'; did you mean 'horizon'?"),
    ("json: a missing key", as_json(states=...), ValueError, "m.json: expected the key 'states', got only horizon, actions, transitions"),
    ("json: no horizon", as_json(horizon=...), ValueError, "m.json: horizon must be given for transitions without stages"),
    ("json: a key twice", loading('{"states": 1, "states": 1}', "m.json"), ValueError, "m.json: expected each key once, got 'states' twice"),
    ("json: states in words", as_json(states="ab"), ValueError, "m.json: states: expected a list of names or their number, got 'ab'"),
    ("json: NaN", loading(json.dumps(MODEL).replace("1.0", "NaN", 1), "m.json"), ValueError, "m.json: expected finite numbers, got NaN"),
    ("json: an unknown name", as_json(transitions=[["a", 0, "c", 1.0, 0.0]]), ValueError, "m.json: transitions[0], next state: expected a number from 0 to 1 or a name of the list, got 'c'"),
    ("json: a word for a number", as_json(transitions=[["a", 0, "b", "half", 0.0]]), ValueError, "m.json: transitions[0], probability: expected a finite number, got 'half'"),
    ("json: a short transition", as_json(transitions=[["a", 0, "b", 1.0, 0.0], ["a"]]), ValueError, "m.json: transitions[1]: expected [state, action, next state, probability, reward]"),
    ("json: rewards for other stages", as_json(transitions=[["a", 0, "a", 1.0, [1, 2, 3]]]), ValueError, "m.json: transitions: expected lists with one reward per stage"),
    ("json: a sum below 1", as_json(transitions=[["a", 0, "b", 0.9, 0.0], ["b", 0, "a", 1.0, 0.0]]), ValueError, "m.json: transitions[0]: row (s=a, a=0) must sum to 1, got 0.9; add the outcomes that are missing, or divide the row by its sum"),
    ("json: a discount in words", as_json(discount="low"), ValueError, "m.json: discount must be a number in (0, 1], got 'low'"),
    ("npz: no archive", loading(b"PK but not really", "m.npz"), ValueError, "m.npz: expected a .npz archive, got other or truncated bytes"),
    ("npz: a damaged array", zipped("mu.npy", b"not an array"), ValueError, "m.npz: expected the array 'mu' in a readable form, got damaged bytes"),
    ("npz: a missing array", npz(drop=["mu"]), ValueError, "or transitions and rewards, got no array 'mu'"),
    ("npz: an unknown array", npz(extra=np.ones(1)), ValueError, "transitions and rewards, got the array 'extra'"),
    ("npz: objects", npz(mu=np.array([{}], dtype=object)), ValueError, "m.npz: expected the array 'mu' in a readable form, got damaged bytes or Python objects"),
    ("npz: complex numbers", npz(mu=np.array([1j])), ValueError, "m.npz: the array 'mu' must hold numbers or strings, got complex128"),
    ("npz: words for numbers", npz(mu=np.array(["a", "b"])), ValueError, "m.npz: the array 'mu' must hold numbers, got <U1"),
    ("npz: another shape", npz(probability=np.ones(2)), ValueError, "m.npz: the array 'probability' must have shape (6,), got (2,)"),
    ("npz: a successor that is no state", npz(successor=np.full(6, 7)), ValueError, "m.npz: the array 'successor' must hold states from 0 to 1"),
    ("npz: rows that fall", npz(row_start=np.array([0, 3, 2, 4, 6])), ValueError, "m.npz: the array 'row_start' must rise from 0 to 6 in 4 steps"),
    ("npz: both kinds of rewards", npz(reward=np.ones((1, 6))), ValueError, "m.npz: expected one of the arrays 'reward' and 'row_reward', got both"),
]  # fmt: skip


# -- environments --------------------------------------------------------------------------------------------------------


def stepping(mdp, *actions, reset=True):
    def call():
        env = mdp.as_env()
        if reset:
            env.reset(seed=0)
        for action in actions:
            env.step(action)

    return call


ENVIRONMENTS = [
    ("an unknown problem", lambda: bqrl.envs.make("AssetSeling"), ValueError, "name must be a known problem, got 'AssetSeling'; did you mean 'AssetSelling'?"),
    ("a problem far from any", lambda: bqrl.envs.make("zzz"), ValueError, "choose from AmericanPut, AssetSelling"),
    ("a problem that is no name", lambda: bqrl.envs.make(3), TypeError, "name must be a string such as 'AssetSelling', got int"),
    ("an unknown parameter", lambda: bqrl.envs.make("AssetSelling", offer=3), TypeError, "expected a parameter of AssetSelling, got 'offer'; did you mean 'offers'?"),
    ("one offer", lambda: bqrl.envs.make("AssetSelling", offers=1), ValueError, "offers must be a whole number of at least 2, got 1"),
    ("half an offer", lambda: bqrl.envs.make("AssetSelling", offers=2.5), TypeError, "offers must be a whole number of at least 2, got 2.5"),
    ("horizon 0", lambda: bqrl.envs.make("AssetSelling", horizon=0), ValueError, "horizon must be a whole number of at least 1, got 0"),
    ("a start beyond the offers", lambda: bqrl.envs.make("AssetSelling", offers=4), ValueError, "start must be a whole number from 0 to 3, got 5"),
    ("an unknown distribution", lambda: bqrl.envs.make("AssetSelling", distribution="normal"), ValueError, "distribution must be one of uniform, geometric, two-humped or 25 probabilities that sum to 1, got 'normal'"),
    ("too few probabilities", lambda: bqrl.envs.make("AssetSelling", distribution=[0.5, 0.5]), ValueError, "distribution must be one of uniform, geometric, two-humped or 25 probabilities that sum to 1, got shape (2,)"),
    ("probabilities that do not sum to 1", lambda: bqrl.envs.make("AssetSelling", distribution=[0.1] * 25), ValueError, "25 probabilities that sum to 1, got the sum 2.5"),
    ("a distribution of words", lambda: bqrl.envs.make("AssetSelling", distribution=["a"]), TypeError, "distribution must be one of uniform"),
    ("a ratio below 0", lambda: bqrl.envs.make("AssetSelling", distribution="geometric", ratio=-1), ValueError, "ratio must be a number above 0, got -1"),
    ("one probability for all arms", lambda: bqrl.envs.make("Bandit", probabilities=0.5), TypeError, "probabilities must be a list with one probability per arm, got 0.5"),
    ("arms without probabilities", lambda: bqrl.envs.make("Bandit", probabilities=None), TypeError, "probabilities must be a number or an array of numbers, got None"),
    ("a machine with one profit", lambda: bqrl.envs.make("MachineReplacement", output=3.0), ValueError, "output must be a list of at least two numbers, got 3.0"),
    ("a machine with one probability", lambda: bqrl.envs.make("MachineReplacement", wear=1.0), ValueError, "wear must be a list of probabilities, got 1.0"),
    ("an action that is not available", stepping(ONLY_FIRST, 1), ValueError, "action must be available in state 0 at stage 1, got 1; see info['action_mask']"),
    ("an action beyond the actions", stepping(GOOD, 2), ValueError, "action must be from 0 to 1, got 2"),
    ("half an action", stepping(GOOD, 0.5), TypeError, "action must be a whole number, got float"),
    ("a step too many", stepping(GOOD, 0, 0, 0, 0), ValueError, "expected a running episode, got an action before reset or after the end; call reset first"),
    ("a step before the first", stepping(GOOD, 0, reset=False), ValueError, "expected a running episode, got an action before reset or after the end; call reset first"),
    ("an unknown way to render", lambda: GOOD.as_env(render_mode="human"), ValueError, "render_mode must be 'ansi' or None, got 'human'"),
    ("an environment without a table", lambda: bqrl.from_gymnasium(gym.make("Blackjack-v1")), ValueError, "env must have a transition table P, as FrozenLake, CliffWalking and Taxi do, got BlackjackEnv"),
    ("an environment that is none", lambda: bqrl.from_gymnasium(7), ValueError, "env must have a transition table P, as FrozenLake, CliffWalking and Taxi do, got int"),
    ("an environment of ours", lambda: bqrl.from_gymnasium(GOOD.as_env()), ValueError, "read it from env.unwrapped.mdp"),
    ("an environment that hides its chance", lambda: bqrl.from_gymnasium(gym.make("Taxi-v4", fickle_passenger=True)), ValueError, "env must follow its table P, got TaxiEnv with fickle_passenger"),
    ("an unknown environment", lambda: bqrl.from_gymnasium("FrozenLake-v99"), ValueError, "FrozenLake"),
    ("an environment and horizon 0", lambda: bqrl.from_gymnasium("FrozenLake-v1", horizon=0), ValueError, "horizon must be a whole number of at least 1, got 0"),
]  # fmt: skip


CURVE = bqrl.guarantee_curve(GOOD, keep=True)
POLICY = CURVE.policy(0.3)
PLANS = [
    ("huge points", lambda: bqrl.solve(GOOD, 0.3, points=HUGE), ValueError, "points must be at most 1e+300, got 1000"),
    ("points beyond floats", lambda: bqrl.solve(GOOD, 0.3, points=10**30), ValueError, "points must be at most 4503599627370496, got 1000"),
    ("huge points of a curve", lambda: bqrl.guarantee_curve(GOOD, points=HUGE), ValueError, "points must be at most 1e+300, got 1000"),
    ("huge max_nodes", lambda: bqrl.solve(GOOD, 0.3, beta=0.1, randomized=False, max_nodes=HUGE), ValueError, "max_nodes must be at most 1e+300, got 1000"),
    ("huge decimals", lambda: bqrl.solve(GOOD, 0.3, planner="capped-frontier", decimals=HUGE), ValueError, "decimals must be at most 100, got 1000"),
    ("huge points of a bracket", lambda: bqrl.evaluate(GOOD, [0, 0], points=HUGE), ValueError, "points must be at most 1e+300, got 1000"),
    ("huge episodes", lambda: bqrl.simulate(GOOD, [0, 0], HUGE), ValueError, "episodes must be at most 1e+300, got 1000"),
    ("huge episodes to learn", lambda: bqrl.learn(GOOD, "psrl", 0.3, HUGE, 0), ValueError, "episodes must be at most 1000000000, got 1000"),
    ("episodes beyond memory", lambda: bqrl.learn(GOOD, "psrl", 0.3, 10**12, 0), ValueError, "episodes must be at most 1000000000, got 1000000000000"),
    ("a huge batch", lambda: bqrl.learn(GOOD, "ppo", 0.3, 3, 0, batch=HUGE), ValueError, "batch must be at most 1000000, got 1000"),
    ("huge epochs", lambda: bqrl.learn(GOOD, "ppo", 0.3, 3, 0, epochs=10**13), ValueError, "epochs must be at most 1000000, got 1000"),
    *((f"{name} at no level", lambda f=f: f("low"), TypeError, "tau must be a number in (0, 1], got 'low'") for name, f in (("a value", CURVE), ("an upper bound", CURVE.upper), ("a ceiling", CURVE.ceiling), ("a certainty", CURVE.certain), ("a policy", CURVE.policy), ("a margin", CURVE.margin), ("a level policy", CURVE.level_policy))),
    *((f"{name} at level -1", lambda f=f: f(-1), ValueError, "tau must be a number in (0, 1], got -1") for name, f in (("a value", CURVE), ("an upper bound", CURVE.upper), ("a ceiling", CURVE.ceiling), ("a certainty", CURVE.certain), ("a policy", CURVE.policy), ("a margin", CURVE.margin), ("a level policy", CURVE.level_policy))),
    ("an upper bound at several levels", lambda: CURVE.upper([0.1, 0.2]), TypeError, "tau must be a number in (0, 1], got [0.1, 0.2]"),
    ("a curve at a word among levels", lambda: CURVE([0.1, "low"]), TypeError, "tau must be a number or an array of numbers, got [0.1, 'low']"),
    ("a curve at ragged levels", lambda: CURVE([[0.1], [0.1, 0.2]]), TypeError, "tau must be a number or an array of numbers"),
    ("a policy for no target", lambda: CURVE.policy_for(float("nan")), ValueError, "target must be a number, got nan"),
    ("a policy for the target '1'", lambda: CURVE.policy_for("1"), TypeError, "target must be a number, got '1'"),
    ("a table without a problem", lambda: POLICY.table(None), TypeError, "mdp must be an MDP, got NoneType; pass the problem of the policy"),
    ("a table of some rows", lambda: POLICY.table(GOOD, reachable=[True, False]), TypeError, "reachable must be True or False"),
    ("a table of some width", lambda: POLICY.table(GOOD, wide=3), TypeError, "wide must be True or False, got 3"),
    ("labels without a problem", lambda: POLICY.to_labels("GOOD"), TypeError, "mdp must be an MDP, got str"),
    ("a Markov form without a problem", lambda: POLICY.to_markov(3), TypeError, "mdp must be an MDP, got int"),
    ("a mixture of arrays", lambda: bqrl.MixturePolicy([np.zeros((3, 2), int)], [1.0]), TypeError, "policies must be a list of policies"),
    ("a mixture of one policy", lambda: bqrl.MixturePolicy(POLICY, [1.0]), TypeError, "policies must be a list of policies"),
    ("a mixture with words as weights", lambda: bqrl.MixturePolicy([POLICY], ["one"]), TypeError, "weights must hold one number per policy, got ['one']"),
    ("noise that is a law", lambda: GOOD.with_noise({0: 1.0}), TypeError, "noise must be the SharedNoise of a model or None, got dict"),
    ("cells that are lists", lambda: MDP({"state": [["a"], "b"], "action": [0, 0], "next_state": ["b", "b"], "probability": [1, 1], "reward": [0, 0]}, horizon=2), ValueError, "the column 'state' must be a flat list, got ['a']"),
    ("a list of state names for a step function", lambda: bqrl.from_step(lambda s, a, e: (s, e), [0], {0: 1.0}, horizon=2, start=0, state_name=["a"]), TypeError, "state_name must be a function that returns a name, got ['a']"),
    ("a step function that is 'yes' vectorized", lambda: bqrl.from_step(lambda s, a, e: (s, e), [0], {0: 1.0}, horizon=2, start=0, vectorized="yes"), TypeError, "vectorized must be True or False, got 'yes'"),
]  # fmt: skip

TABLE = [*MODELS, *FILES, *ENVIRONMENTS, *PLANS]


@pytest.mark.parametrize(("call", "exception", "message"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_a_bad_input_gets_one_clear_line(tmp_path, call, exception, message):
    with pytest.raises((ValueError, TypeError, OSError)) as caught:
        call(tmp_path) if call.__code__.co_varnames[:1] == ("folder",) else call()
    assert isinstance(caught.value, exception)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_the_table_is_long():
    assert len(TABLE) >= 60
    assert len({row[0] for row in TABLE}) >= len(TABLE) - 2  # names tell rows apart
