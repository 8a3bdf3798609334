import csv
import json
import re

import numpy as np
import pytest
from helpers import Checked
from small_study import SMALL, Inline

from bqrl.cli.report import report
from bqrl.experiments.reproduce import reproduce
from bqrl.reports.study_charts import charts
from bqrl.reports.study_data import INKS, StudyResults
from bqrl.reports.study_figures import by_rows, jumps_figure, main_figure, policies_figure
from bqrl.reports.study_more import study_figures
from bqrl.reports.study_page import study_page, write_study
from bqrl.reports.study_words import curve_title, luck_title, ranking, summary, tuning_title, verdict

NASTY = '</script><img src=x onerror="1">$x$'


@pytest.fixture(scope="module", params=[False, True], ids=["whole", "quick"])
def study(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    (folder / "small.toml").write_text(SMALL.replace('label = "UCB-BQRL"', f"label = '''{NASTY}'''"))
    reproduce(folder / "small.toml", folder / "out", quick=request.param, workers=Inline())
    return StudyResults(folder / "out")


def test_main_figures_have_the_papers_form(study):
    for tau in study.levels:
        axes = main_figure(study, tau).axes[0]
        with (study.folder / f"AssetSelling_tau{str(tau).replace('.', 'p')}_plot.csv").open() as file:
            rows = list(csv.DictReader(file))
        lines = axes.get_lines()
        assert [line.get_color() for line in lines] == list(INKS[:2])
        assert [line.get_label().replace(r"\$", "$") for line in lines] == [NASTY, "eps_q"]
        assert axes.get_xlim() == (0.0, study.episodes)
        for line, key in zip(lines, ("ucb_bqrl", "eps_q"), strict=True):
            np.testing.assert_allclose(line.get_ydata(), [float(row[f"{key}_mean"]) for row in rows])
        assert {band.get_alpha() for band in axes.collections} == {0.06}
        half = 1.96 * float(rows[-1]["ucb_bqrl_std"]) / np.sqrt(2)
        top = float(rows[-1]["ucb_bqrl_mean"]) + half
        path = axes.collections[0].get_paths()[0].vertices
        np.testing.assert_allclose(path[path[:, 0] == study.episodes, 1].max(), top)


def test_the_policy_map_shows_the_file(study):
    panels = policies_figure(study).axes
    assert [panel.get_title() for panel in panels] == [r"$\tau=0.2$", r"$\tau=0.5$"]
    for panel, tau in zip(panels, study.levels, strict=True):
        states, actions = study.policy(tau)
        assert states == [str(i) for i in range(6)]
        np.testing.assert_array_equal(np.asarray(panel.collections[0].get_array()).reshape(actions.shape), actions)


def test_report_draws_every_figure_and_the_page(study, tmp_path, capsys):
    report(study.folder, tmp_path)
    captured = capsys.readouterr()
    assert captured.err == ""
    assert "report.html" in captured.out
    names = {path.name for path in (tmp_path / "figures").iterdir()}
    drawn = study_figures(study)
    assert names == {f"{name}.{kind}" for name in drawn for kind in ("png", "pdf")}
    assert {"figure1_tau0p2", "figure3_final_policies", "exact_gap", "return_cdf", "guarantee_curve"} <= drawn.keys()
    assert {"luck", "tuning", "other_offers", "quantile_jumps"} <= drawn.keys()
    marks = [
        figure.get_suptitle().startswith("Quick look") for name, figure in drawn.items() if name != "quantile_jumps"
    ]
    assert all(marks) if study.quick else not any(marks)
    assert (tmp_path / "report.html").stat().st_size < 6_000_000


def test_the_page_is_whole_escaped_and_alone(study):
    page = study_page(study)
    checked = Checked()
    checked.feed(page)
    assert checked.open == []
    assert checked.links == []
    assert checked.tags.count("script") == 2
    assert NASTY not in page
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    words = " ".join(" ".join(checked.words).split())
    assert NASTY in words
    assert page.count("Quick look") > 10 if study.quick else "uick look" not in page
    for row in study.found["comparison"]:
        assert row["reason"] in words
    for value in (*study.settings["luck_seeds"], study.found["versions"]["code"]):
        assert str(value) in words
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S).group(1))
    assert data == json.loads(json.dumps(charts(study)))
    assert set(re.findall(r'data-figure="(\w+)"', page)) == set(data)


def test_charts_hold_the_numbers_of_the_tables(study):
    found = charts(study)
    view = found["curves"]["views"]["1|0|1"]  # the second level, exact optimum, the first variant
    with (study.folder / "geometric/exact/AssetSelling_tau0p5_gap.csv").open() as file:
        last = list(csv.DictReader(file))[-1]
    assert view["x"][-1] == study.episodes
    assert view["series"][2]["y"][-1] == pytest.approx(float(last["target_mean"]), rel=1e-4, abs=1e-9)
    rows = found["luck"]["views"]["1|1"]["rows"]
    assert [len(row["further"]) for row in rows] == [3, 3, 3]
    assert [len(row["held"]) for row in rows] == [2, 2, 2]
    assert rows[1]["printed"] == 7.0
    assert found["laws"]["views"]["0"]["series"][0]["y"][-1] == pytest.approx(1.0)
    assert len(found["curves"]["views"]) == 2 * 3 * 2


def test_words_follow_the_numbers(study):
    assert ranking({"a": 3.0, "b": 1.0, "c": 2.0}, "exact", 9) == (
        "b has the smallest gap to the exact optimum after 9 episodes, 1.00; then c 2.00, a 3.00"
    )
    assert ranking({"a": 1.0, "b": 1.001, "c": 2.0}, "capped", 9).startswith("a and b have the smallest gap")
    assert (
        ranking({"a": 0.0, "b": 0.0}, "expected", 9)
        == "a and b end alike after 9 episodes: expected-return regret 0.00"
    )
    assert str(study.episodes) in curve_title(study, 0.5, "exact")
    first = study.found["orderings"]["AssetSelling"]["0.5"]["exact"][0]
    assert f"{first['mean']:.2f}" in luck_title(study, 0.5, "exact")
    assert tuning_title(study)
    assert summary(study)[0].startswith("Numbers of a quick" if study.quick else "Of 3 printed numbers")
    row = {"ours": 1.0, "printed": 1.0, "difference": 0.0, "further_mean": 1.0, "further_std": 0.1}
    expected = ["not compared"] * 3 if study.quick else ["equal", "chance", "apart"]
    rows = [row, row | {"printed": 1.1, "difference": -0.1}, row | {"printed": 3.0, "difference": -2.0}]
    assert [verdict(one, study) for one in rows] == expected


def test_the_legend_reads_row_by_row():
    assert by_rows(range(7), 4) == [0, 4, 1, 5, 2, 6, 3]


def test_the_jumps_are_those_of_the_construction():
    axes = jumps_figure(0.5, 0.05, 3).axes[0]
    np.testing.assert_allclose(axes.get_xticks(), [0.45, 0.5, 0.55])
    np.testing.assert_allclose(axes.get_yticks(), [0.0, 2.0])


def test_damaged_folders_are_refused(study, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"results\.json"):
        StudyResults(tmp_path)
    (tmp_path / "results.json").write_text('{"format": "other"}')
    with pytest.raises(ValueError, match="not a document"):
        StudyResults(tmp_path)
    (tmp_path / "results.json").write_text(json.dumps(study.found))
    with pytest.raises(FileNotFoundError, match=r"plot\.csv"):
        write_study(tmp_path)
