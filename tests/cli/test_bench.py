"""`bqrl bench`: the scripts of a checkout."""

import pytest
from helpers import one_line, strict

import bqrl.cli.bench
from bqrl.results.result import read


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with two benchmarks, one of which fails."""
    root = tmp_path / "checkout"
    (root / "benchmarks").mkdir(parents=True)
    (root / "pyproject.toml").touch()
    (root / "benchmarks" / "_shared.py").write_text("raise SystemExit(9)\n")
    (root / "benchmarks" / "quick.py").write_text("print('3 s ü')\n")
    (root / "benchmarks" / "wrong.py").write_text("import sys; print('oh', file=sys.stderr); sys.exit(4)\n")
    monkeypatch.setattr(bqrl.cli.bench, "__file__", str(root / "src" / "bqrl" / "cli" / "bench.py"))
    return root


def test_bench_runs_the_scripts_of_a_checkout(cli, checkout, tmp_path):
    code, out, err = cli("bench", "quick")
    assert (code, err) == (0, "")
    assert out.startswith("== quick\n3 s ü\nname   exit code ")
    assert out.splitlines()[-1].split()[:2] == ["quick", "0"]
    code, out, err = cli("bench", "--out", tmp_path / "o", "--json")
    assert code == 1
    assert err == "bqrl: failed: wrong\n"
    found = {one["name"]: one for one in strict(out)["benchmarks"]}
    assert set(found) == {"quick", "wrong"}
    assert (found["quick"]["code"], found["quick"]["output"]) == (0, "3 s ü\n")
    assert (found["wrong"]["code"], found["wrong"]["output"]) == (4, "oh\n")
    assert (tmp_path / "o" / "quick.txt").read_text(encoding="utf-8") == "3 s ü\n"
    assert [row["code"] for row in read(tmp_path / "o").tables["times"].rows] == [0, 4]
    code, out, err = cli("bench", "quik")
    assert (code, out) == (2, "")
    assert "did you mean 'quick'?" in err


def test_the_table_is_the_default_and_json_adds_it_to_a_history(cli, checkout):
    script = """
import json, pathlib, sys
assert sys.argv[1] == "--rows"
rows = [{"what": "sweep", "size": "S=5", "ratio": float(pathlib.Path("ratio").read_text())}]
pathlib.Path(sys.argv[2]).write_text(json.dumps(rows))
print("a table")
"""
    (checkout / "benchmarks" / "table.py").write_text(script)
    (checkout / "ratio").write_text("0.9")
    code, out, _ = cli("bench")
    assert (code, out.splitlines()[:2]) == (0, ["== table", "a table"])
    assert not (checkout / "benchmarks" / "history.jsonl").exists()
    for ratio, before in (("0.9", None), ("0.5", 0.9)):
        (checkout / "ratio").write_text(ratio)
        code, out, _ = cli("bench", "--json")
        (found,) = strict(out)["benchmarks"]
        assert found["lines"] == [{"what": "sweep", "size": "S=5", "ratio": float(ratio), "before": before}]
    history = (checkout / "benchmarks" / "history.jsonl").read_text().splitlines()
    assert [strict(line)["lines"][0]["ratio"] for line in history] == [0.9, 0.5]
    assert cli("bench", "all")[0] == 1  # the other script fails


def test_an_installed_package_has_no_benchmarks(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(
        bqrl.cli.bench, "__file__", str(tmp_path / "lib" / "site-packages" / "bqrl" / "cli" / "bench.py")
    )
    code, out, err = cli("bench")
    assert (code, out) == (2, "")
    assert one_line(err)
    assert "run bqrl bench in a clone" in err
