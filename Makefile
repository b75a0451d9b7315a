# Two commands matter: `make demo` and `make test`. Each makes the environment it needs.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Each test worker keeps to one core, so that two workers do not fight over two cores.
TEST_ENVIRONMENT := OMP_NUM_THREADS=1 MPLBACKEND=Agg

.DEFAULT_GOAL := help
.PHONY: help demo test quick torch lowest lint types check docs dist installed bench faults fuzz zoo results notebooks clean

help: ## list the commands
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-9s %s\n", $$1, $$2}'

demo: $(INSTALLED) ## watch TDE-GNN find that a pendulum is a second-order system
	@$(BIN)/tdegnn demo

test: lint types check ## lint, types and tests

quick: lint types ## lint, types and the fast tests: after every change
	@$(TEST_ENVIRONMENT) $(BIN)/pytest -n auto -q -m 'not slow'

lint: $(INSTALLED)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(INSTALLED)
	@$(BIN)/mypy

check: $(INSTALLED)
	@$(TEST_ENVIRONMENT) $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

# The ends of the range in pyproject.toml are tested so; constraints.txt pins one version in between.
torch: ## all tests under another torch: make torch TORCH=2.15.0
	@test -n '$(TORCH)' || { echo 'Expected a version of torch, as in: make torch TORCH=2.15.0'; exit 2; }
	@$(PYTHON) -m venv .venv-torch
	@grep -v '^torch==' constraints.txt > .venv-torch/constraints.txt
	@.venv-torch/bin/python -m pip install --quiet --constraint .venv-torch/constraints.txt 'torch==$(TORCH)' --editable '.[dev]'
	@$(TEST_ENVIRONMENT) .venv-torch/bin/pytest -n auto --dist loadfile --no-loadscope-reorder

# Test tools are not at their lowest: only what users install is. Old versions of packages warn about each other.
lowest: ## all tests with the lowest versions of dependencies that pyproject.toml allows
	@$(PYTHON) -m venv .venv-lowest
	@.venv-lowest/bin/python -m pip install --quiet uv
	@.venv-lowest/bin/uv pip compile --quiet --resolution lowest-direct --output-file .venv-lowest/constraints.txt pyproject.toml
	@.venv-lowest/bin/uv pip install --quiet --python .venv-lowest/bin/python --constraint .venv-lowest/constraints.txt --editable '.[dev]'
	@$(TEST_ENVIRONMENT) .venv-lowest/bin/pytest -n auto --dist loadfile --no-loadscope-reorder \
		-W ignore::DeprecationWarning -W ignore::FutureWarning

docs: $(INSTALLED) ## build the documentation site into site/; dead links are errors
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo 'Read it: site/index.html'

dist: $(INSTALLED) ## build and check source archive and wheel; writes dist/
	@rm -rf dist
	@$(BIN)/python -m tests.distribution dist

installed: ## run the wheel of dist/ from a clean environment: make installed PYTHON=python3.12
	@rm -rf .venv-installed
	@$(PYTHON) -m venv .venv-installed
	@.venv-installed/bin/python -m pip install --quiet dist/tdegnn-*.whl
	@$(PYTHON) -P tests/smoke.py .venv-installed

bench: $(INSTALLED) ## measure speed; writes benchmarks/latest.json
	@$(BIN)/python -m benchmarks

faults: $(INSTALLED) ## kill, fill disks, race; writes results/faults.json and docs/reliability.md
	@$(TEST_ENVIRONMENT) $(BIN)/python -m tests.faults

MINUTES ?= 30
fuzz: $(INSTALLED) ## random and damaged inputs: make fuzz MINUTES=30 [SEED=7]
	@$(TEST_ENVIRONMENT) $(BIN)/python -m tests.faults.fuzz --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

zoo: $(INSTALLED) ## write our numbers into the package, and the tables of docs/zoo.md
	@$(BIN)/python -m tests.zoo

results: $(INSTALLED) ## write the tables of results/README.md and docs/honest_benchmarks.md
	@$(BIN)/python -m tests.results_page

notebooks: $(INSTALLED) ## run the notebooks of examples/ and write their outputs
	@$(BIN)/python -m tests.notebooks

# The environment is made anew whenever what it is made from changes.
$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("Expected Python 3.11 or newer, got %d.%d. Try: make PYTHON=python3.12 demo" % v[:2])'
	@echo "Setting up $(VENV) (once; a few minutes at most) ..."
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $@

clean: ## remove the environment and caches
	rm -rf $(VENV) .venv-torch .venv-lowest .venv-installed site dist .mypy_cache .pytest_cache .ruff_cache
