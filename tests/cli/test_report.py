"""`bqrl report`: the page of a result folder."""

from helpers import SHORT, assert_refused, one_line

from bqrl.results.result import read


def test_report_needs_a_result_folder(cli, tmp_path):
    for given in (tmp_path, tmp_path / "nowhere"):
        code, out, err = cli("report", given, "--out", tmp_path / "new")
        assert not (tmp_path / "new").exists()
        assert (code, out) == (2, "")
        assert one_line(err)


def test_report_refuses_a_folder_that_was_interrupted(cli, tiny, tmp_path):
    assert cli("solve", tiny, "--tau", 0.4, "--out", tmp_path / "out")[0] == 0
    manifest = tmp_path / "out" / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"complete"', '"interrupted"'))
    code, _, err = cli("report", tmp_path / "out")
    assert (code, err) == (2, f"bqrl: {tmp_path / 'out'}: interrupted; run the command again\n")
    assert cli("solve", tiny, "--tau", 0.4, "--out", tmp_path / "out")[0] == 0
    assert cli("report", tmp_path / "out")[0] == 0


def test_report_can_write_elsewhere(cli, tiny, tmp_path):
    assert cli("solve", tiny, "--tau", 0.4, "--out", tmp_path / "out")[0] == 0
    assert cli("report", tmp_path / "out", "--out", tmp_path / "page")[0] == 0
    assert (tmp_path / "page" / "report.html").stat().st_size > 10_000
    assert cli("report", tmp_path / "out", "--out", tmp_path / "page")[0] == 0  # a page of ours is replaced
    assert_refused(cli("report", tmp_path / "page"), "page holds no result of bqrl (no result.json); name")
    (tmp_path / "page" / "report.html").write_text("edited by hand")
    assert_refused(cli("report", tmp_path / "out", "--out", tmp_path / "page"), "report.html is not as it was written")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "report.html").write_text("mine")
    assert_refused(cli("report", tmp_path / "out", "--out", tmp_path / "mine"), "report.html was not written by bqrl")
    assert (tmp_path / "mine" / "report.html").read_text() == "mine"


def test_report_makes_a_page_of_a_learner(cli, tiny, tmp_path):
    assert cli("learn", tiny, "--tau", 0.4, *SHORT, "--out", tmp_path / "o")[0] == 0
    assert cli("report", tmp_path / "o") == (0, f"Wrote {tmp_path / 'o' / 'report.html'}\n", "")
    page = (tmp_path / "o" / "report.html").read_text()
    for wanted in (read(tmp_path / "o").details["meaning"], "cumulative gap", "&lt;in&gt;", "defaults"):
        assert wanted in page
