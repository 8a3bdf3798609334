import gzip

import numpy as np
import pytest

import bqrl
from bqrl.errors import FileFormatError, ModelWarning, SizeError
from bqrl.logs import read
from bqrl.logs.read import read_columns

HEADER = "episode,stage,state,action,reward,next_state\n"
ROWS = ["1,0,well,wait,1.5,sick", "1,1,sick,treat,-2,well", "2,0,well,treat,0,well", "2,1,well,wait,1.5,"]


@pytest.fixture
def text():
    return HEADER + "\n".join(ROWS) + "\n"


def frame_columns(text):
    lines = [line.split(",") for line in text.splitlines()]
    return {name: [line[i] for line in lines[1:]] for i, name in enumerate(lines[0])}


def forms(text, folder):
    import pandas
    import polars

    columns = frame_columns(text)
    columns["reward"] = [float(r) for r in columns["reward"]]
    columns["episode"], columns["stage"] = ([int(x) for x in columns[name]] for name in ("episode", "stage"))
    (folder / "log.csv").write_text(text)
    with gzip.open(folder / "log.csv.gz", "wt") as file:
        file.write(text)
    polars.DataFrame(columns).write_parquet(folder / "log.parquet")
    yield from (folder / "log.csv", str(folder / "log.csv.gz"), folder / "log.parquet")
    yield from (columns, pandas.DataFrame(columns), polars.DataFrame(columns))
    yield {name: np.array(column) for name, column in columns.items()}


def test_all_forms_of_a_log_agree(text, tmp_path):
    found = [read_columns(log) for log in forms(text, tmp_path)]
    for one in found:
        assert one.codes["state"].labels == ["well", "sick"]
        assert one.codes["next_state"].code.tolist() == [1, 0, 0, -1]
        assert one.numbers["reward"].tolist() == [1.5, -2.0, 0.0, 1.5]
        assert one.codes["action"].code.tolist() == [0, 1, 1, 0]


def test_numbers_are_labels_in_numerical_order():
    log = {"episode": [1, 2, 3], "state": [10, 9.0, "2"], "action": [0, 0, 0], "reward": [0, 0, 0]}
    found = read_columns(log | {"next_state": [2.0, float("nan"), None]})
    assert found.codes["state"].labels == ["2", "9", "10"]
    assert found.codes["next_state"].code.tolist() == [0, -1, -1]


def test_missing_values_of_pandas_are_missing_labels():
    """`pandas.NA` once raised TypeError: its truth value is not defined."""
    pandas = pytest.importorskip("pandas")
    log = pandas.DataFrame({"episode": [1, 2], "state": ["a", "b"], "action": [0, 0], "reward": [0.0, 1.0]})
    found = read_columns(log.assign(next_state=pandas.array(["b", None], dtype="string")))
    assert found.codes["next_state"].code.tolist() == [1, -1]


@pytest.mark.parametrize("form", ["a lazy frame", "a list of dicts", "a named index"])
def test_other_frames_are_logs_too(text, form):
    pandas, polars = pytest.importorskip("pandas"), pytest.importorskip("polars")
    columns = frame_columns(text)
    log = {
        "a lazy frame": polars.DataFrame(columns).lazy(),
        "a list of dicts": pandas.DataFrame(columns).to_dict("records"),
        "a named index": pandas.DataFrame(columns).set_index("episode"),
    }[form]
    assert read_columns(log).codes["state"].code.tolist() == [0, 1, 0, 0]


def test_headers_by_synonym_and_by_choice(tmp_path):
    path = tmp_path / "log.csv"
    path.write_text("Episode ID,condition,drug,Payoff\n1,a,x,1\n2,b,y,2\n")
    found = read_columns(path, {"state": "condition", "action": "drug"})
    assert found.headers == {"episode": "Episode ID", "state": "condition", "action": "drug", "reward": "Payoff"}


@pytest.mark.parametrize(
    ("content", "line", "column", "words"),
    [
        ("episode,stat,action,reward\n1,a,x,1\n", 1, "state", "map state to 'stat' with columns"),
        (HEADER + "1,0,a,x,1,a\n1,1,a,x,nan,a\n", 3, "reward", "finite number"),
        (HEADER + "1,0,a,x,1,a\n\n1,1,a,x,,a\n", 4, "reward", "expected a number, got ''"),
        (HEADER + '1,0,"a\nb",x,1,a\n1,1,a,x,much,a\n', 4, "reward", "'much'"),
        (
            HEADER + "1,0,a,x,1,a\n1,1,a,x,1\n",
            3,
            None,
            "expected 6 columns as in the header, got 5; is the file truncated?",
        ),
        (HEADER, 1, None, "no rows"),
        ('episode,state,"action,reward\n1,a,x,1\n', 1, None, "is a quote left open?"),
        ("episode;state;action;reward\n1;a;x;1,5\n1;b;x;1.5\n", 3, "reward", "got '1.5'"),
    ],
)
def test_faults_name_file_line_and_column(tmp_path, content, line, column, words):
    path = tmp_path / "bad.csv"
    path.write_text(content)
    with pytest.raises(FileFormatError, match=r"^bad\.csv: ") as caught:
        read_columns(path)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert (caught.value.file, caught.value.line, caught.value.column) == (str(path), line, column)


@pytest.mark.parametrize("sign", [";", "\t"])
def test_logs_are_separated_as_models_are(tmp_path, sign):
    path = tmp_path / "log.csv"
    path.write_text("episode,state,action,reward\n1,a,x,1.5\n2,b,x,-2\n".replace(",", sign).replace(".", ","))
    found = read_columns(path)
    assert found.codes["state"].labels == ["a", "b"]
    assert found.numbers["reward"].tolist() == [1.5, -2.0]


def test_two_columns_of_one_name_are_refused(tmp_path):
    """A frame with two such columns was once read wrongly."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame([[1, "a", "x", 1, "b"]], columns=["episode", "state", "action", "reward", "state"])
    frame.to_csv(tmp_path / "log.csv", index=False)
    for log in (frame, tmp_path / "log.csv"):
        with pytest.raises(FileFormatError, match="expected distinct headers, got 'state' twice; rename one of them"):
            read_columns(log)


def test_a_missing_log_is_said_in_one_line(tmp_path):
    for name in ("log.csv", "log.parquet"):
        with pytest.raises(FileNotFoundError, match=r"^there is no file .*log"):
            read_columns(tmp_path / name)


def test_plural_headers_of_datasets_for_reinforcement_learning():
    """d3rlpy and Minari name their columns so; they once had to be mapped one by one."""
    plural = {"episode": [1, 1, 2], "observations": list("aba"), "actions": list("xyx"), "rewards": [0, 1, 2]}
    for end in ("terminals", "terminations", "dones"):
        found = read_columns(plural | {end: [False, True, True], "next_observations": list("bbb")})
        assert found.headers | {"next_state": "next_observations", "end": end} == found.headers
    assert found.codes["state"].labels == ["a", "b"]


@pytest.mark.parametrize(
    ("log", "words"),
    [
        (
            {"episode": [1], "state_0": ["a"], "state_1": ["b"], "action_0": ["x"], "reward_0": [1.0]},
            "expected one column state, got 'state_0' and 'state_1'; reshape the table to one row per step",
        ),
        (["one.csv", "two.csv"], "got list; concatenate the parts, with different episodes in each"),
    ],
)
def test_wide_tables_and_several_files_name_the_remedy(log, words):
    """They once said "map state to 'state_1'" and "name the columns"."""
    with pytest.raises((ValueError, TypeError), match=words):
        read_columns(log)


def test_labels_may_be_lists_and_rewards_may_not():
    log = {"episode": [1, 2], "state": np.array([[0, 1], [0, 2]]), "action": [["x"], ["x"]], "reward": [0.0, 1.0]}
    assert read_columns(log).codes["state"].labels == ["[0, 1]", "[0, 2]"]
    with pytest.raises(FileFormatError, match="the column 'reward' must be a flat list, got"):
        read_columns(log | {"reward": [[0.0, 1.0], [1.0, 2.0]]})


def test_a_fault_behind_the_first_block_has_its_own_line(tmp_path, monkeypatch):
    monkeypatch.setattr("bqrl.mdp.files.sources.BLOCK", 2)
    path = tmp_path / "bad.csv"
    path.write_text(HEADER + "1,0,a,x,1,a\n" * 5 + "1,1,a,x,?,a\n")
    with pytest.raises(FileFormatError) as caught:
        read_columns(path)
    assert caught.value.line == 7


@pytest.mark.parametrize(
    ("log", "columns", "words"),
    [
        ("log.txt", None, r"must be a \.csv"),
        (3, None, "must be a file, a frame or a dict"),
        ({"episode": [1], "state": [1], "action": [1], "reward": [1]}, {"stat": "state"}, "did you mean 'state'"),
        ({"episode": [1], "state": [1], "action": [1], "reward": [1]}, {"state": "stats"}, "did you mean 'state'"),
        ({"episode": [1], "state": [1, 2], "action": [1], "reward": [1]}, None, "one length"),
    ],
)
def test_bad_arguments_are_one_line(log, columns, words):
    with pytest.raises((ValueError, TypeError), match=words) as caught:
        read_columns(log, columns)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", ["cut", "not text"])
def test_damaged_files_are_one_line(tmp_path, damage):
    path = tmp_path / "log.csv.gz"
    with gzip.open(path, "wb") as file:
        file.write(HEADER.encode() + b"1,0,a,x,1,a\n" * 50_000 + (b"\x81\xff\n" if damage == "not text" else b""))
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(
        FileFormatError, match=r"^log\.csv\.gz: near line \d+: expected CSV text in UTF-8, got"
    ) as caught:
        read_columns(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", ["", "\n", "   "])
def test_an_empty_log_is_one_line_that_shows_a_header(tmp_path, content):
    (tmp_path / "log.csv").write_text(content)
    with pytest.raises(FileFormatError, match="such as episode,state,action,reward, got an empty file") as caught:
        bqrl.fit(tmp_path / "log.csv")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("first", ["sep=;\r\n", "\ufeffSEP=;\n", "\n;;;;\n", "sep=;\n\n"])
def test_lines_above_the_header_are_skipped_as_in_models(tmp_path, first):
    """A spreadsheet's first line `sep=;` was once taken for the header."""
    (tmp_path / "log.csv").write_text(f"{first}episode;state;action;reward\n1;a;x;0,5\n2;a;x;1,5\n;;;\n;;;\n")
    found = read_columns(tmp_path / "log.csv")
    assert found.numbers["reward"].tolist() == [0.5, 1.5]
    above = first.count("\n")
    assert (found.source.line, found.lines[1]) == (above + 1, above + 3)
    (tmp_path / "bad.csv").write_text(f"{first}episode;state;action;reward\n1;a;x;0,5\n;;;\n2;a;x;much\n")
    with pytest.raises(FileFormatError, match="got 'much'") as fault:
        read_columns(tmp_path / "bad.csv")
    assert fault.value.line == above + 4


@pytest.mark.parametrize("word", ["NA", "NaN", "None", "null", "#N/A"])
def test_words_for_missing_values_are_no_next_states(tmp_path, word):
    """R writes NA where the next state is missing; it was once a state of that name."""
    rows = f"1,a,x,0,b\n1,b,x,0,{word}\n2,a,x,1,{word}\n"
    (tmp_path / "log.csv").write_text(f"episode,state,action,reward,next_state\n{rows}")
    found = read_columns(tmp_path / "log.csv")
    assert found.codes["state"].labels == found.codes["next_state"].labels == ["a", "b"]
    assert found.codes["next_state"].code.tolist() == [1, -1, -1]
    (tmp_path / "log.csv").write_text(f"episode,state,action,reward,next_state\n{rows}3,{word},x,1,a\n")
    found = read_columns(tmp_path / "log.csv")  # a state of that name
    assert found.codes["next_state"].code.tolist() == [1, 2, 2, 0]
    assert found.codes["state"].labels == ["a", "b", word]
    rows = f"1,10,x,0,9\n1,9,x,0,{word}\n"
    (tmp_path / "log.csv").write_text(f"episode,state,action,reward,next_state\n{rows}")
    assert read_columns(tmp_path / "log.csv").codes["state"].labels == ["9", "10"]  # in numerical order all the same


@pytest.mark.parametrize("header", ["truncated", "Timeouts", "truncation"])
def test_a_column_of_cut_episodes_needs_a_column_of_ends(header):
    """It was once ignored, and episodes that were cut off counted as complete."""
    log = {"episode": [1, 1, 2], "state": ["a"] * 3, "action": [0] * 3, "reward": [0.0] * 3, header: [0, 1, 1]}
    with pytest.raises(FileFormatError, match=f"a column end or terminated beside {header}, got none; add one"):
        read_columns(log)
    assert set(read_columns(log | {"terminated": [0, 0, 0]}).codes) == {"episode", "state", "action", "end"}


def test_done_is_not_taken_for_the_end_of_an_episode_that_was_cut_off():
    """Many logs have done = terminated or truncated; such episodes once counted as complete, and promises were too high."""
    log = {"episode": [1, 1, 2], "state": list("aba"), "action": [0, 0, 0], "reward": [0, 0, 0], "done": [0, 1, 1]}
    with pytest.raises(
        FileFormatError, match="a column end or terminated beside truncated, got done; map end to 'done'"
    ):
        read_columns(log | {"truncated": [0, 1, 0]})
    assert read_columns(log | {"truncated": [0, 1, 0]}, {"end": "done"}).headers["end"] == "done"
    assert read_columns(log | {"truncated": [0, 1, 0], "terminated": [0, 0, 1]}).headers["end"] == "terminated"
    assert read_columns(log).headers["end"] == "done"


def test_time_steps_are_stages():
    log = {"episode": [1, 1], "time_step": [1, 0], "state": ["b", "a"], "action": [0, 0], "reward": [1.0, 0.0]}
    assert read_columns(log).codes["stage"].labels == ["0", "1"]


def test_whole_numbers_may_have_a_decimal_point(tmp_path):
    """Pandas writes a column of whole numbers with missing values as 3.0; it once disagreed with the state 3."""
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {
            "episode": [1, 1, 2],
            "stage": [0.0, 1.0, 0.0],
            "state": [3, 10, 3],
            "action": [0, 1, 0],
            "reward": [0.5, 1, 2],
        }
    ).assign(next_state=[10.0, None, None])
    frame.to_csv(tmp_path / "LOG.CSV")
    for log in (tmp_path / "LOG.CSV", frame):
        found = read_columns(log)
        assert found.codes["state"].labels == ["3", "10"]
        assert found.codes["next_state"].code.tolist() == [1, -1, -1]
        assert found.codes["stage"].labels == ["0", "1"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "episode;state;action;reward\n1;a;x;0,5\n2;a;x;0.5\n",
            "line 3, column 'reward': expected the decimal sign ','",
        ),
        (
            "episode\tstate\taction\treward\n1\ta\tx\t7\n2\ta\tx\t1,500\n",
            "line 3, column 'reward': expected a number without",
        ),
        (
            "episode;state;action;reward\n1;a;x;1,500\n2;a;x;yes\n3;a;x;0,5\n",
            "line 3, column 'reward': expected a number, got 'yes'",
        ),
        ("episode,state,action,rewrd\n1,a,x,1\n", "map reward to 'rewrd' with columns"),
        ('episode,state,action,reward\n1,a,x,1\n2,"a\nb",x,1\n', "line 3, column 'state': expected a printable name"),
        ("episode,state,action,reward\n1,a,x\x07,1\n", "line 2, column 'action': expected a printable name"),
    ],
)
def test_faults_of_tables_name_the_remedy(tmp_path, text, words):
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(FileFormatError) as fault:
        read_columns(tmp_path / "log.csv")
    assert words in str(fault.value)
    assert "\n" not in str(fault.value)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        (
            "log.parquet",
            b"PAR1 but not really",
            "log.parquet: expected a .parquet file, got other content",
        ),
        ("log.csv", "episode,state,action,reward\n1,\u0081,x,1\n".encode("latin-1"), "save the file as CSV UTF-8"),
    ],
)
def test_other_bytes_are_one_line(tmp_path, name, content, words):
    """The error of the .parquet reader was once shown as it is."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FileFormatError, match=words):
        read_columns(tmp_path / name)


def test_a_decimal_point_stays_in_labels_that_are_not_all_whole_numbers():
    """Versions such as 1.0 and 1.1 are names; once 1.0 became 1, and the state 1.0 of `start` was another one."""
    log = {"episode": [0, 0, 1, 1], "state": ["1.0", "1.1"] * 2, "action": ["2.0", "go"] * 2, "reward": [1.0] * 4}
    found = read_columns(log)
    assert (found.codes["state"].labels, found.codes["action"].labels) == (["1.0", "1.1"], ["2.0", "go"])
    whole = log | {"state": ["1.0", "2.0"] * 2, "next_state": ["2", "NA"] * 2}
    assert read_columns(whole).codes["state"].labels == ["1", "2"]
    for start in ("1.0", {"1.0": 1.0}, {1.0: 1.0}, 1):
        for rows in (log, whole):
            estimate = bqrl.fit(rows, start=start, reward_range=(0, 1))
            assert (estimate.mdp.S, estimate.mdp.mu[0]) == (4, 1.0)
    for rows, names in ((whole, ("1.0", "2.0")), (log, ("1", "1.1"))):
        model = bqrl.MDP([[[[0, 1]], [[0, 1]]]] * 2, [[[1], [1]]] * 2, state_names=names, action_names=("go",))
        assert bqrl.fit(rows | {"action": ["go"] * 4}, model=model).solve(0.5).value == 2.0


def test_costs_are_not_maximised_silently():
    log = {"episode": [1, 2], "state": ["a", "a"], "action": [0, 0], "Total cost": [3.0, 5.0]}
    with pytest.warns(
        ModelWarning, match="the column 'Total cost' is read as rewards, which are maximised; negate costs"
    ):
        read_columns(log, {"reward": "Total cost"})
    found = read_columns(log | {"Total cost": [-3.0, -5.0]}, {"reward": "Total cost"})  # warnings are errors
    assert found.numbers["reward"].tolist() == [-3.0, -5.0]


@pytest.mark.parametrize(("header", "cut"), [("is_terminal", "is_truncated"), ("terminals", "TimeLimit.truncated")])
def test_marks_of_the_end_under_other_names(header, cut):
    """An end that was not recognised made every short episode a complete one."""
    log = {"episode_ids": [1, 1, 2], "observations": list("aba"), "actions": [0, 0, 0], "rewards": [0, 0, 0]}
    log |= {"episode_step": [0, 1, 0]}
    assert "stage" in read_columns(log).codes
    assert read_columns(log | {header: [False, True, False], cut: [False, False, True]}).headers["end"] == header


def test_episodes_of_several_runs_are_not_joined():
    """The first episodes of both runs were once read as one episode of twice the length."""
    log = {"run": [0, 0, 1, 1], "episode": [0, 1, 0, 1], "state": list("abab"), "action": [0] * 4, "reward": [0.0] * 4}
    with pytest.raises(
        FileFormatError,
        match="one column for the episode, got 'run' and 'episode'; choose one with columns, or combine",
    ):
        read_columns(log)
    assert read_columns(log, {"episode": "run"}).headers["episode"] == "run"


@pytest.mark.parametrize("name", ["log.csv", "log.csv.gz"])
def test_a_log_that_is_too_large_is_refused_before_it_is_read(tmp_path, monkeypatch, name):
    """A small .csv.gz of 2.5 GB once filled the memory."""
    path, opener = tmp_path / name, gzip.open if name.endswith("gz") else open
    with opener(path, "wb") as file:
        file.write(b"no log at all" + b" " * 100_000)
    monkeypatch.setenv("BQRL_MAX_FILE_BYTES", "100000")
    words = f"{name}: a log must have at most 100000 bytes, unpacked, got more; drop columns that are not needed, fit its first"
    with pytest.raises(SizeError, match=words) as caught:
        read_columns(path)
    assert (caught.value.limit, caught.value.name) == (100_000, "BQRL_MAX_FILE_BYTES")
    monkeypatch.setenv("BQRL_MAX_FILE_BYTES", "100013")
    with pytest.raises(
        FileFormatError, match="expected a header such as episode,state,action,reward, got 'no log at all'"
    ):
        read_columns(path)


@pytest.mark.parametrize("form", ["csv", "csv.gz", "parquet", "frame", "dict"])
def test_a_log_with_too_many_rows_is_refused(tmp_path, monkeypatch, form):
    polars = pytest.importorskip("polars")
    columns = {"episode": [*range(1000)], "state": ["a"] * 1000, "action": ["x"] * 1000, "reward": [1.0] * 1000}
    log, path = polars.DataFrame(columns), tmp_path / f"log.{form}"
    if form == "parquet":
        log.write_parquet(path)
        monkeypatch.setattr(polars, "read_parquet", None)  # the rows are counted before they are read
    elif form.startswith("csv"):
        with (gzip.open if form.endswith("gz") else open)(path, "wt") as file:
            file.write(log.write_csv())
    given = {"frame": log, "dict": columns}.get(form, path)
    monkeypatch.setattr(read, "MAX_ROWS", 999)
    monkeypatch.setenv("BQRL_MAX_FILE_BYTES", str(64 * 999 + 63))
    with pytest.raises(SizeError, match="a log must have at most 999 rows, got more; fit its first episodes only, or"):
        read_columns(given)
    monkeypatch.setenv("BQRL_MAX_FILE_BYTES", str(64 * 1000))
    if form != "parquet":
        assert len(read_columns(given)) == 1000
