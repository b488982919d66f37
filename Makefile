# Penstock: every target sets up what it needs; `make help` lists them.
PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/python -m uv
STAMP := .venv/.installed
# uv trusts the certificates of this machine, where it has any, as pip does: a company's proxy may have its own.
export UV_SYSTEM_CERTS := $(if $(wildcard /etc/ssl/certs/ca-certificates.crt),true,false)
# Python keeps what it compiled, on machines that say otherwise too: pytest would rewrite every test file in every process.
export PYTHONDONTWRITEBYTECODE :=
# The folders of tests on Spark: to look for them in all tests takes longer. tests/conftest.py refuses a test elsewhere.
ON_SPARK := tests/spark tests/faults tests/e2e tests/kinds
.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-fast test-spark test-deep coverage lint fmt types bench bench-eventlog bench-staging bench-cdc bench-erasure bench-loads bench-backfill bench-cutoff docs lock clean

help: ## List the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

setup: $(STAMP) java ## Make .venv with everything in it (and a Java, where apt can give one)

$(STAMP): pyproject.toml requirements/dev.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check "uv>=0.9"
	@$(UV) pip install --quiet --compile-bytecode --python $(BIN)/python --require-hashes -r requirements/dev.lock
	@$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
	@$(BIN)/python -m compileall -q src
	@touch $(STAMP)

java: ## Make sure that a Java is there
	@$(BIN)/python -c 'from penstock.session.java import find_java; find_java()' 2>/dev/null || \
	  { command -v apt-get >/dev/null && apt-get update -qq && apt-get install -y -qq openjdk-17-jre-headless >/dev/null; } || \
	  { echo "Java 17 or 21 is needed: install it, or set JAVA_HOME"; exit 1; }

demo: setup ## A guided tour on this machine: init, run, new files, drift, a change feed, an erasure, a database
	@$(BIN)/penstock demo

test: setup ## All tests that belong to every change, and how long they took
	@began=$$(date +%s); $(MAKE) --no-print-directory test-fast && $(MAKE) --no-print-directory test-spark; ended=$$?; \
	  took=$$(($$(date +%s) - began)); echo "make test: $$((took / 60)) min $$((took % 60)) s"; exit $$ended

test-fast: setup ## The tests without Spark, in three processes: some wait for servers that hang (the S3 server runs on Java)
	$(BIN)/pytest -n 3 --durations=25 -m "not spark and not deep" --ignore=tests/spark

test-spark: setup ## The tests on Spark, in two processes: planning a small query keeps one core busy at most
	$(BIN)/pytest -n 2 --dist loadfile --durations=60 -m "spark and not deep" $(ON_SPARK)

test-deep: setup ## Long tests, before a release
	$(BIN)/pytest -n 2 --dist loadfile --durations=10 -m "deep"

coverage: setup ## Which lines and branches of the event log the tests without Spark reach
	$(BIN)/pytest -n 2 -m "not spark and not deep" --cov=penstock.eventlog --cov-branch --cov-report=term:skip-covered

lint: $(STAMP) ## Style, types, layering, that every test can be imported, and that generated files are up to date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(BIN)/pytest --collect-only -qqq >.venv/.collected 2>&1 || { cat .venv/.collected; exit 1; }

fmt: $(STAMP) ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

types: $(STAMP) ## Types only
	$(BIN)/mypy

bench: setup ## Measure: the no-op run over 50 tables, and the session's start
	$(BIN)/python benchmarks/no_op.py
	$(BIN)/python benchmarks/session_start.py

bench-eventlog: $(STAMP) ## Measure the event log: every query on every backend beside SQLite; prune and writers beside each other
	$(BIN)/python benchmarks/eventlog.py
	$(BIN)/python benchmarks/eventlog_writers.py

bench-staging: setup ## Measure staging: increments and drift beside a rebuild, appends beside plain Spark, plans
	$(BIN)/python benchmarks/staging.py

bench-cdc: setup ## Measure AutoCDC: batches beside a MERGE by hand and Spark 4.3's handlers, growth, many in a row
	$(BIN)/python benchmarks/cdc.py

bench-erasure: setup ## Measure erasure: hiding and removal beside Delta's commands, appends with suppressed keys, the residue scan
	$(BIN)/python benchmarks/erasure.py
	$(BIN)/python benchmarks/residue.py

bench-loads: setup ## Measure loads from PostgreSQL: whole tables beside bare Spark, increments beside a MERGE by hand, nothing new
	$(BIN)/python benchmarks/loads.py

bench-backfill: setup ## Measure backfills: 90 days beside a bare Spark job and one by one, a plan over 50,000 partitions, no-op job runs
	$(BIN)/python benchmarks/backfill.py

bench-cutoff: setup ## Measure early cut-off: what hashing rows costs while they are written, and what it saves below
	$(BIN)/python benchmarks/cutoff.py

docs: $(STAMP) ## Generate the command reference and the schema of penstock.yml
	$(BIN)/python -m penstock.config.json_schema > docs/penstock.schema.json
	$(BIN)/python -m penstock.cli.reference > docs/cli.md

lock: $(STAMP) ## Resolve the locked requirements again: Python's, and Azurite's for the tests
	$(UV) pip compile --quiet --universal --python-version 3.11 --extra dev --generate-hashes --no-header --no-emit-index-url --output-file requirements/dev.lock pyproject.toml
	$(BIN)/python -m tests.tools

clean: ## Remove the environment and caches of this checkout
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
