import doctest
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import bqrl

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
HEAVY = {"numba", "scipy", "altair", "vl_convert", "jinja2", "dask", "distributed", "stormpy", "torch"}


def in_fresh_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout


def canonical(requirement: str) -> str:
    name = re.match(r"[\w.-]+", requirement)
    assert name, requirement
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def test_import_loads_nothing_heavy():
    loaded = json.loads(in_fresh_python("import bqrl, json, sys; dir(bqrl); print(json.dumps(list(sys.modules)))"))
    assert HEAVY.isdisjoint(loaded)


def test_import_registers_the_environments_once():
    twice = "import warnings; warnings.simplefilter('error'); import bqrl, importlib; importlib.reload(bqrl)"
    spec = in_fresh_python(f"{twice}; import gymnasium; print(gymnasium.spec('bqrl/AssetSelling-v0').kwargs)")
    assert spec == "{'name': 'AssetSelling'}\n"


def test_lazy_table_and_public_names_agree():
    assert {*bqrl._HOME, *bqrl._MODULES} == set(bqrl.__all__)
    assert set(bqrl.__all__) <= set(dir(bqrl))


@pytest.mark.parametrize("name", bqrl.__all__)
def test_public_name_exists(name):
    assert getattr(bqrl, name) is getattr(bqrl, name)


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'bqrl' has no attribute 'quantum'$"):
        bqrl.quantum  # noqa: B018


def test_lock_pins_every_dependency():
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.+!]+", line) for line in lines)  # exact versions, no addresses
    named = {canonical(r) for group in (PROJECT["dependencies"], *EXTRAS.values()) for r in group}
    missing = named - {line.split("==")[0] for line in lines} - {"bqrl"}
    assert not missing, f"run `make lock`: {missing}"


def test_all_is_plots_cluster_and_tensorboard():
    assert EXTRAS["all"] == ["bqrl[plots,cluster,tensorboard]"]


def test_every_module_has_its_test_file():
    package = ROOT / "src" / "bqrl"
    modules = [path.relative_to(package) for path in package.rglob("*.py") if not path.name.startswith("__")]
    missing = [str(each) for each in modules if not (ROOT / "tests" / each.parent / f"test_{each.name}").exists()]
    assert not missing


DOCUMENTED = [path for path in sorted((ROOT / "src" / "bqrl").rglob("*.py")) if ">>> " in path.read_text()]


@pytest.mark.parametrize("path", DOCUMENTED, ids=lambda path: str(path.relative_to(ROOT / "src" / "bqrl")))
def test_examples_in_docstrings_print_what_they_say(path):
    module = importlib.import_module(".".join(path.relative_to(ROOT / "src").with_suffix("").parts))
    assert doctest.testmod(module).failed == 0


def test_every_benchmark_imports():
    names = [path.stem for path in (ROOT / "benchmarks").glob("*.py")]
    in_fresh_python(f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); import {', '.join(names)}")
