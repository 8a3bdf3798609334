import io
import json
import sys
import tarfile
from pathlib import Path

import numpy as np
import pytest
from storm_files import built, storm, storm_mean

import bqrl
from bqrl.errors import ArgumentError, FileFormatError, SizeError
from bqrl.mdp.files.umb import read_umb

EXAMPLES = Path(__file__).parents[3] / "examples"


def u64(*numbers):
    return np.array(numbers, "<u8").tobytes()


def doubles(*numbers):
    return np.array(numbers, "<f8").tobytes()


def parts(**changed):
    """A small file by the published format: 3 states; state 0 has two choices, state 1 one, state 2 none."""
    index = {
        "format-version": 1, "format-revision": 0,
        "transition-system": {
            "time": "discrete", "#players": 1, "#states": 3, "#initial-states": 1, "#choices": 3, "#choice-actions": 0,
            "#branches": 5, "#branch-actions": 0, "#observations": 0, "branch-probability-type": {"type": "double"},
        },
        "annotations": {"rewards": {"pay": {"applies-to": ["states", "branches"], "type": {"type": "double"}}}},
    }  # fmt: skip
    files = {
        "index.json": json.dumps(index).encode(),
        "state-to-choices.bin": u64(0, 2, 3, 3),
        "state-is-initial.bin": u64(1),
        "choice-to-branches.bin": u64(0, 2, 3, 5),
        "branch-to-target.bin": u64(1, 2, 0, 0, 2),
        "branch-to-probability.bin": doubles(0.5, 0.5, 1.0, 0.25, 0.75),
        "annotations/rewards/pay/states/values.bin": doubles(1.0, 0.0, 10.0),
        "annotations/rewards/pay/branches/values.bin": doubles(0.0, 2.0, 0.5, 0.0, 4.0),
    }
    return {name: content for name, content in (files | changed).items() if content is not None}


def packed(files, mode="w"):
    place = io.BytesIO()
    with tarfile.open(fileobj=place, mode=mode) as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return place.getvalue()


def read(files, mode="w", **options):
    return bqrl.MDP.from_table(**read_umb(packed(files, mode), 10**6, **{"horizon": 3} | options))


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_a_file_by_the_published_format(mode):
    mdp = read(parts(), mode)
    assert mdp.action_names == ("choice 1", "choice 2")
    assert [column.tolist() for column in mdp.outcomes(0, 0, 0)] == [[1, 2], [0.5, 0.5], [1.0, 3.0]]
    assert [column.tolist() for column in mdp.outcomes(0, 0, 1)] == [[0], [1.0], [1.5]]
    assert [column.tolist() for column in mdp.outcomes(0, 1, 0)] == [[0, 2], [0.25, 0.75], [0.0, 4.0]]
    assert [column.tolist() for column in mdp.outcomes(0, 2, 0)] == [
        [2],
        [1.0],
        [10.0],
    ]  # no choice: stays, and is paid
    assert mdp.start == 0


def test_rational_probabilities_and_defaults():
    index = json.loads(parts()["index.json"])
    index["transition-system"]["branch-probability-type"] = {"type": "rational"}
    thirds = u64(1, 2, 1, 2, 1, 1, 1, 3, 2, 3)
    mdp = read(parts(**{"index.json": json.dumps(index).encode(), "branch-to-probability.bin": thirds}))
    assert mdp.outcomes(0, 1, 0)[1].tolist() == [1 / 3, 2 / 3]


def test_several_initial_states_need_a_start():
    files = parts(**{"state-is-initial.bin": u64(3)})
    with pytest.raises(ArgumentError, match=r"^start must be given, got a file with 2 initial states; pass start=$"):
        read(files)
    assert read(files, start=1).start == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"index.json": None}, "expected index.json in the archive, got none"),
        ({"index.json": b"{}"}, "expected index.json with a transition-system"),
        ({"branch-to-target.bin": u64(1, 2, 0, 0, 3)}, "targets must be from 0 to 2, got 3"),
        ({"branch-to-target.bin": u64(1, 2)}, "branch-to-target.bin must have 40 bytes, got 16"),
        ({"state-to-choices.bin": u64(0, 2, 1, 3)}, "state-to-choices.bin must rise from 0 to 3"),
    ],
)
def test_damaged_files(changed, message):
    with pytest.raises(FileFormatError, match=message):
        read(parts(**changed))


def test_other_kinds_of_models_are_refused():
    index = json.loads(parts()["index.json"])
    index["transition-system"]["time"] = "stochastic"
    with pytest.raises(FileFormatError, match="expected a Markov chain or MDP in discrete time"):
        read(parts(**{"index.json": json.dumps(index).encode()}))
    with pytest.raises(FileFormatError, match="expected a tar archive"):
        read_umb(b"no archive", 10**6, horizon=2)
    with pytest.raises(SizeError, match="must unpack to at most 100 bytes"):
        read_umb(packed(parts()), 100, horizon=2)


@pytest.mark.parametrize("structure", ["gain", "cost"])
def test_models_that_storm_builds_and_writes(tmp_path, structure):
    stormpy, (program, model) = storm(), built(tmp_path)
    stormpy.io.export_to_umb(model, str(tmp_path / "job.umb"))
    mdp = bqrl.load(tmp_path / "job.umb", horizon=7, rewards=structure)
    assert mdp.S == model.nr_states
    assert mdp.state_names[mdp.start] == "worn=false, s=0"
    assert {"run", "rest"} <= set(mdp.action_names)
    assert bqrl.solve(mdp, bqrl.Mean()).value == pytest.approx(storm_mean(program, model, structure, 7), abs=1e-9)


def test_the_options_of_load(tmp_path):
    place = tmp_path / "model.umb"
    place.write_bytes(packed(parts()))
    assert bqrl.load(place, horizon=2).H == 2
    with pytest.raises(ArgumentError, match=r"^model.umb: horizon must be given, because a .umb file has none"):
        bqrl.load(place)
    with pytest.raises(
        ArgumentError, match="rewards must name a reward structure of the file, got 'pya'; did you mean 'pay'"
    ):
        bqrl.load(place, horizon=2, rewards="pya")
    with pytest.raises(ArgumentError, match=r"path must end in .csv, .csv.gz, .npz or .json, got 'model.umb'"):
        bqrl.save(bqrl.load(place, horizon=2), place)


def test_the_file_of_the_examples_is_what_storm_builds(tmp_path):
    stormpy = storm()
    options = stormpy.BuilderOptions()
    options.set_build_all_reward_models()
    options.set_build_choice_labels()
    options.set_build_state_valuations()
    program = stormpy.parse_prism_program(str(EXAMPLES / "machine.nm"))
    stormpy.io.export_to_umb(stormpy.build_model(program, options=options), str(tmp_path / "machine.umb"))
    for structure in ("profit", "repairs"):
        ours, fresh = (bqrl.load(place / "machine.umb", horizon=5, rewards=structure) for place in (EXAMPLES, tmp_path))
        assert ours.rows() == fresh.rows()


def test_a_model_that_storm_writes(tmp_path):
    stormpy, (program, model) = storm(), built(tmp_path)
    stormpy.io.export_to_drn(model, str(tmp_path / "job.drn"))
    mdp = bqrl.load(tmp_path / "job.drn", horizon=7, rewards="gain")
    assert {"run", "rest"} <= set(mdp.action_names)
    assert bqrl.solve(mdp, bqrl.Mean()).value == pytest.approx(storm_mean(program, model, "gain", 7), abs=1e-9)
    stormpy.io.export_to_umb(model, str(tmp_path / "job.umb"))
    same = bqrl.load(tmp_path / "job.umb", horizon=7, rewards="gain")
    assert bqrl.solve(mdp, tau=0.2).value == bqrl.solve(same, tau=0.2).value


def test_a_damaged_file(tmp_path):
    storm()
    (tmp_path / "job.drn").write_text("@type: nonsense\n")
    with pytest.raises(FileFormatError, match=r"^job.drn: Storm cannot read the file"):
        bqrl.load(tmp_path / "job.drn", horizon=3)


def test_the_remedy_without_stormpy(tmp_path, monkeypatch):
    (tmp_path / "job.drn").write_text("@type: MDP\n")
    monkeypatch.setitem(sys.modules, "stormpy", None)
    with pytest.raises(ImportError, match=r"a .drn file needs stormpy; install it with: pip install 'bqrl\[storm\]'"):
        bqrl.load(tmp_path / "job.drn", horizon=3)
