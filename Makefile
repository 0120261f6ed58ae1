# `make demo` and `make test` need Python 3.11 or newer, make, and the package registries; nothing else.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/stamps
WORKERS ?= 2
TESTS  ?=

.DEFAULT_GOAL := help
.PHONY: help demo test lint build-check bench soak clean

help:
	@echo "make demo         install into $(VENV) and watch proposals being decided"
	@echo "make test         install what the tests need and run all of them"
	@echo "make lint         ruff, mypy, pyright and the import contract"
	@echo "make build-check  sdist, wheel from it, installed elsewhere, conformance suite run there"
	@echo "make bench        the benchmarks, each beside its floor"
	@echo "make soak         the long tests"
	@echo "make clean        remove everything made here"

demo: $(STAMP)/run
	@$(BIN)/memsmith demo

test: $(STAMP)/dev $(STAMP)/strace $(STAMP)/postgres
	@$(BIN)/python tools/run_tests.py -n $(WORKERS) $(TESTS)

lint: $(STAMP)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports --config importlinter.toml

build-check: $(STAMP)/dev
	@$(BIN)/python tools/build_check.py

bench: $(STAMP)/dev
	@$(BIN)/python -m benchmarks

soak: $(STAMP)/dev $(STAMP)/strace $(STAMP)/postgres
	@$(BIN)/python -m pytest -m soak $(TESTS)

clean:
	rm -rf $(VENV) build dist .bench .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	rm -f .coverage .coverage.*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- what the targets stand on ---------------------------------------------------------------------

# An install is editable, so only pyproject.toml makes it out of date.
$(STAMP)/venv:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and "memsmith needs Python 3.11 or newer, found %d.%d: make PYTHON=python3.11" % v[:2])'
	$(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMP) && touch $@

$(STAMP)/run: $(STAMP)/venv pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[secrets]'
	@touch $@

$(STAMP)/dev: $(STAMP)/venv pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@ $(STAMP)/run

# The crash tests watch system calls. Where strace can't be had they fail and name it.
$(STAMP)/strace: | $(STAMP)/venv
	@if ! command -v strace >/dev/null && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y strace >/dev/null || true; \
	fi
	@if command -v strace >/dev/null; then touch $@; else echo "strace is missing: the crash tests will fail"; fi

# The conformance suite runs on the system's PostgreSQL beside the wheel's. Where it can't be had, its
# tests fail and say so. Installing it makes no server of its own.
$(STAMP)/postgres: | $(STAMP)/venv
	@if ! ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 && command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
		mkdir -p /etc/postgresql-common && \
		{ [ -e /etc/postgresql-common/createcluster.conf ] || echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf; } && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
			-o Dpkg::Options::=--force-confold postgresql >/dev/null || true; \
	fi
	@if ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1; then touch $@; \
	else echo "PostgreSQL is missing on this system: the tests that run on it will fail"; fi
