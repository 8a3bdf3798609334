"""The paper's study: its words, its printed numbers, its tables, and the paper's own figure code on them."""

import csv
import json
import shutil
import subprocess

import pytest
from helpers import not_announced
from small_study import PRINTED, printed

from bqrl.papers import paper_file
from bqrl.papers.ucb_bqrl.view import View, read_printed
from bqrl.planners.greedy import plan_greedy
from bqrl.results.page import page
from bqrl.results.result import read, write
from bqrl.study.settings import read_settings
from bqrl.study.spec import Spec
from bqrl.study.study import reference


@pytest.fixture(scope="module")
def view(finished):
    return View(finished[0], [printed(**one) for one in PRINTED])


@pytest.fixture(scope="module")
def folder(view, tmp_path_factory):
    place = tmp_path_factory.mktemp("paper")
    write(view.result(images=False), place)
    return place


def test_every_file_of_the_paper_is_checked_for_before_the_work(view, folder):
    written = {path.relative_to(folder).as_posix() for path in folder.rglob("*.*") if not path.name.startswith(".")}
    assert not_announced(written, view.files(view.spec)) == {"result.json", "manifest.json"}
    assert {"printed_numbers.csv", "quantile_jumps.vl.json"} <= written


def test_the_printed_numbers_are_the_papers():
    numbers = read_printed()
    assert len(numbers) == 12
    assert [(one.level, one.value) for one in numbers if one.learners == ("ucb_bqrl",) and one.measure != "threshold"] == [
        (0.1, 229.0), (0.5, 1.15), (0.9, 0.79),
    ]  # fmt: skip


def test_goldens_hold():
    golden = json.loads(paper_file("goldens.json").read_text())
    mdp = read_settings(paper_file("study.toml"), Spec).problem.model
    for i, tau in enumerate(golden["levels"]):
        against = reference(mdp, tau)
        assert 24 * against.optimum == pytest.approx(golden["exact"][i], abs=24 * golden["tolerance"])
        assert 24 * against.capped == pytest.approx(golden["capped"][i], abs=24 * golden["tolerance"])
        assert against.best_mean == pytest.approx(golden["best_mean"], abs=golden["best_mean_tolerance"])
        first = plan_greedy(mdp, tau).policy.actions[0]
        assert int((first[:25] == 1).sum()) - 1 == golden["greedy_first_stage"][i]


def test_printed_numbers_stand_beside_ours(view):
    first, smallest, threshold = view.comparison
    seeds = view.spec.study.seeds
    ends = view.study.experiments["", 0.5].part(seeds).ends("capped")
    ends = {key: ends[key].mean() for key in ("eps_q", "ucb_bqrl")}
    assert first["ours"] == pytest.approx(ends["eps_q"])
    assert first["difference"] == pytest.approx(first["ours"] - 7.0)
    assert "On 3 other seeds a mean of 2 runs is" in first["reason"]
    assert smallest["ours"] == pytest.approx(min(ends.values()))
    assert threshold["measure"] == "threshold"
    assert "on the true kernel without a buffer continues up to" in threshold["reason"]
    assert view.sentences()[0].startswith("Of 3 printed numbers, ")


def test_a_printed_number_equal_to_ours_is_called_equal(finished, view):
    ours = view.comparison[0]["ours"]
    same = View(finished[0], [printed(level=0.5, learners=("eps_q",), value=round(ours, 2))])
    assert same.comparison[0]["verdict"] == "equal"
    assert same.comparison[0]["reason"].startswith("Equal in all printed digits.")


def test_a_printed_number_needs_a_learner():
    with pytest.raises(ValueError, match="learners"):
        printed(level=0.5, value=1.0, learners=())


def test_the_final_policy_is_a_table_of_stop_and_continue_by_offer(folder):
    with (folder / "AssetSelling_tau0p2_UCB_BQRL_final_policy.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["offer", "stage_1", "stage_2", "stage_3", "stage_4"]
    assert [row[0] for row in rows] == ["0", "1", "2", "3", "4", "5"]  # sold is left out
    assert {cell for row in rows for cell in row[1:]} == {"0", "1"}


def test_the_page_has_every_chart_and_follows_the_selectors(folder):
    result = read(folder)
    names = ["figure1_tau0p2", "figure2_tau0p5", "final_policy_tau0p2", "final_policy_tau0p5", "every_measure", "seeds",
             "promises", "tuning", "quantile_jumps"]  # fmt: skip
    assert list(result.charts) == names
    text = page(result)
    assert "geometric offers" in text
    assert "offer" in text
    for name, spec in result.charts.items():
        selectors = spec.get("usermeta", {}).get("selectors", [])
        titles = [spec["usermeta"]["findings"]] if selectors else []
        sizes = {one["name"]: len(one["bind"]["options"]) for one in spec.get("params", []) if "bind" in one}
        for selector in selectors:  # one finding for each choice
            assert all(len(part) == sizes[selector] for part in titles), name
            titles = [part for parts in titles for part in parts]
        assert all(isinstance(title, str) for title in titles)
        assert selectors or name not in ("every_measure", "seeds", "tuning")


def test_charts_hold_the_numbers_of_the_tables(finished, view):
    spec = view.charts()["seeds"].to_dict()
    names = [entry.key for entry in finished[0].spec.learners.values()]
    rows = list(csv.DictReader(next(table for table in spec["datasets"].values() if "seed" in table).splitlines()))
    experiment = finished[0].experiments["", 0.5]
    ends = dict(zip(experiment.seeds, experiment.ends("exact")["eps_q"], strict=True))
    drawn = {
        int(row["seed"]): float(row["value"])
        for row in rows
        if (row["level"], row["measure"], row["k"]) == ("1", "0", str(names.index("eps_q")))
    }
    assert drawn == {seed: pytest.approx(value, rel=1e-4) for seed, value in ends.items()}


def test_published_values_share_the_layer_of_the_seeds(view):
    """A layer without rows has no extent, of which the page once warned in its console."""
    spec = view.charts()["seeds"].to_dict()
    marks, means = spec["layer"]
    assert [layer["mark"]["type"] for layer in (marks, means)] == ["point", "tick"]
    (table,) = spec["datasets"].values()
    rows = list(csv.DictReader(table.splitlines()))
    crosses = [row for row in rows if row["kind"] == "published value"]
    assert view.published() == [(0.5, "capped", "eps_q", 7.0), (0.5, "capped", "ucb_bqrl", 1.0)]
    assert [(row["level"], row["measure"], row["k"], row["value"]) for row in crosses] == [
        ("1", "1", "1", "7"), ("1", "1", "0", "1"),
    ]  # fmt: skip
    views = {(str(level), str(measure)) for level in range(2) for measure in range(3)}
    assert {(row["level"], row["measure"]) for row in rows if row["kind"] == "one seed"} == views  # the bars have means


SOURCE = r"""
\documentclass{article}
\usepackage{preamble}
\usepackage{not-a-package}
\newcommand{\QMDPDataDir}{.}
\newcommand{\assetregretplot}[1]{\begin{tikzpicture}\begin{axis}
\addplot table[x=episode, y expr={\thisrow{eps_q_mean}+1.96*\thisrow{eps_q_std}/sqrt(3)}, col sep=comma]{#1};
\end{axis}\end{tikzpicture}}
\pgfplotstableread[col sep=comma]{\QMDPDataDir/AssetSelling_tau0p2_UCB_BQRL_final_policy.csv}\dataTauLow
\newcommand{\policyplot}{\pgfplotstablegetelem{5}{[index]1}\of{\dataTauLow}\ifnum\pgfplotsretval=0 stop\else go\fi}
\begin{document}
Text that is not wanted \undefinedhere.
\begin{figure}\assetregretplot{\QMDPDataDir/AssetSelling_tau0p2_plot.csv}\end{figure}
\begin{figure}\undefinedhere\end{figure}
\begin{figure}\policyplot\end{figure}
\end{document}
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("lualatex") is None, reason="LuaLaTeX is not installed")
def test_the_papers_figure_code_compiles_on_our_tables(folder, tmp_path):
    (tmp_path / "source.tex").write_text(SOURCE)
    wrapper = paper_file("figures.tex")
    begin = rf"\def\PaperSource{{source.tex}}\def\DataFolder{{{folder}}}\input{{{wrapper}}}"
    command = ["lualatex", "-interaction=nonstopmode", "-halt-on-error", begin]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:]
    assert (tmp_path / "figures.pdf").stat().st_size > 5000
    assert "Output written on figures.pdf (2 pages" in done.stdout.replace("\n", "")
