# Everything runs from .venv, which `make setup` makes and keeps up to date.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
BIN := .venv/bin
MODULES := lakemq tests benchmarks
# One process has all tests with Spark, the other those that start a Spark of their own, and both have the rest. Coverage is
# asked of the pure rules.
WORKERS := 2
ALL_TESTS := -n $(WORKERS) --no-loadscope-reorder --cov --cov-report=term --cov-fail-under=100

.PHONY: help setup demo fleet run test long lint rules types tests bench chaos crash fuzz mutate audit lock docs wheel wheels clean

help: ## what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /\1\t/' | expand -t 8

setup: ## .venv with the command lakemq, Java and Spark's jars; seconds when it is all there
	@scripts/setup.sh

demo: setup ## 336,776 flights through the log, the gateway and the lake, checked; it stays in demo/
	@rm -rf demo
	@$(BIN)/lakemq demo --data-dir demo $(ARGS)

fleet: setup ## brokers with replicas, name servers, etcd and jobs; a leader is killed, all is checked; it stays in fleet/
	@rm -rf fleet
	@$(BIN)/lakemq fleet --data-dir fleet $(ARGS)

run: setup ## the gateway and all jobs, until Ctrl-C
	@$(BIN)/lakemq up $(ARGS)

test: setup rules ## all checks: lint, the tests, the coverage that is asked for
	@$(MAKE) --no-print-directory -j 2 types tests

long: setup ## the tests that `make test` leaves out because they take too long; ARGS="tests/jobs"
	$(BIN)/pytest -n $(WORKERS) --no-loadscope-reorder -m long $(ARGS)

lint: rules ## ruff, pyright strict, import-linter, deptry
	@$(MAKE) --no-print-directory types

rules: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/deptry .

# Takes one core for a minute, so `make test` runs it beside the tests, of which many wait.
types:
	$(BIN)/pyright

tests:
	$(BIN)/pytest $(ORDER) $(or $(ARGS),$(ALL_TESTS))

bench: setup ## the figures of docs/benchmarks.md, measured here
	$(BIN)/python -m benchmarks $(ARGS)

chaos: setup ## mixed load under mixed faults, its history checked; ARGS="--minutes 120"
	@$(BIN)/python -m tests.chaos $(ARGS)

crash: setup ## kills and power cuts; ARGS="--minutes 60 --parts kills,power"
	@$(BIN)/python -m tests.reliability.crash $(ARGS)

fuzz: setup ## malformed requests, bodies and logs; ARGS="--minutes 60"
	@$(BIN)/python -m tests.reliability.fuzz $(ARGS)

mutate: setup ## mutation score of the log's format and recovery, or of the files in ARGS="recovery"
	@scripts/mutate.sh $(ARGS)

audit: setup ## known vulnerabilities of what is locked; asks a service on the network
	$(BIN)/pip-audit --strict --require-hashes --disable-pip -r requirements.lock

lock: setup ## resolve requirements.lock anew from pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --all-extras --generate-hashes --no-header \
	  --no-annotate --no-emit-index-url --python-version 3.11 -o requirements.lock

docs: setup ## the documentation as a site, in site/html; no page of it needs a network
	@$(BIN)/python -m tests.docs.site --version "$(VERSION)"

wheel: setup ## dist/lakemq-….whl, to be installed without this folder
	@$(BIN)/python -m hatchling build -t wheel -d dist

wheels: setup ## the wheel in an empty environment, with none and with each of its extras; minutes
	@$(BIN)/python -m tests.packaging.wheels $(ARGS)

clean: ## everything made here, but never data/ and lake/
	rm -rf .venv dist site artifacts demo fleet .coverage .coverage.* .pytest_cache .ruff_cache .hypothesis \
	  .import_linter_cache spark-warehouse metastore_db derby.log
	find lakemq tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
