"""CSV models: columns by name, facts above the header, faults with their line; what is written comes back or is refused."""

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from mdp_strategies import assert_same, assert_same_noise, dense_models, listed_models, step_models

from bqrl import MDP, from_step, load, save
from bqrl.errors import ArgumentError, FileFormatError, ModelError, ModelWarning

HEADER = "idstatefrom,idaction,idstateto,probability,reward"
DOMAINS = Path(__file__).parents[3].parent / "shared" / "domains"
TABLE = [  # domain, states, actions, rows, start (from 1), smallest and largest reward
    ("riverswim", 20, 2, 78, 9, 0.0, 86.2971),
    ("machine", 10, 2, 45, 1, -20.0, 0.0),
    ("population", 51, 5, 5583, 44, -2420.0, 1000.0),
    ("cliff", 39, 4, 446, 37, -100.0, 0.0),
    ("inventory2", 101, 51, 23203, 20, -498.8, 480.0),
]


def read(tmp_path, text, name="model.csv", **options):
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load(path, **({"horizon": 3} | options if name.endswith(".csv") else options))


def test_ids_from_one_become_the_labels(tmp_path):
    mdp = read(tmp_path, f"{HEADER}\n1,1,2,1.0,0.5\n2,1,1,1.0,0.25\n", start="2")
    assert mdp.start == 1
    assert mdp.state_names == ("1", "2")
    assert mdp.action_label(0) == "1"
    save(mdp, tmp_path / "again.csv", plain=True)
    assert (tmp_path / "again.csv").read_text() == f"{HEADER}\n1,1,2,1.0,0.5\n2,1,1,1.0,0.25\n"


def test_states_and_actions_are_counted_each_for_themselves(tmp_path):
    mdp = read(tmp_path, f"{HEADER}\n0,1,1,1.0,0.5\n1,2,0,1.0,0.25\n")
    assert mdp.state_names is None
    assert mdp.action_names == ("1", "2")
    assert mdp.available[0].tolist() == [[True, False], [False, True]]


def test_rows_with_the_same_successor_merge(tmp_path):
    mdp = read(tmp_path, f"{HEADER}\n0,0,0,0.25,1\n0,0,0,0.25,1\n0,0,0,0.5,-1\n")
    assert mdp.outcomes(0, 0, 0)[1].tolist() == [0.5, 0.5]
    assert mdp.outcomes(0, 0, 0)[2].tolist() == [-1.0, 1.0]


def test_a_true_duplicate_names_both_lines(tmp_path):
    text = f"{HEADER}\n1,1,1,1,0\n1,2,3,0.3,0.5\n\n1,2,1,0.7,0.5\n1,2,3,0.3,0.5\n2,1,1,1,0\n3,1,1,1,0\n"
    message = r"^model\.csv: lines 3 and 6: expected distinct outcomes, got \(s=1, a=2, s'=3\) with reward 0\.5 twice"
    with pytest.raises(ValueError, match=message):
        read(tmp_path, text)


def test_stages_in_a_column_of_their_own(tmp_path):
    text = f"stage,{HEADER}\n1,1,1,1,1,5\n2,1,1,1,1,6\n"
    mdp = read(tmp_path, text, horizon=None)
    assert (mdp.H, mdp.stationary) == (2, False)
    assert mdp.reward.tolist() == [[5.0, 6.0]]
    with pytest.raises(ValueError, match=r"model\.csv: horizon must be 2, the number of stages of transitions, got 3"):
        read(tmp_path, text, horizon=3)


@pytest.mark.parametrize(
    "text",
    [
        f"\ufeff{HEADER}\n1,1,1,0.5,2\n1,1,1,0.5,3\n",
        f"{HEADER}\r\n1,1,1,0.5,2\r\n1,1,1,0.5,3\r\n",
        f"{HEADER}\r1,1,1,0.5,2\r1,1,1,0.5,3",
        f"\n{HEADER}\n\n1,1,1,0.5,2\n   \n1,1,1,0.5,3\n\n\n \n",
        " IdStateFrom, idaction ,idstateto,\tprobability,reward\n1, 1,1.0 ,5e-1,2\n1,1,1,.5,+3",
        "reward,probability,idstateto,idaction,idstatefrom\n2,0.5,1,1,1\n3,0.5,1,1,1\n",
        HEADER.replace(",", ";") + "\n1;1;1;0,5;2\n1;1;1;0,5;3,0\n",
        HEADER.replace(",", "\t") + "\n1\t1\t1\t0.5\t2\n1\t1\t1\t.5\t3\n",
        "State,Action,Next State,Probability,Reward\n1,1,1,0.5,2\n1,1,1,0.5,3\n",
        "sep=;\ns;a;to;p;r;;\n1;1;1;0,5;2;;\n1;1;1;0,5;3;;\n",
        '"sep=;"\ns;a;to;p;r\n1;1;1;0,5;2\n1;1;1;0,5;3\n',
        "s;a;to;p;r\n1;1;1;\u00a00,5;2\n1;1;1;0,5\u00a0;3\n",
        "s;a;to;p;r\n1;1;1;0,5;2\n;;;;\n1;1;1;0,5;3\n;;;;\n ; ;;;\n",
        "s,a,s',p,r\nx,go,x,0.5,2\nx,go,x,0.5,3\n",
        'from,decision,to,prob,payoff\n"x, or y",go,"x, or y",0.5,2\n"x, or y",go,"x, or y",0.5,3\n',
    ],
    ids=[
        "bom",
        "crlf",
        "cr",
        "blank lines",
        "spaces",
        "another order",
        "semicolons and decimal commas",
        "tabs",
        "words",
        "spreadsheet",
        "separator in quotes",
        "no-break spaces",
        "empty rows of a spreadsheet",
        "letters",
        "quotes",
    ],
)
def test_csv_from_any_editor(tmp_path, text):
    mdp = read(tmp_path, text)
    assert mdp.outcomes(0, 0, 0)[2].tolist() == [2.0, 3.0]


def test_a_typographic_minus_sign_is_a_minus_sign(tmp_path):
    mdp = read(tmp_path, "s;a;to;p;r\n1;1;1;0,5;\u22122,5\n1;1;1;0,5; \u22123\n")
    assert mdp.outcomes(0, 0, 0)[2].tolist() == [-3.0, -2.5]
    with pytest.raises(FileFormatError, match=r"line 3, column 'r': expected a number, got '\u2212x'"):
        read(tmp_path, "s;a;to;p;r\n1;1;1;0,5;\u22122,5\n1;1;1;0,5;\u2212x\n")


@pytest.mark.parametrize(
    ("sign", "rewards"), [("\t", ("1,500", "-12,250")), (";", ("1,500", "7")), (";", ("1.500", "100"))]
)
def test_thousands_separators_are_not_read_as_decimal_signs(tmp_path, sign, rewards):
    lines = ["state|action|next_state|probability|reward", *(f"x|{i}|x|100%|{r}" for i, r in enumerate(rewards))]
    text = "\n".join(lines).replace("|", sign)
    with pytest.raises(
        FileFormatError, match=r"line 2, column 'reward': expected a number without .*; write 1500 or 1.5000"
    ) as fault:
        read(tmp_path, text)
    assert (fault.value.line, fault.value.column) == (2, "reward")
    one, half = ("1,000", "0,5") if "," in rewards[0] else ("1.000", "0.5")  # probabilities show the decimal sign
    text = text.replace("100%", one) + f"\nx|9|x|{half}|1\nx|9|x|{half}|2".replace("|", sign)
    assert read(tmp_path, text, columns={"reward": "reward"}).reward[0, 0] == 1.5


@pytest.mark.parametrize(("name", "S", "A", "rows", "start", "low", "high"), TABLE, ids=[row[0] for row in TABLE])
def test_benchmark_domains_load(tmp_path, name, S, A, rows, start, low, high):
    path = DOMAINS / f"{name}.csv"
    if not path.exists():
        pytest.skip("the benchmark domains are not beside the repository")
    mdp = load(path, horizon=100, start=str(start), discount=0.9)
    assert (mdp.H, mdp.S, mdp.A, mdp.start, mdp.discount) == (100, S, A, start - 1, 0.9)
    assert mdp.stationary
    assert mdp.successor.size == rows
    assert (mdp.reward.min(), mdp.reward.max()) == pytest.approx((low, high), rel=1e-6)
    assert mdp.state_label(mdp.start) == str(start)
    for ending in ("csv", "csv.gz", "npz", "json"):
        save(mdp, tmp_path / f"again.{ending}")
        assert_same(mdp, load(tmp_path / f"again.{ending}"))


def test_two_hundred_thousand_rows_load(tmp_path):
    S, n = 20_000, 200_000
    rng = np.random.default_rng(0)
    listed = np.c_[
        np.repeat(np.arange(S), 10), np.zeros(n), rng.integers(0, S, n), np.full(n, 0.1), rng.integers(0, 9, n)
    ]
    mdp = MDP(listed, horizon=5)
    for ending in ("csv", "npz"):
        save(mdp, tmp_path / f"big.{ending}")
        assert_same(mdp, load(tmp_path / f"big.{ending}"))
    text = (tmp_path / "big.csv").read_text()
    with pytest.raises(ValueError, match=r"^cut\.csv: line \d+: expected 5 columns .* got 4; is the file truncated\?$"):
        read(tmp_path, text[: text.rindex(",")], "cut.csv")


# -- names and facts -----------------------------------------------------------------------------------------------------

NAMED = (
    "state,action,next_state,probability,reward\nWell,wait,Sick,0.25,5\nWell,wait,Well,0.75,5\nSick,cure,Well,1,-2\n"
)


def test_names_become_states_in_order_of_appearance(tmp_path):
    mdp = read(tmp_path, NAMED, start="Sick")
    assert mdp.state_names == ("Well", "Sick")
    assert mdp.action_names == ("wait", "cure")
    assert mdp.start == 1
    assert mdp.outcomes(0, 0, 0)[1].tolist() == [0.75, 0.25]


def test_facts_above_the_header(tmp_path):
    head = "# a model of illness\n# Horizon: 7\n# discount: 0.9\n# start: Well=0.75, Sick=0.25\n"
    head += "# states: Sick, Well\n# units: QALY\n"
    mdp = read(tmp_path, head + NAMED, horizon=None)
    assert (mdp.H, mdp.discount, mdp.units) == (7, 0.9, "QALY")
    assert mdp.state_names == ("Sick", "Well")
    assert mdp.mu.tolist() == [0.25, 0.75]
    other = read(tmp_path, head + NAMED, horizon=3, start={"Sick": 1.0}, discount=1.0)
    assert (other.H, other.discount, other.start) == (3, 1.0, 0)


def test_a_count_states_ids_without_lines(tmp_path):
    text = f"# states: 4\n# actions: 3\n{HEADER}\n1,1,1,1,0\n"
    mdp = read(tmp_path, text, start=1)
    assert (mdp.S, mdp.A, mdp.state_names) == (4, 3, None)
    assert mdp.available[0, 1].tolist() == [False, True, False]


def test_names_that_look_like_numbers_survive(tmp_path):
    listed = [(0, 0, 1, 1.0, 0.0), (1, 0, 2, 1.0, 1.0), (2, 0, 2, 1.0, 0.0)]
    for names in (["10", "20", "done"], ["1", "0", "2"], ["a=1", 'b "c"', "d, e"], ["#x", "y", "-"]):
        mdp = MDP(listed, horizon=2, state_names=names, start={names[0]: 0.5, names[2]: 0.5})
        save(mdp, tmp_path / "m.csv")
        assert_same(mdp, load(tmp_path / "m.csv"))


def test_columns_are_chosen_by_the_caller(tmp_path):
    text = "u,v,w,x,y\n0,0,1,1,5\n1,0,0,1,6\n"
    chosen = {"state": "u", "action": "v", "next_state": "w", "probability": "x", "reward": "Y"}
    assert read(tmp_path, text, columns=chosen).reward.tolist() == [[5.0, 6.0]]
    swapped = NAMED.replace("state,action", "to,action", 1).replace("next_state", "from")
    mdp = read(tmp_path, swapped, columns={"state": "to", "next_state": "from"})
    assert mdp.state_names == ("Well", "Sick")


def test_extra_columns_are_ignored_with_a_notice(tmp_path):
    text = "note,state,action,next_state,probability,reward,source\nx,0,0,0,1,5,y\n"
    with pytest.warns(ModelWarning, match="^columns ignored: 'note', 'source'$"):
        assert read(tmp_path, text).reward.tolist() == [[5.0]]
    with pytest.warns(ModelWarning) as caught:
        load(tmp_path / "model.csv", horizon=2)
    assert caught[0].filename == __file__  # the caller's line, and none of the library


@pytest.mark.parametrize("share", ["3%", "97 %"])
def test_a_discount_in_percent_is_refused_with_a_remedy(tmp_path, share):
    with pytest.raises(
        FileFormatError, match=r"line 1: discount must be a factor such as 0\.97, or 1 / 1\.03 for interest"
    ):
        read(tmp_path, f"# discount: {share}\n" + NAMED)


def test_gzip_is_read_and_written(tmp_path):
    (tmp_path / "m.csv.gz").write_bytes(gzip.compress(NAMED.encode()))
    mdp = load(tmp_path / "m.csv.gz", horizon=3)
    save(mdp, tmp_path / "again.csv.gz")
    first = (tmp_path / "again.csv.gz").read_bytes()
    save(mdp, tmp_path / "again.csv.gz")
    assert (tmp_path / "again.csv.gz").read_bytes() == first  # no time stamp
    assert_same(mdp, load(tmp_path / "again.csv.gz"))


def test_errors_carry_file_line_and_column(tmp_path):
    with pytest.raises(FileFormatError) as caught:
        read(tmp_path, NAMED.replace("0.75", "x"))
    assert (caught.value.file, caught.value.line) == (str(tmp_path / "model.csv"), 3)
    assert caught.value.column == "probability"
    with pytest.raises(FileFormatError) as caught:
        read(tmp_path, NAMED.replace("0.75", "0.5"))
    assert (caught.value.row, caught.value.line) == ((None, 0, 0), 2)
    with pytest.raises(ArgumentError) as caught:
        read(tmp_path, NAMED, start="Wel")
    assert (caught.value.name, caught.value.value) == ("start", "Wel")


BODY = "s,a,to,p,r\nWell,wait,Well,0.75,5\nWell,wait,Sick,0.25,5\nSick,cure,Well,1,-2\n"


@pytest.mark.parametrize(
    "head",
    [
        "# horizon: 7\n# discount: 0.97\n# start: Well=0.8, Sick=0.2\n",
        "# horizon = 7\n#discount=0.97\n## Start : Well=0.8,Sick=0.2\n",
        "# horizon: 7,,,,\n# discount: 0.97,,,,\n# start: Well=0.8, Sick=0.2,,,\n",
        '"# horizon: 7",,,,\n"# discount: 0,97";;;;\n"# start: Well=0.8, Sick=0.2",,,,\n',
        "# horizon: 7;;;;\n# discount: 0,97;;;;\n# start: Well=0,8; Sick=0,2;;;\n",
        "# horizon: 7\n# discount: 0.97\n# start: Well=80%, Sick=20 %\n",
        "# state: how the patient is\n# Action: what is done\n# horizon: 7\n# discount: 0.97\n# start: Well=.8,Sick=.2\n",
    ],
    ids=["as written", "with =", "empty cells", "quotes", "decimal commas", "percentages", "columns explained"],
)
def test_facts_survive_an_editor_or_a_spreadsheet(tmp_path, head):
    mdp = read(tmp_path, head + BODY, horizon=None)
    assert (mdp.H, mdp.discount, mdp.mu.tolist()) == (7, 0.97, [0.8, 0.2])


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("# gamma: 0.9", "discount"),
        ("# time horizon = 20", "horizon"),
        ("# discount_factor: 0.9", "discount"),
        ("# Initial state: Sick", "start"),
        ("# H: 20", "horizon"),
    ],
)
def test_a_comment_that_may_be_a_fact_is_not_ignored_in_silence(tmp_path, line, meant):
    """Each was once read as a comment, so that the model had another discount, horizon or start than its author meant."""
    with pytest.warns(
        ModelWarning, match=rf"^line 1: '{line}' is read as a comment; did you mean # {meant}: \.\.\.\?$"
    ):
        read(tmp_path, f"{line}\n{BODY}")
    read(tmp_path, f"# author: A. Nonymous\n# The start of the season: spring\n# state: a health state\n{BODY}")


def test_text_that_is_not_utf8_says_what_to_do(tmp_path):
    with pytest.raises(FileFormatError, match=r"line 1: expected a header such as .*, got control characters"):
        read(tmp_path, BODY.encode("utf-16-le"))
    text = BODY.encode().replace(b"Sick", b"Gr\x81n")  # a byte that has no meaning in Windows-1252
    with pytest.raises(
        FileFormatError, match=r"near line 1: expected CSV text in UTF-8, got other bytes; save the file"
    ):
        read(tmp_path, text)


def test_plain_csv_of_excel_is_windows_text(tmp_path):
    """Excel saves "CSV" in Windows-1252; such a file was once refused."""
    text = BODY.replace("Sick", "Grün \u20ac")
    assert_same(read(tmp_path, text.encode("cp1252")), read(tmp_path, text))


def test_text_in_utf16_as_spreadsheets_write_it(tmp_path):
    text = BODY.replace("Sick", "Grün")
    assert_same(read(tmp_path, text.encode("utf-16")), read(tmp_path, text))


EVENTS = """# horizon: 3
state,action,event,next_state,probability,reward
empty,fill,rain,full,0.3,0
empty,fill,dry,empty,0.7,0
full,fill,dry,full,0.7,1
full,fill,rain,full,0.3,2
full,rest,,full,1,0
"""


def test_events_are_read_as_shared_noise(tmp_path):
    mdp = read(tmp_path, EVENTS, horizon=None)
    assert mdp.noise.events == (("rain", "dry"),)
    assert mdp.noise.row_law[0, :, 0].tolist() == [0, 0]
    hidden = read(tmp_path, "# events_observed: no\n# cut: 0.001\n" + EVENTS, horizon=None)
    assert not hidden.noise.events_observed
    assert hidden.noise.cut == (0.001,)


EVENT_FAULTS = [
    (
        EVENTS.replace("full,0.7,1", "full,0.8,1").replace("full,0.3,2", "full,0.2,2"),
        "line 5, column 'probability': expected the",
    ),
    (EVENTS.replace("full,fill,rain", "full,fill,"), "line 5, column 'event': expected each event of one law once per row"),
    ("# events_observed: maybe\n" + EVENTS, "line 1: events_observed must be yes or no, got 'maybe'"),
    ("# cut: a lot\n" + EVENTS, "line 1: cut must be numbers separated by commas, got 'a lot'"),
    ("# cut: 0.1, 0.2\n" + EVENTS, "cut must hold one number per law (1), got 2"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "phrase"), EVENT_FAULTS)
def test_bad_events_get_one_line(tmp_path, text, phrase):
    with pytest.raises(FileFormatError) as caught:
        read(tmp_path, text, horizon=None)
    assert str(caught.value).startswith("model.csv: ")
    assert phrase in str(caught.value)


# -- writing -----------------------------------------------------------------------------------------------------------


def refusal(call, *arguments, **options):
    """The message of the ValueError that a call raises, or nothing; any other exception goes through."""
    try:
        call(*arguments, **options)
    except ValueError as error:
        return str(error)
    return ""


@given(listed_models())
def test_a_model_survives_csv(tmp_path_factory, mdp):
    path = tmp_path_factory.mktemp("files") / "model.csv"
    save(mdp, path)
    assert_same(mdp, load(path))


@given(dense_models(zeros=False))
def test_names_and_facts_survive_csv_or_are_refused(tmp_path_factory, arguments):
    mdp = MDP(**arguments, units="EUR")
    path = tmp_path_factory.mktemp("files") / "model.csv.gz"
    refused = refusal(mdp.save, path)
    if refused:
        assert "; save to .npz instead" in refused
        assert not path.exists()
    else:
        again = load(path)
        assert_same(mdp, again)
        assert again.units == "EUR"


@given(listed_models())
def test_plain_csv_holds_the_columns_alone(tmp_path_factory, mdp):
    path = tmp_path_factory.mktemp("files") / "model.csv"
    refused = refusal(save, mdp, path, plain=True)
    if refused:
        assert "cannot hold a first or last" in refused
    else:
        assert path.read_text().startswith((HEADER, f"stage,{HEADER}"))
        assert_same(mdp, load(path, horizon=mdp.H, start=mdp.start, discount=mdp.discount))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"rewards": np.zeros((4, 2, 1)) + np.arange(4)[:, None, None]}, "rewards that differ by stage"),
        ({"support": np.ones((2, 1, 2), bool)}, "possible successors of probability zero"),
        ({"known": np.ones((2, 1), bool)}, "rows known to learners"),
    ],
)
def test_csv_refuses_what_it_cannot_hold(tmp_path, options, what):
    arguments = {"transitions": [[[0.5, 0.5]], [[0.0, 1.0]]], "rewards": [[0.0], [1.0]], "horizon": 4} | options
    with pytest.raises(ValueError, match=rf"a .csv file can hold, got one with {what}.*; save to .npz instead"):
        MDP(**arguments).save(tmp_path / "model.csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "names", [("a;b", "c"), ("a,", "b"), ("a=1", "b"), ("50%", "b"), ("# a", "b"), ('"', "'"), ("a;", "b;")]
)
def test_names_with_separators_survive_csv(tmp_path, names):
    mdp = MDP(
        np.full((2, 2, 2), 0.5), np.zeros((2, 2)), horizon=2, start=[0.25, 0.75], state_names=names, action_names=names
    )
    save(mdp, tmp_path / "m.csv")
    assert_same(mdp, load(tmp_path / "m.csv"))


# -- shared noise in written files -------------------------------------------------------------------------------------


@given(step_models())
def test_shared_noise_survives_csv(tmp_path_factory, case):
    mdp = case[0]
    path = tmp_path_factory.mktemp("files") / "model.csv"
    save(mdp, path)
    again = load(path)
    assert_same(mdp, again)
    used = [law for law in range(len(mdp.noise.events)) if np.any(mdp.noise.row_law == law)]
    if len(used) == len(mdp.noise.events):
        assert_same_noise(mdp, again)
    else:  # a law that drives no row has no line
        assert (again.noise is None) == (not used)


def test_facts_of_the_noise_survive_csv(tmp_path):
    def step(stock, order, demand):
        sold = min(stock + order, demand)
        return stock + order - sold, 5.0 * sold

    laws = [{0: 0.5, 1: 0.5, 2: 0.0}, {0: 0.25, 2: 0.75}]
    mdp = from_step(step, lambda stock: range(3 - stock), laws, 2, 1, events_observed=False)
    save(mdp, tmp_path / "m.csv")
    again = load(tmp_path / "m.csv")
    assert_same(mdp, again)
    assert_same_noise(mdp, again)
    assert "law,event" in (tmp_path / "m.csv").read_text()


def test_laws_that_are_not_known_are_left_out_with_a_notice(tmp_path):
    mdp = from_step(lambda s, a, e: (e, 0.0), ["go"], {0: 0.5, 1: 0.5}, 2, 0)
    hidden = mdp.with_probability(mdp.probability)
    with pytest.warns(
        ModelWarning, match=r"does not keep the noise, whose laws are not known; save to \.json or \.npz"
    ):
        save(hidden, tmp_path / "m.csv")
    assert load(tmp_path / "m.csv").noise is None


def test_plain_csv_has_no_events(tmp_path):
    mdp = from_step(lambda s, a, e: (e, 0.0), ["go"], {0: 0.5, 1: 0.5}, 2, 0)
    save(mdp, tmp_path / "m.csv", plain=True)
    assert (tmp_path / "m.csv").read_text().startswith(HEADER + "\n")


@pytest.mark.parametrize("events", [("1", 1), ("", "x"), (" a", "a"), ("a\nb", "a b"), ("a\0", "a"), ("\ufeffa", "a")])
@pytest.mark.parametrize("ending", ["csv", "json", "npz"])
def test_events_of_any_name_come_back_distinct(tmp_path, events, ending):
    mdp = from_step(lambda s, a, e: (0, float(e == events[0])), ["go"], dict.fromkeys(events, 0.5), 2, 0)
    save(mdp, tmp_path / f"m.{ending}")
    again = load(tmp_path / f"m.{ending}")
    assert_same(mdp, again)
    assert_same_noise(mdp, again)
    assert len(set(again.noise.events[0])) == 2


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('"x" ,go,x,1,0', "line 2: expected closed quotes, got an open one or text after a quote"),
        ('x,go,x,1,"1,000"', "line 2, column 'r': expected a number, got '1,000'; write it as 1234.5"),
        ("x,go,x,1/3,0", "line 2, column 'p': expected a number, got '1/3'; give a number from 0 to 1"),
        ("x,go,x,x%,0", "line 2, column 'p': expected a number, got 'x%'; give a number from 0 to 1"),
        ("x,go,x,1,5%", "line 2, column 'r': expected a number, got '5%'; write it as 1234.5"),
        ("x,go,x,1,2 \u20ac", "line 2, column 'r': expected a number, got '2 \u20ac'; write it as 1234.5"),
        ("x\0,go,x,1,2", "line 2, column 's': expected a printable name, got 'x\\x00'; remove control characters"),
    ],
)
def test_cells_of_spreadsheets_that_cannot_be_read_name_the_remedy(tmp_path, line, words):
    with pytest.raises(FileFormatError) as fault:
        read(tmp_path, f"s,a,to,p,r\n{line}\nx,go,x,1,0\n")
    assert str(fault.value) == f"model.csv: {words}"
    assert fault.value.line == 2


@pytest.mark.parametrize(
    ("first", "second", "example"),
    [
        ("1", "1.234,5", "1234,5"),
        ("2 \u20ac", "2,5", "1234,5"),
        ("2 \u20ac", "2.5", "1234.5"),
        ("2,5", "2 \u20ac", "1234,5"),
    ],
)
def test_the_hint_for_a_number_has_the_decimal_sign_of_the_file(tmp_path, first, second, example):
    """A file with decimal commas was told to write a point, which it may not mix with them."""
    with pytest.raises(FileFormatError) as fault:
        read(tmp_path, f"s;a;to;p;r\nx;go;x;1;{first}\ny;go;y;1;{second}\n")
    assert str(fault.value).endswith(f"; write it as {example}")


def test_facts_at_the_edge_survive(tmp_path):
    """A first state of probability just below 1 was once written as certain, and units lost a separator at their end."""
    mdp = MDP([(0, 0, 0, 1.0, 1.0)], horizon=2, start=[1 - 2**-53])
    for ending in ("csv", "json", "npz"):
        save(mdp, tmp_path / f"model.{ending}")
        assert load(tmp_path / f"model.{ending}").mu.tolist() == mdp.mu.tolist() != [1.0]
    mdp = MDP([(0, 0, 1, 1.0, 1.0), (1, 0, 1, 1.0, 1.0)], horizon=2, start=[1.0, 1e-290])  # once only its first state
    for ending in ("csv", "json", "npz"):
        save(mdp, tmp_path / f"model.{ending}")
        assert load(tmp_path / f"model.{ending}").mu.tolist() == [1.0, 1e-290]
    with pytest.raises(ValueError, match="units that begin or end with a separator"):
        save(MDP([(0, 0, 0, 1.0, 1.0)], horizon=2, units="kg;"), tmp_path / "model.csv")


def test_rounded_probabilities_name_the_remedy(tmp_path):
    with pytest.raises(
        FileFormatError, match=r"must sum to 1, got 0\.999; if they are rounded, divide them by their sum"
    ):
        read(tmp_path, "s,a,to,p,r\n" + "".join(f"0,0,{i},0.333,0\n" for i in range(3)))


@pytest.mark.parametrize("cells", [("12.3%", "87.7 %"), ("12,3%", "87,7%"), ("0.123", "87.7%")])
def test_probabilities_in_percent(tmp_path, cells):
    text = "s;a;to;p;r\n" + "".join(f"x;go;{to};{p};0\n" for to, p in zip("xy", cells, strict=True)) + "y;go;y;100%;0\n"
    assert read(tmp_path, text).probability.tolist() == [0.123, 0.877, 1.0]


def test_codes_with_leading_zeros_are_names(tmp_path):
    """The ids 01 and 1 were once one state, and 01 lost its zero."""
    text = "s,a,to,p,r\n01,go,1,1,5\n1,stay,02,1,0\n02,stay,02,1,0\n"
    mdp = read(tmp_path, text, start="01")
    assert (mdp.state_names, mdp.start) == (("01", "1", "02"), 0)
    assert mdp.successor.tolist() == [1, 2, 2]


@pytest.mark.parametrize(
    "text", [",Well,Sick\nWell,0.9,0.1\nSick,0,1\n", '"";"Well";"Sick"\n"Well";0,9;0,1\n"Sick";0;1\n']
)
def test_a_transition_matrix_is_not_taken_for_a_bad_header(tmp_path, text):
    with pytest.raises(
        FileFormatError, match=r"line 1: expected one line per outcome, got a transition matrix; pass one"
    ):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("typo", "remedy"),
    [
        ("Schlect", "; did you mean 'Schlecht'? if not, give it an action"),
        ("schlecht", "; did you mean 'Schlecht'? if not, give it an action"),
        ("Ende", "; give it one (a loop will do)"),
        ("Gut 2", "; give it one (a loop will do)"),  # numbered states are no misspellings of each other
    ],
)
def test_a_misspelt_state_gets_its_line_and_not_the_advice_to_make_it_a_state(tmp_path, typo, remedy):
    """Once a misspelt successor got "give it one (a loop will do)", which makes the typo a state of the model."""
    lines = ["state,action,next_state,probability,reward", "Gut 1,warten,Schlecht,1,5", f"Schlecht,warten,{typo},1,0"]
    (tmp_path / "m.csv").write_text("\n".join(lines))
    with pytest.raises(ModelError) as caught:
        load(tmp_path / "m.csv", horizon=4)
    message = f"m.csv: line 3: state {typo}, reachable at stage 3, must have an action, got none{remedy}"
    assert str(caught.value).endswith(message)
    assert caught.value.line == 3
