"""Fuzzing of every loader with mutated real files: an object, or one line of ours; nothing else, and bounded memory.

300 inputs per loader; BQRL_FUZZ=10000 (`make test-all`) tries more.
"""

import gzip
import io
import json
import os
import resource
import warnings

import numpy as np
import pytest

import bqrl
from bqrl.errors import ArgumentError, ArgumentTypeError, FileFormatError, ModelWarning, SizeError
from bqrl.mdp.files import read_arrays
from bqrl.planners.curve import guarantee_curve

INPUTS = int(os.environ.get("BQRL_FUZZ", "300"))
MAX_BYTES = 2**24  # of an unpacked file
MAX_GROWTH = 1500 * 2**20  # of the process
REFUSALS = (FileFormatError, ArgumentError, ArgumentTypeError, SizeError, OSError)

MODEL = bqrl.envs.make("AssetSelling", offers=4, start=1, horizon=3)
SHARED = bqrl.from_step(
    lambda s, a, e: (min(s + a * e, 2), float(e)), [0, 1], [{0: 0.5, 1: 0.5}, {0: 1.0, 2: 0.0}], 2, 0
)
TABLE = """\
# horizon: 3
# discount: 0.5
# start: Well=0.5, Sick=0.5
# states: Well, Sick, "odd; one"
stage,state,action,next_state,probability,reward
0,Well,wait,Well,0.75,-1.0
0,Well,wait,Sick,0.25,1e3
0,Sick,cure,Well,1,0
1,Well,wait,Well,1,7
1,Sick,cure,Well,1,0
2,Well,wait,Well,1,7
2,Sick,cure,Well,1,0
"""
NUMBERS = "idstatefrom;idaction;idstateto;probability;reward\n1;1;1;0,9;-1\n1;1;2;0,1;-1\n1;2;2;1;0\n2;1;1;1;7\n"
WORDS = [
    "", " ", "0", "1", "2", "-1", "0.5", "1.5", "100", "nan", "inf", "-inf", "1e400", "1e308", "-1e308", "1e12", "2147483647",
    "1000000", "9" * 5000, "99999999999999999999", "x", "1_0", "0x1", "0,5", '"1"', '"', "\x00", "é", "1;1", "state", "#",
    "# horizon: 2", "null", "[", "]", "{", "}", "true", "NaN", ",", ":", "\n", "\r", "\t", "horizon", "Well",
]  # fmt: skip


def policies():
    curve = guarantee_curve(MODEL, keep=True)
    target, markov = curve.policy(0.3), bqrl.solve(MODEL, 0.3, planner="expected").policy
    yield "markov", markov
    yield "target", target
    yield "rounded", bqrl.solve(MODEL.replace(discount=0.9), 0.3, points=20).policy
    yield "label", target.to_labels(MODEL)
    yield "level", curve.level_policy(0.3)
    yield "mixture", bqrl.MixturePolicy([markov, target], [0.25, 0.75])


@pytest.fixture(scope="module")
def seeds(tmp_path_factory):
    """Real files by name."""
    folder = tmp_path_factory.mktemp("seeds")
    (folder / "table.csv").write_text(TABLE.replace(', "odd; one"', ""))
    (folder / "numbers.csv").write_text(NUMBERS)
    MODEL.save(folder / "model.npz")
    MODEL.save(folder / "model.json")
    for ending in ("csv", "json", "npz"):
        SHARED.save(folder / f"shared.{ending}")
    (folder / "table.csv.gz").write_bytes(gzip.compress(TABLE.encode()))
    for name, policy in policies():
        policy.save(folder / f"{name}.npz")
    checkpoint = folder / "checkpoint.npz"
    bqrl.learn(MODEL, "ucbvi", tau=0.3, episodes=20, seed=7, checkpoint=checkpoint).save(folder / "record.npz")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# -- mutations -----------------------------------------------------------------------------------------------------------


def mutated_bytes(content, rng):
    content = bytearray(content)
    for _ in range(rng.integers(1, 5)):
        at = int(rng.integers(0, max(1, len(content))))
        kind = rng.integers(0, 5)
        if kind == 0 and content:
            content[at] = rng.integers(0, 256)
        elif kind == 1:
            content[at:at] = rng.bytes(int(rng.integers(1, 5)))
        elif kind == 2:
            del content[at : at + int(rng.integers(1, 20))]
        elif kind == 3:
            del content[at:]
        else:
            content[at:at] = content[at : at + int(rng.integers(1, 40))]
    return bytes(content)


def mutated_words(content, rng):
    """Tokens between separators replaced, removed or repeated."""
    text, signs = content.decode(), set(",;\t\n :[]{}")
    for _ in range(rng.integers(1, 4)):
        edges = [0, *(i for i, sign in enumerate(text) if sign in signs), len(text)]
        i = int(rng.integers(0, len(edges) - 1))
        begin, end = edges[i] + (text[edges[i] : edges[i] + 1] in signs), edges[i + 1]
        new = [str(rng.choice(WORDS)), "", text[begin:end] * 2, text[edges[max(0, i - 3)] : end]][rng.integers(0, 4)]
        text = text[:begin] + new + text[end:]
    return text.encode()


def mutated_arrays(content, rng):
    """Entries, types, shapes and names of arrays changed."""
    with np.load(io.BytesIO(content)) as archive:
        arrays = {name: archive[name] for name in archive.files}
    for _ in range(rng.integers(1, 4)):
        name = str(rng.choice(sorted(arrays)))
        array = arrays[name]
        kind = rng.integers(0, 6)
        if kind == 0 and len(arrays) > 1:
            del arrays[name]
        elif kind <= 2 and array.dtype.kind in "fiub" and array.size:
            array = array.copy()
            wild = [0, 1, -1, 2, 3, 100, 2**30] + ([np.nan, np.inf, 1e308, 0.5] if array.dtype.kind == "f" else [])
            with np.errstate(all="ignore"):
                array.reshape(-1)[rng.integers(0, array.size)] = np.array(wild[rng.integers(0, len(wild))]).astype(
                    array.dtype
                )
            arrays[name] = array
        elif kind == 3:
            other = [np.str_, np.complex128, np.float32, np.int8, np.uint64, np.bool_][rng.integers(0, 6)]
            with np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                arrays[name] = array.astype(other) if array.dtype.kind != "U" else np.arange(array.size)
        elif kind == 4:
            flat = array.reshape(-1)
            shapes = [flat[:2], flat, array[None], flat[:0], *([flat[0]] if flat.size else [])]
            arrays[name] = np.asarray(shapes[rng.integers(0, len(shapes))])
        else:
            arrays[str(rng.choice(["x", "transitions", "reward", "part2_x", "bqrl_policy"]))] = arrays.pop(name)
    file = io.BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


# -- one loader at a time ------------------------------------------------------------------------------------------------


def outcome(call, *expected):
    """What a call returns, and the error that it raises; any error that is not expected goes through."""
    try:
        return call(), None
    except expected as error:
        return None, error


def used(thing):
    """Use what was loaded as a caller would."""
    if isinstance(thing, bqrl.MDP):
        rows = thing.available[0].reshape(-1)
        assert thing.S > 100 or abs(thing.dense(0).sum(axis=1)[rows] - 1).max() < 1e-9
        assert thing.noise is None or thing.noise.outcome_event.size == thing.successor.size
    elif isinstance(thing, bqrl.Record):
        assert repr(thing.settings)
    elif thing.S == MODEL.S and thing.H == MODEL.H:
        memory = thing.start(0.5)
        for h in range(thing.H):
            action = thing.act(h, 1, memory)
            assert action >= 0
            memory = thing.next(memory, h, 1, action, 0.25, 1)


CASES = [
    ("table.csv", mutated_bytes), ("table.csv", mutated_words), ("numbers.csv", mutated_words), ("numbers.csv", mutated_bytes),
    ("table.csv.gz", mutated_bytes), ("model.json", mutated_bytes), ("model.json", mutated_words),
    ("model.npz", mutated_bytes), ("model.npz", mutated_arrays), ("record.npz", mutated_arrays),
    ("checkpoint.npz", mutated_bytes), ("checkpoint.npz", mutated_arrays),
    *((f"{name}.npz", mutated_arrays) for name in ("markov", "target", "rounded", "label", "level", "mixture")),
    ("target.npz", mutated_bytes), ("shared.csv", mutated_words), ("shared.json", mutated_words), ("shared.npz", mutated_arrays),
]  # fmt: skip


@pytest.mark.parametrize(("name", "mutate"), CASES, ids=[f"{name}-{mutate.__name__}" for name, mutate in CASES])
@pytest.mark.filterwarnings("error", "ignore::bqrl.errors.ModelWarning")
def test_a_mutated_file_gives_an_object_or_one_line(tmp_path, seeds, name, mutate):
    path = tmp_path / name
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    good = 0
    for i in range(INPUTS):
        content = mutate(seeds[name], np.random.default_rng([i, *name.encode()]))
        path.write_bytes(content)
        thing, refused = outcome(lambda: bqrl.load(path, max_bytes=MAX_BYTES), *REFUSALS)
        if refused is not None:
            assert name in str(refused), f"input {i}"
            assert len(str(refused)) < 500, f"input {i}"
        else:
            good += 1
            _, refused = outcome(lambda: used(thing), ValueError)  # noqa: B023  (called at once)
        assert len(str(refused).splitlines()) == 1, f"input {i}"
    assert good < INPUTS
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert growth < MAX_GROWTH


@pytest.mark.parametrize("learner", ["ucbvi", "ucb-bqrl"])
def test_a_mutated_checkpoint_continues_or_gives_one_line(tmp_path, learner):
    def run():
        return bqrl.learn(MODEL, learner, tau=0.3, episodes=6, seed=7, checkpoint=path)

    path = tmp_path / "run.npz"
    first = run()
    content = path.read_bytes()
    for i in range(INPUTS):
        path.write_bytes(mutated_arrays(content, np.random.default_rng([i, 5])))
        record, refused = outcome(run, FileFormatError)
        assert len(str(refused).splitlines()) == 1, f"input {i}"
        assert refused is not None or record.returns.shape == first.returns.shape, f"input {i}"


LOG = "episode,stage,state,action,reward,next_state\n" + "".join(
    f"{e},{h},{s},{a},{r},{s_next}\n"
    for e in range(6)
    for h, s, a, r, s_next in ((0, "low", "wait", 0.0, "high"), (1, "high", "sell", e / 2, "low"))
)


@pytest.mark.parametrize("mutate", [mutated_bytes, mutated_words])
@pytest.mark.filterwarnings("error", "ignore::bqrl.errors.ModelWarning")
def test_a_mutated_log_gives_an_estimate_or_one_line(tmp_path, mutate):
    path, good = tmp_path / "log.csv", 0
    for i in range(INPUTS):
        path.write_bytes(mutate(LOG.encode(), np.random.default_rng([i, 11])))
        estimate, refused = outcome(lambda: bqrl.fit(path, reward_range=(-10.0, 10.0)), ValueError, TypeError, OSError)
        good += refused is None
        if refused is not None:
            assert len(str(refused).splitlines()) == 1, f"input {i}"
            assert len(str(refused)) < 500, f"input {i}"
        else:
            assert 0 < estimate.mdp.H < 100, f"input {i}"
    assert 0 < good < INPUTS


@pytest.mark.parametrize("mutate", [mutated_bytes, mutated_arrays])
def test_a_mutated_estimate_loads_or_gives_one_line(tmp_path, mutate):
    (tmp_path / "log.csv").write_text(LOG)
    path = tmp_path / "estimate.npz"
    bqrl.save(bqrl.fit(tmp_path / "log.csv", reward_range=(-10.0, 10.0)), path)
    content = path.read_bytes()
    for i in range(INPUTS):
        path.write_bytes(mutate(content, np.random.default_rng([i, 13])))
        _, refused = outcome(lambda: bqrl.load(path, max_bytes=MAX_BYTES), *REFUSALS)
        assert len(str(refused).splitlines()) == 1, f"input {i}"


def test_the_seeds_themselves_are_good(tmp_path, seeds):
    for name, content in seeds.items():
        path = tmp_path / name
        path.write_bytes(content)
        if name == "checkpoint.npz":
            with pytest.raises(FileFormatError, match="got a checkpoint; continue it with learn"):
                bqrl.load(path)
            assert read_arrays(path)
        else:
            thing = bqrl.load(path)
            if name != "label.npz":  # its graph refuses states that cannot follow
                used(thing)


def test_words_reach_past_the_parser(seeds):
    """Some mutations must survive parsing, or the fuzzing would test the parser alone."""
    parsed = 0
    for i in range(100):
        try:
            json.loads(mutated_words(seeds["model.json"], np.random.default_rng(i)))
        except ValueError:
            continue
        parsed += 1
    assert parsed >= 5


def test_extra_columns_still_warn():
    with pytest.warns(ModelWarning, match="note"):
        bqrl.MDP({"s": [0], "a": [0], "to": [0], "p": [1.0], "r": [0.0], "note": [1]}, horizon=1)
