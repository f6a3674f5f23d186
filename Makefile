# `make demo` and `make test` work from a fresh clone. Each makes .venv when it is missing or older than
# pyproject.toml, and nothing else is needed: no activation, no environment variables.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Written last: an installation that failed or was interrupted leaves no stamp and is finished by the next make.
READY := $(VENV)/.ready

# Everything that is downloaded or rendered stays inside the clone.
export DMLTUNE_CACHE ?= $(CURDIR)/.cache
export RAY_USAGE_STATS_ENABLED := 0
export MLFLOW_DISABLE_TELEMETRY := true
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# A search is a dozen processes that import the package, and the tests are hundreds: each module is compiled once.
unexport PYTHONDONTWRITEBYTECODE

# make demo SEED=1 is the demo with other random numbers, under a name of its own.
SEED ?= 0
DEMO := demo$(if $(filter-out 0,$(SEED)),-$(SEED))

.PHONY: help demo test slow check audit mutants format clean
help:
	@echo 'make demo    a search of 12 trials on collages of characters, then the test classes (minutes)'
	@echo 'make test    the tests'
	@echo 'make slow    clusters, faulty workers and submitted jobs, which make test leaves out'
	@echo 'make check   ruff, mypy, and whether README.md and docs/ are true'
	@echo 'make audit   known vulnerabilities of the installed packages'
	@echo 'make mutants wrong signs and dropped terms, each of which a test must notice'
	@echo 'make format  let ruff lay out the code'
	@echo 'make clean   remove .venv and caches (runs in mlruns/ stay)'

demo: $(READY)
	$(BIN)/dmltune search collage-ccp-gsp --seed $(SEED) --name $(DEMO)
	$(BIN)/dmltune evaluate $(DEMO) --split test --compare

# In four lanes: three of the files that start Ray, and beside them all the rest (tests/conftest.py).
PYTEST_ARGS ?= -n 4 --no-loadscope-reorder --durations=20
test: $(READY)
	$(BIN)/python -m pytest $(PYTEST_ARGS)

slow: $(READY)
	DMLTUNE_SLOW=1 $(BIN)/python -m pytest -v tests/storage/test_clusters.py tests/storage/test_two_nodes.py \
	  tests/cli/test_submit.py tests/search/test_full_disk.py tests/train/test_nodes.py tests/train/test_worker_faults.py

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_readme.py tests/test_docs.py
	$(BIN)/python tests/audit.py

audit: $(READY)
	$(BIN)/python tests/audit.py

mutants: $(READY)
	$(BIN)/python tests/mutations.py

format: $(READY)
	$(BIN)/ruff check --fix-only -q .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))' \
	  || { echo "dmltune needs Python 3.11.4 or newer; $$($(PYTHON) --version) was found. Say make PYTHON=python3.11" >&2; exit 1; }
	rm -f $(READY)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[cpu,timm,pretrained,pml,serve,export,postgresql,dev]' --constraint constraints.txt
	touch $(READY)
