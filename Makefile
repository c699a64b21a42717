# Each target makes the environment .venv by itself and needs nothing but Python 3.10+, Java 17+ and pip's package index.
# native/ is built as well where Rust is installed, 1.87 or newer: without it librdkafka fetches.
#
#   make quickstart                          the main job, end to end, on real flights
#   make quickstart QUICKSTART_ARGS=--json   the same as data
#   make test                                every tier of the tests that this machine can run
#   make test TESTS=tests/unit               one tier, one file
#   make help                                all targets

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The first Python here that is new enough; PYTHON=/path/to/python3.12 chooses another. An environment that is there
# and sound is kept, whatever PYTHON says: `make clean` first to change its Python.
candidates := python3 python3.14 python3.13 python3.12 python3.11 python3.10
new_enough := import sys; sys.exit(sys.version_info < (3, 10))
PYTHON ?= $(shell for python in $(candidates); do $$python -c '$(new_enough)' 2>/dev/null && echo $$python && break; done)

QUICKSTART_ARGS ?=
TESTS ?=
PYSPARK ?=
PYTEST_ARGS ?=
BENCH_ARGS ?=
PYTHONS ?=
SEEDS ?= 1000000
CONSUMERS ?= 1
MINUTES ?= 10
CHAOS_ARGS ?= --seed 1 --minutes 10 --json build/chaos.json --svg build/chaos.svg
LONG_LIVED_ARGS ?= --minutes 30 --json build/long-lived.json

bin := .venv/bin
declared := pyproject.toml constraints.txt
native_sources := $(shell find native -type f -not -path 'native/target/*' -not -name Cargo.lock)
export CARGO_TARGET_DIR := $(CURDIR)/build/native

# $(call install,extra): pip is silent unless a person watches, for its log is long.
define install
$(bin)/python -c 'import pip; $(new_enough)' 2>/dev/null || $(MAKE) --no-print-directory environment
echo "installing legacy-consumer[$(1)] into .venv; the first time this downloads about 450 MB, mostly Spark" >&2
quiet=--quiet; if [ -t 2 ]; then quiet=; fi
$(bin)/python -m pip install $$quiet --disable-pip-version-check --no-input --use-pep517 -c constraints.txt -e '.[$(1)]' >&2 \
  || { echo "pip could not install legacy-consumer[$(1)]: see its message above, then run make again" >&2; exit 1; }
touch $@
endef

.NOTPARALLEL:
.PRECIOUS: build/pyspark-%
.PHONY: help environment .venv quickstart native native-check wheels test test-long check pythons lint style types format bench bench-all pins sbom simulate mutants fuzz chaos long-lived compose-up compose-demo compose-down image clean
.ONESHELL:

help: ## lists the targets
	@awk -F ':.*## ' '/^[a-z.-]+:.*## / { printf "make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

environment:
	@python='$(PYTHON)'
	if [ -z "$$python" ]; then
	  echo "no Python 3.10 or newer among: $(candidates). Install one, or name one: make PYTHON=/path/to/python3" >&2; exit 1
	fi
	"$$python" -c '$(new_enough)' 2>/dev/null \
	  || { echo "PYTHON=$$python is not a Python 3.10 or newer: name another, make PYTHON=/path/to/python3" >&2; exit 1; }
	"$$python" -m venv --clear .venv \
	  || { echo "$$python cannot make environments: install its venv module (Debian: apt install python3-venv)" >&2; exit 1; }

# What users need and what developers need on top of it; each made again when a declaration changes.
.venv/.quickstart: $(declared)
	@$(call install,quickstart)

.venv/.dev: $(declared)
	@$(call install,dev)
	touch .venv/.quickstart

.venv: .venv/.dev ## makes the environment for development

build/native-tools: Makefile
	@rm -rf $@
	$(PYTHON) -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check maturin==1.16.0

build/wheel-tools: Makefile
	@rm -rf $@
	$(PYTHON) -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check maturin==1.16.0 ziglang==0.15.2

# The native decoder, where there is a compiler for it; half a minute, and again only when native/ changes.
.venv/.native: $(native_sources) | .venv/.quickstart
	@if ! command -v cargo >/dev/null; then
	  echo "cargo is not installed, so native/ is not built and librdkafka fetches: install Rust (rustup), then run make again" >&2
	  exit 0
	fi
	if ! cargo --version >/dev/null 2>&1; then
	  echo "cargo has no toolchain, so native/ is not built and librdkafka fetches: run 'rustup default stable', then make" >&2
	  exit $${CI:+1}
	fi
	rm -rf build/native/wheels
	{ $(MAKE) --no-print-directory build/native-tools && \
	  build/native-tools/bin/maturin build --quiet --release --manifest-path native/Cargo.toml --out build/native/wheels; } >&2 \
	  || { echo "native/ could not be built, see above: librdkafka fetches (Rust 1.87 or newer builds it)" >&2; exit $${CI:+1}; }
	$(bin)/python -m pip install --quiet --disable-pip-version-check --no-deps --force-reinstall build/native/wheels/*.whl >&2
	touch $@

native: .venv/.native ## builds the native decoder into .venv; needs cargo

native-check: ## checks and tests the native decoder (HOSTILE_SECONDS=600: feeds it hostile bytes for that time); needs cargo
	@if ! command -v cargo >/dev/null; then echo "cargo is not installed, so native/ is not checked" >&2; exit 0; fi
	cargo fmt --check --manifest-path native/Cargo.toml
	cargo clippy --quiet --manifest-path native/Cargo.toml --all-targets --features python -- -D warnings
	cargo test --quiet --manifest-path native/Cargo.toml

# zig is a C compiler and a linker for every glibc. cargo itself needs the other processor's standard library.
wheels: build/wheel-tools .venv/.dev ## builds wheels of the native decoder for Linux on x86-64 and aarch64, for Python from 3.10 on, in dist/
	@mkdir -p dist
	rm -f dist/legacy_consumer_native-*
	export PATH="$(CURDIR)/build/wheel-tools/bin:$$PATH"
	for target in x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu; do
	  if [ ! -d "$$(rustc --print sysroot)/lib/rustlib/$$target" ]; then rustup target add "$$target"; fi
	  build/wheel-tools/bin/maturin build --quiet --release --manifest-path native/Cargo.toml --out dist \
	    --target "$$target" --zig --compatibility manylinux_2_17
	done
	build/wheel-tools/bin/maturin sdist --manifest-path native/Cargo.toml --out dist
	rm -rf build/wheel-check
	$(bin)/python -m venv build/wheel-check
	build/wheel-check/bin/pip install --quiet --disable-pip-version-check --no-index dist/legacy_consumer_native-*_"$$(uname -m)".whl
	build/wheel-check/bin/python -c 'import legacy_consumer_native as it; it.decode(b"", 0), print(it.__name__, it.__version__, "is installed and decodes")'
	# with everything else that the tests need behind it, and no compiler on PATH
	$(bin)/python -c 'import sys; print(*(path for path in sys.path if "-packages" in path), sep="\n")' \
	  >"$$(build/wheel-check/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/behind.pth"
	build/wheel-check/bin/python -c 'import legacy_consumer_native as it; assert "wheel-check" in it.__file__, it.__file__'
	env PATH=/usr/bin:/bin build/wheel-check/bin/python -m pytest -q tests/contract/test_fetchers_on_recordings.py tests/contract/test_fetcher_faults.py
	ls dist/legacy_consumer_native-*

quickstart: .venv/.quickstart .venv/.native ## runs a group of consumers on real servers and real data (QUICKSTART_ARGS=--json)
	@exec $(bin)/legacy-consumer quickstart $(QUICKSTART_ARGS)

# Another pyspark than the installed one, beside the environment: PYTHONPATH puts it first, in Spark's workers, too.
build/pyspark-%: .venv/.dev
	@echo "installing pyspark $* into $@: this downloads about 450 MB" >&2
	rm -rf $@ $@.part
	$(bin)/python -m pip install --quiet --disable-pip-version-check --no-input --no-deps --target $@.part pyspark==$* >&2
	mv $@.part $@

test: .venv/.dev .venv/.native $(PYSPARK:%=build/pyspark-%) ## runs every tier of tests that this machine can run (TESTS=tests/unit for one; PYTEST_ARGS, PYSPARK=4.2.1: see docs/testing.md)
	@export PYTHONPATH="$(PYSPARK:%=$(CURDIR)/build/pyspark-%)$${PYTHONPATH:+:$$PYTHONPATH}"
	if [ -z "$(TESTS)" ]; then exec $(bin)/python -m tests.lanes $(PYTEST_ARGS); fi
	exec $(bin)/pytest --all-tiers $(PYTEST_ARGS) $(TESTS)

test-long: ## runs the same and the tests marked long: every combination, every moment
	@$(MAKE) --no-print-directory test PYTEST_ARGS="--long $(PYTEST_ARGS)"

check: style .venv/.dev .venv/.native ## checks style and types, and runs the tests that need no server
	@mkdir -p build
	{ $(bin)/mypy --strict && $(MAKE) --no-print-directory native-check; } >build/types.log 2>&1 & types=$$!
	$(bin)/python -m tests.lanes --quick -m "not slow" $(PYTEST_ARGS) || failed=1
	wait $$types || { cat build/types.log >&2; failed=1; }
	exit $${failed:-0}

pythons: .venv/.dev .venv/.native ## runs worlds and every command's help on each other supported Python, unit tests on the oldest and newest (PYTHONS="3.12")
	@exec $(bin)/python tests/pythons.py $(PYTHONS)

lint: style types ## checks format, style, spelling and types

style: .venv/.dev
	@$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(bin)/codespell

types: .venv/.dev
	@$(bin)/mypy --strict

format: .venv/.dev ## formats the code, and corrects style errors
	@$(bin)/ruff check --fix --exit-zero --quiet .
	$(bin)/ruff format .

bench: .venv/.dev .venv/.native ## runs the headline benchmarks, each against its peer (BENCH_ARGS=name for one); first prints how long it takes
	@exec $(bin)/python -m benchmarks $(BENCH_ARGS)

bench-all: .venv/.dev .venv/.native ## runs every benchmark; takes about an hour
	@exec $(bin)/python -m benchmarks --all $(BENCH_ARGS)

build/pins-tools: Makefile
	@rm -rf $@
	$(PYTHON) -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check uv==0.13.9 cyclonedx-bom==7.5.0

pins: build/pins-tools ## writes requirements-deploy.txt again, with hashes, after constraints.txt or pyproject.toml has changed
	@{ grep '^#' requirements-deploy.txt
	  build/pins-tools/bin/uv pip compile pyproject.toml --extra deploy --constraints constraints.txt --universal \
	    --python-version 3.10 --generate-hashes --no-header --no-annotate --no-emit-index-url --no-emit-find-links --quiet
	} >build/requirements-deploy.txt
	mv build/requirements-deploy.txt requirements-deploy.txt

sbom: build/pins-tools ## builds the wheel and a bill of materials of its dependencies, in dist/
	@rm -rf build/deployed build/lib dist
	$(PYTHON) -m venv build/deployed
	build/deployed/bin/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-deploy.txt
	build/deployed/bin/pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	build/deployed/bin/pip install --quiet --disable-pip-version-check --no-deps dist/*.whl
	build/deployed/bin/pip uninstall --quiet --yes setuptools pip
	build/pins-tools/bin/cyclonedx-py environment build/deployed --pyproject pyproject.toml --output-reproducible \
	  --of JSON -o dist/legacy-consumer.cdx.json
	build/pins-tools/bin/python -m tests.support.bill_of_materials dist/legacy-consumer.cdx.json

simulate: .venv/.dev ## runs groups over an in-memory ZooKeeper, with every fault (SEEDS=1000000, or EXHAUSTIVE=1: every order)
	@exec $(bin)/python -m $(if $(EXHAUSTIVE),tests.simulation.exhaustive,tests.simulation --seeds $(SEEDS)) --processes 2

mutants: .venv/.dev .venv/.native ## breaks the code on purpose, and shows whether the simulation and the tests notice
	@$(bin)/python -m tests.simulation.mutants
	@exec $(bin)/python -m tests.unit.legacy_consumer.fetching.columnar.mutants

fuzz: .venv/.dev .venv/.native ## feeds hostile bytes to every decoder (MINUTES=10)
	@exec $(bin)/python -m tests.fuzzing --minutes $(MINUTES)

chaos: .venv/.dev .venv/.native ## runs a group on real servers with many kinds of faults (CHAOS_ARGS='--seed 7 --minutes 30')
	@mkdir -p build
	exec $(bin)/python -m tests.chaos $(CHAOS_ARGS)

long-lived: .venv/.dev .venv/.native ## joins and leaves in one process for half an hour, and checks that nothing is left behind
	@mkdir -p build
	exec $(bin)/python -m tests.chaos.long_lived $(LONG_LIVED_ARGS)

image: .venv/.native ## builds the container image legacy-consumer:latest; with the native decoder if cargo is installed
	@exec docker build --tag legacy-consumer .

compose-up: .venv/.native ## starts a cluster in containers: 3 ZooKeepers, 3 brokers, producer, consumers (CONSUMERS=1), exporter
	@exec python3 deploy/compose.py up --consumers $(CONSUMERS)

compose-demo: .venv/.native ## starts the same, scales it from one consumer to four and back, kills one, and stops it
	@exec python3 deploy/compose.py demo

compose-down: ## stops that cluster and removes its volumes
	@exec python3 deploy/compose.py down

clean: ## removes the environment and everything that was built, but not downloaded jars
	@rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis spark-warehouse metastore_db derby.log
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
