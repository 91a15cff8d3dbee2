# drctl: `make demo` and `make test` set up everything that they need.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
# Files run in parallel; tests/side_by_side.py decides which start first and which never overlap.
BY_FILE := --dist loadfile --no-loadscope-reorder
FOUR := -n 4 $(BY_FILE)
# Each process collects all tests: without waiting, more processes than cores are slower.
CORES := -n logical $(BY_FILE)
FAST := "not jvm and not browser and not endpoints and not slow and not nightly"
# Keep bytecode: every test process imports 500 modules, whose asserts pytest rewrites.
export PYTHONDONTWRITEBYTECODE :=
MINUTES ?= 30

.PHONY: help install demo test test-nightly test-releases tools test-fast coverage soak bench lint site format picture lock clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /|/' | column -t -s '|'

install: .venv/installed  ## set up .venv with the drctl command in it; check for Java
	@scripts/ensure-java
	@$(BIN)/python -m scripts.record_classes spark

.venv/installed: locks/build.lock locks/dev.lock pyproject.toml scripts/create-venv
	@PYTHON=$(PYTHON) scripts/create-venv

demo: install  ## lose a primary on two real Kafka clusters, find the unreplicated records, fail back
	@$(BIN)/drctl lab run lost-primary

test: tools  ## run the tests on real clusters and in a real browser, except the nightly ones
	$(BIN)/pytest tests $(FOUR) -m "not nightly"

test-nightly: tools  ## run the nightly tests: kills at every step, Spark clusters, soak
	$(BIN)/pytest tests $(CORES) -m nightly

test-releases: tools  ## run the matrix of Kafka releases (an hour), and record it in docs/reference/versions.md
	$(BIN)/python -m tests.releases

tools: install
	@scripts/ensure-compiler
	@scripts/ensure-browser
	@scripts/ensure-endpoints
	@scripts/ensure-promtool
	@$(BIN)/python -m scripts.record_classes lab

test-fast: export TEST_DEPTH := quick
test-fast: install  ## run the tests without JVM, broker and browser, in about a minute
	$(BIN)/pytest tests $(CORES) -m $(FAST)

coverage: install  ## print the line and branch coverage of the fast tests by package
	$(BIN)/coverage run -m pytest tests -q -m $(FAST)
	@$(BIN)/python scripts/coverage-table

soak: install  ## run failovers and failbacks with random faults for MINUTES (30); SEED repeats one
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(BROKERS),--brokers $(BROKERS))

bench: install  ## measure speed and memory, and compare with baselines; results in bench/results
	$(BIN)/python -m bench

lint: install  ## run ruff, mypy --strict, import-linter and mkdocs
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/mkdocs build --quiet --strict

site: install  ## build the documentation as HTML in site/
	$(BIN)/mkdocs build --strict

format: install  ## format the code, and fix what ruff can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

picture:  ## save PAGE (an HTML report) as PICTURE (docs/images/NAME.png) of SIZE (1180,1330)
	@scripts/take-picture $(PAGE) $(PICTURE) $(SIZE)

lock:  ## resolve the locks again (needs uv)
	printf 'editables\nhatchling==1.33.0\nsetuptools\nwheel\n' | uv pip compile - --generate-hashes --universal --python-version 3.11 --no-header --no-annotate -o locks/build.lock
	uv pip compile pyproject.toml --extra lab --group dev --generate-hashes --universal --python-version 3.11 --no-header --no-annotate --no-emit-package numpy --no-emit-package pandas -o locks/dev.lock

clean:  ## remove everything created by install and the tests, except downloads
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist site
