# drctl: `make demo` and `make test` do all their own set-up on a fresh machine.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
# Files side by side; tests/side_by_side.py says which go first, and which never at once.
BY_FILE := --dist loadfile --no-loadscope-reorder
FOUR := -n 4 $(BY_FILE)
# Each process collects all 7,000 tests: where little is waited for, more than cores cost more.
CORES := -n logical $(BY_FILE)
FAST := "not jvm and not browser and not endpoints and not slow and not nightly"
# Every test process imports 500 modules, and pytest rewrites their asserts: once, not each time.
export PYTHONDONTWRITEBYTECODE :=
MINUTES ?= 30

.PHONY: help install demo test test-nightly tools test-fast coverage soak bench lint site format picture lock clean

help:  ## what the targets do
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /|/' | column -t -s '|'

install: .venv/installed  ## set up .venv with the drctl command in it; check for Java
	@scripts/ensure-java
	@$(BIN)/python -m scripts.record_classes spark

.venv/installed: locks/build.lock locks/dev.lock pyproject.toml scripts/create-venv
	@PYTHON=$(PYTHON) scripts/create-venv

demo: install  ## the story on two real Kafka clusters: lose records, find exactly which
	@$(BIN)/drctl lab run lost-primary

test: tools  ## on real clusters and in a real browser; all but what takes a night
	$(BIN)/pytest tests $(FOUR) -m "not nightly"

test-nightly: tools  ## what `make test` leaves out: killed at every step, clusters of Spark, soak
	$(BIN)/pytest tests $(FOUR) -m nightly

tools: install
	@scripts/ensure-browser
	@scripts/ensure-endpoints
	@scripts/ensure-promtool
	@$(BIN)/python -m scripts.record_classes lab

test-fast: export TEST_DEPTH := quick
test-fast: install  ## in half a minute: what needs neither JVM nor broker nor browser
	$(BIN)/pytest tests $(CORES) -m $(FAST)

coverage: install  ## lines and branches that the fast tests take, each case tried; a table by package
	$(BIN)/coverage run -m pytest tests -q -m $(FAST)
	@$(BIN)/python scripts/coverage-table

soak: install  ## failovers and failbacks with random faults, for MINUTES (else 30); SEED repeats
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(BROKERS),--brokers $(BROKERS))

bench: install  ## measure beside named baselines, into bench/results
	$(BIN)/python -m bench

lint: install  ## ruff, mypy --strict, import-linter, links of the documentation
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --quiet --strict

site: install  ## the documentation as HTML, into site/
	$(BIN)/mkdocs build --strict

format: install  ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

picture:  ## PAGE (HTML that drctl made) as PICTURE (docs/images/NAME.png) of SIZE (1180,1330)
	@scripts/take-picture $(PAGE) $(PICTURE) $(SIZE)

lock:  ## resolve the locks again (needs uv on the path)
	printf 'editables\nhatchling==1.33.0\nsetuptools\nwheel\n' | uv pip compile - --generate-hashes --universal --python-version 3.11 --no-header --no-annotate -o locks/build.lock
	uv pip compile pyproject.toml --extra lab --group dev --generate-hashes --universal --python-version 3.11 --no-header --no-annotate --no-emit-package numpy --no-emit-package pandas -o locks/dev.lock

clean:  ## remove what install and the tests made (not the download cache)
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist site
