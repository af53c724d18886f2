# `make demo` and `make test` each work from an empty checkout; both make .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test quick lint install clean

demo: $(VENV)/.installed
	$(BIN)/ffn-export build bert-ffn

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report=term:skip-covered --cov-fail-under=90

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
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage*
