import ast
import doctest
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import bqrl
from bqrl.planners.solve import SOLVERS

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
PACKAGE = ROOT / "src" / "bqrl"
MODULES = {path.relative_to(PACKAGE): path for path in sorted(PACKAGE.rglob("*.py"))}
HEAVY = {
    "numba",
    "scipy",
    "altair",
    "vl_convert",
    "jinja2",
    "dask",
    "distributed",
    "stormpy",
    "torch",
    "pydantic",
    "filelock",
}


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


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"^module 'bqrl' has no attribute 'quantum'$"):
        bqrl.quantum  # noqa: B018


def test_lock_pins_every_dependency():
    lines = [line for line in (ROOT / "requirements.lock").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[\w.+!]+", line) for line in lines)  # exact versions, no addresses
    named = {canonical(r) for group in (PROJECT["dependencies"], *EXTRAS.values()) for r in group}
    missing = named - {line.split("==")[0] for line in lines} - {"bqrl"}
    assert not missing, f"run `make lock`: {missing}"


def test_every_module_has_its_test_file():
    modules = [path for path in MODULES if not path.name.startswith("__")]
    missing = [str(each) for each in modules if not (ROOT / "tests" / each.parent / f"test_{each.name}").exists()]
    assert not missing


def imported(node: ast.AST) -> list[str]:
    """The modules that a statement imports; a relative import is one of our own."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return ["bqrl" if node.level else node.module or ""] if isinstance(node, ast.ImportFrom) else []


def hidden_imports(code: str) -> list[str]:
    """Imports of our own modules that are not plain statements of the module, by the function or condition around them."""
    found = []
    for statement in ast.parse(code).body:
        inside = [name for node in ast.walk(statement) if node is not statement for name in imported(node)]
        found += [ast.unparse(statement).splitlines()[0] for name in inside if name.split(".")[0] == "bqrl"]
    return found


def test_hidden_imports_are_found():
    lazy = "def late():\n    from bqrl.mdp import model\n"
    typed = "if TYPE_CHECKING:\n    import numpy, bqrl.files\n"
    relative = "try:\n    from . import files\nexcept ImportError:\n    import rich\n"
    assert hidden_imports(f"from bqrl import MDP\n{lazy}{typed}{relative}") == [
        "def late():",
        "if TYPE_CHECKING:",
        "try:",
    ]


def test_our_modules_import_one_another_at_the_top():
    """Lazy are the hook from objects to the code that shows them, and the base class of the kinds of policy; two are types."""
    hidden = {(str(name), where) for name, path in MODULES.items() for where in hidden_imports(path.read_text())}
    assert hidden == {
        ("display.py", "def views() -> ModuleType:"),
        ("policies/protocol.py", "if TYPE_CHECKING:"),  # the kinds that its methods return
        ("results/words.py", "if TYPE_CHECKING:"),  # plans are shown without the code of learners
        ("policies/protocol.py", "class Policy(Displayed, ABC):"),  # the modules of these kinds define subclasses of it
    }


POSITIONAL = {"Law"}  # built as Law(values, probabilities)
POSITIONAL |= {kind.__name__ for one in SOLVERS for kind in one.objectives}  # built as CVaR(0.1)
POSITIONAL |= {"ResultTable", "Sentence"}  # their rows and their text come first, everything else by keyword


def positional_records(code: str) -> list[str]:
    """The dataclasses of a module that can be built by position."""
    classes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.ClassDef)]
    return [
        each.name
        for each in classes
        for decorator in map(ast.unparse, each.decorator_list)
        if decorator.split("(")[0].endswith("dataclass") and "kw_only=True" not in decorator
    ]


def test_positional_records_are_found():
    code = "@dataclass(frozen=True)\nclass A: ...\n@dataclass(kw_only=True)\nclass B: ...\n@dataclass\nclass C: ...\n"
    assert positional_records(code) == ["A", "C"]


def test_records_are_built_by_keyword():
    assert {name for path in MODULES.values() for name in positional_records(path.read_text())} == POSITIONAL


DOCUMENTED = [name for name, path in MODULES.items() if ">>> " in path.read_text()]


@pytest.mark.parametrize("name", DOCUMENTED, ids=str)
def test_examples_in_docstrings_print_what_they_say(name):
    module = importlib.import_module(".".join(("bqrl", *name.with_suffix("").parts)))
    assert doctest.testmod(module).failed == 0


def test_every_benchmark_imports():
    names = [path.stem for path in (ROOT / "benchmarks").glob("*.py")]
    in_fresh_python(f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); import {', '.join(names)}")


def test_the_benchmark_of_trade_offs_measures_a_problem(monkeypatch):
    """Once it asked a trade-off for a field that had another name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    row = importlib.import_module("tradeoff").measure("small", bqrl.envs.make("SafeOrRisky"), 0.1)
    assert 0.0 <= row["largest gap"] <= 1.0


def test_the_benchmarks_of_learners_draw_their_runs(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    growth, suite = importlib.import_module("regret_growth"), importlib.import_module("learner_suite")
    runs = [
        {"problem": problem, "tau": tau, "learner": learner, "seed": seed, "seconds": 1.0, "regret": [1.0, 2.0 + seed]}
        for problem, tau in growth.CHOSEN
        for learner in growth.LEARNERS
        for seed in (1, 2)
    ]
    assert len(growth.draw(runs, np.array([200, 2000])).to_dict()["concat"]) == 4
    titles = list(suite.LEARNERS)
    runs = [{"problem": "bandit", "tau": 0.5, "learner": title, "share": 0.3, "last": 0.2} for title in titles]
    suite.profile(runs, titles, tmp_path)
    assert all(title in (tmp_path / "shares.csv").read_text() for title in titles)
    assert "What each learner loses on each row" in (tmp_path / "index.html").read_text(encoding="utf-8")
