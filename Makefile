# From a fresh clone, python3 (3.11 or newer, with venv) and make are enough: `make test` or `make reproduce`.

PYTHON  ?= python3
VENV    := .venv
PY      := $(VENV)/bin/python
READY   := $(VENV)/.ready
EXTRAS  := dev,docs,plots,cluster
PIP     := $(PY) -m pip install -qq --disable-pip-version-check --constraint requirements.lock
PAGES   := *.md benchmarks docs src# folders are searched for Markdown
WORKERS ?= 3# test processes, one more than cores because some tests wait; 0 runs the tests in one
ARGS    ?=# passed on to `bqrl reproduce`

SHELL       := bash
.SHELLFLAGS := -euc
.DEFAULT_GOAL := help
.PHONY: help setup test test-all check lint format docs coverage reproduce bench lock clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## */make \1\t/' | expand -t 16

test: lint  ## set-up, linters and all tests except the longest; tests of the loops also run without compilation
	@echo "== tests"
	@$(PY) -m pytest -q -n $(WORKERS)
	@if [ -d tests/loops ]; then echo "== tests of the loops, interpreted"; NUMBA_DISABLE_JIT=1 $(PY) -m pytest -q tests/loops; fi

test-all: export BQRL_FUZZ ?= 10000
test-all: export HYPOTHESIS_PROFILE ?= all
test-all: export PYTEST_ADDOPTS = -m ""
test-all: test  ## the same with the longest tests, more random examples and 10,000 mutated inputs per loader

reproduce: setup  ## set-up and the whole numerical study; ARGS="--quick" for a short one
	@echo "== reproduce"
	@$(VENV)/bin/bqrl reproduce $(ARGS)

check: lint  ## linters and the quick tests
	@echo "== quick tests"
	@$(PY) -m pytest -q -n $(WORKERS) -m "not slow and not nightly"

docs: setup  ## the site, in build/site; warnings are errors
	@echo "== docs"
	@$(PY) docs/make_site.py build/site
	@echo "open build/site/index.html"

coverage: setup  ## all tests except the longest, with the share of lines that they run
	@$(PY) -m pytest -q -n $(WORKERS) --cov --cov-report=term

lint: setup  ## ruff, mypy, import-linter, codespell, mdformat
	@echo "== ruff"
	@$(PY) -m ruff check
	@$(PY) -m ruff format --check
	@echo "== mypy"
	@$(PY) -m mypy
	@echo "== import-linter"
	@$(VENV)/bin/lint-imports --no-logo
	@echo "== codespell"
	@$(VENV)/bin/codespell
	@echo "== mdformat"
	@$(VENV)/bin/mdformat --check $(PAGES)

format: setup  ## code and Markdown pages, formatted
	@$(PY) -m ruff format
	@$(VENV)/bin/mdformat $(PAGES)

bench: setup  ## every benchmark: times and prints, asserts nothing
	@for script in benchmarks/[!_]*.py; do \
		if [ -e "$$script" ]; then echo "== $$script"; $(PY) "$$script"; else echo "no benchmarks yet"; fi; done

setup: $(READY)  ## the virtual environment with the pinned versions

$(READY): pyproject.toml requirements.lock
	@command -v $(PYTHON) >/dev/null || { echo "bqrl needs Python 3.11 or newer; there is no '$(PYTHON)' here" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
		|| { echo "bqrl needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Try: make $(MAKECMDGOALS) PYTHON=python3.11" >&2; exit 1; }
	@echo "== set-up: $$($(PYTHON) --version) in $(VENV)"
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) >/dev/null 2>&1 \
		|| { echo "could not create $(VENV): $(PYTHON) needs its venv module (Debian: python3-venv)" >&2; exit 1; }
	@echo "== set-up: pinned versions"
	@$(PIP) hatchling editables
	@$(PIP) --no-build-isolation --editable '.[$(EXTRAS)]'
	@$(PIP) --only-binary stormpy stormpy 2>/dev/null \
		|| echo "   stormpy not installed (most likely no wheel for this Python and platform): the tests against Storm will be skipped"
	@$(PIP) --no-deps icu-sepsis==2.0.1 2>/dev/null \
		|| echo "   icu-sepsis not installed: the problem ICUSepsis has no data, and its tests will be skipped"
	@touch $(READY)

lock: setup  ## renew requirements.lock with the newest versions
	@$(PY) tools/lock.py

clean:  ## remove the virtual environment and every cache
	@rm -rf $(VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	@find src tests benchmarks examples tools -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true
