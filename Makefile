# Everything is installed into .venv from the lock files; nothing but python3 and make has to be there.
# The configuration and environment of pip apply; what uv does not read of them itself is handed on.

PYTHON ?= python3
UV_VERSION := 0.13.9
ARGS ?=
MINUTES ?= 60
CUTS ?= 1000000

BIN := .venv/bin
UV_READY := .venv/.uv-$(UV_VERSION)
RUN_READY := .venv/.ready-run
DEV_READY := .venv/.ready-dev

MIRROR = UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(BIN)/python -m pip config get global.index-url 2>/dev/null)}}"
UV_PIP = $(MIRROR) $(BIN)/uv pip
LOCK = $(BIN)/uv pip compile --quiet --generate-hashes --universal --python-version 3.11 --no-header \
	--no-emit-index-url --no-emit-find-links $(ARGS) pyproject.toml

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install run run-cpu test test-vllm test-page test-nginx test-redis test-postgres check fmt bench-micro bench-load chaos fuzz lock clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' Makefile

install: $(DEV_READY) ## install everything that development needs

run: $(RUN_READY) ## serve on 127.0.0.1:8080, with simulated engines if none is configured (ARGS="--port 9000")
	$(BIN)/tokenlane serve $(ARGS)

run-cpu: $(RUN_READY) ## serve a small real model with vLLM on the CPU
	$(BIN)/python scripts/vllm_cpu/run.py $(ARGS)

test: $(DEV_READY) ## run the tests (ARGS="-k buffer")
	$(BIN)/python -m pytest -p no:benchmark -n 2 --dist loadfile $(ARGS)

test-vllm: $(DEV_READY) ## run the tests against the real vLLM of `make run-cpu`
	$(BIN)/python -m pytest -m vllm tests/e2e $(ARGS)

test-page: $(DEV_READY) ## run the tests of the page in a real browser (needs chromium)
	$(BIN)/python -m pytest -m page tests/page $(ARGS)

test-nginx: $(DEV_READY) ## run the tests behind a real nginx (needs nginx)
	$(BIN)/python -m pytest -m nginx tests/service $(ARGS)

test-redis: $(DEV_READY) ## run the tests of limits that gateways share (needs redis-server)
	$(BIN)/python -m pytest -m redis tests/service $(ARGS)

test-postgres: $(DEV_READY) ## run the tests of batches against a real PostgreSQL (apt-get install postgresql)
	$(BIN)/python -m pytest -m postgres tests/unit tests/service $(ARGS)

check: $(DEV_READY) ## look at format, lint, types and dependency rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt: $(DEV_READY) ## format, and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench-micro: $(DEV_READY) ## measure the hot paths
	$(BIN)/python -m pytest benchmarks/micro --benchmark-only $(ARGS)

bench-load: $(DEV_READY) ## measure what the buffer does to streams, and what tokenlane costs beside nginx
	$(BIN)/python -m benchmarks.load.buffer $(ARGS)
	$(BIN)/python -m benchmarks.load.peers $(ARGS)

chaos: $(DEV_READY) ## an hour of failing engines and odd clients (MINUTES=10)
	$(BIN)/python -m benchmarks.chaos --minutes $(MINUTES) $(ARGS)

fuzz: $(DEV_READY) ## a million cuts of the event decoder and as many of the relay (CUTS=100000)
	$(BIN)/python -m tests.fuzz --cuts $(CUTS) $(ARGS)

lock: $(UV_READY) ## write the lock files anew after a change in pyproject.toml (ARGS=--upgrade)
	@$(MIRROR) $(LOCK) --group build --output-file requirements.lock
	@$(MIRROR) $(LOCK) --group dev --output-file requirements-dev.lock

clean: ## remove .venv and all caches
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .benchmarks dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(UV_READY):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "tokenlane needs Python 3.11 or newer; name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "python3 -m venv failed; Debian and Ubuntu have it in python3-venv" >&2; exit 1; }
	@echo "making .venv"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

# The development lock holds all of the other, so it satisfies both; the other one alone removes the tools.
$(RUN_READY): requirements.lock pyproject.toml | $(UV_READY)
	@echo "installing requirements.lock"
	@rm -f $(DEV_READY)
	@$(UV_PIP) sync --quiet --python $(BIN)/python --require-hashes requirements.lock
	@$(UV_PIP) install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV_READY): requirements-dev.lock pyproject.toml | $(UV_READY)
	@echo "installing requirements-dev.lock"
	@$(UV_PIP) sync --quiet --python $(BIN)/python --require-hashes requirements-dev.lock
	@$(UV_PIP) install --quiet --python $(BIN)/python --no-deps --no-build-isolation --editable .
	@touch $(RUN_READY) $@
