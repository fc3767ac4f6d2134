# Everything a developer runs. Each target may be repeated: what is done and unchanged is not done again.
# Variables: PYTHON (interpreter for .venv), CARGO_TARGET_DIR, PYTEST (more arguments for pytest), DEMO (for the demo), PEERS (for the comparison),
# PREFIX (where `make install` puts the C library), INSTALL=apt (as root: install missing compilers and Python with apt-get; `make test` does).

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

BIN := .venv/bin
STAMPS := build/stamps
export PATH := $(PATH):$(HOME)/.cargo/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PREFIX ?= /usr/local

# More ranks than cores, as any user, and ROMIO where MPI-IO is the baseline: its rival is many times slower.
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
export PRTE_MCA_rmaps_default_mapping_policy := :oversubscribe
export OMPI_MCA_io := romio341

RUST_SOURCES := $(shell find crates connectors -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock

.PHONY: help setup dev plugin rados-class wheel wheels test lint lints check docs bench peers demo install clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

setup: $(STAMPS)/extension ## make .venv with every tool and the built extension in it
	@echo "==> setup: ready in .venv"

$(STAMPS)/python: tools/prerequisites.sh
	@mkdir -p $(STAMPS)
	@echo "==> setup: prerequisites"
	@PYTHON="$(PYTHON)" INSTALL="$(INSTALL)" tools/prerequisites.sh > $@
	@echo "    $$(cat $@), $$(rustc --version), $$(cc --version | head -n 1)"

# The stamp lies inside .venv, so that removing .venv is enough to have it made again.
.venv/.tools: requirements-dev.txt | $(STAMPS)/python
	@echo "==> setup: Python tools into .venv"
	@$(BIN)/python -c '' 2> /dev/null || "$$(cat $(STAMPS)/python)" -m venv --clear .venv
	@$(BIN)/python -m pip install --quiet --requirement requirements-dev.txt
	@touch $@

$(STAMPS)/extension: $(RUST_SOURCES) pyproject.toml .venv/.tools
	@echo "==> setup: the extension module (the first build compiles every dependency: minutes)"
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/maturin develop --release
	@rm -f $(STAMPS)/extension-dev
	@touch $@

dev: $(STAMPS)/extension-dev ## the extension without optimisation, in seconds after a change; `make setup` brings the fast one back

$(STAMPS)/extension-dev: $(RUST_SOURCES) pyproject.toml .venv/.tools
	@echo "==> dev: the extension module, development build"
	@VIRTUAL_ENV="$(CURDIR)/.venv" $(BIN)/maturin develop
	@rm -f $(STAMPS)/extension
	@touch $@

plugin: $(STAMPS)/plugin ## the plug-in for HDF5, in the Python package

$(STAMPS)/plugin: $(RUST_SOURCES) tools/hdf5_plugin.sh | $(STAMPS)/python
	@mkdir -p $(STAMPS)
	@echo "==> plugin: the plug-in for HDF5"
	@tools/hdf5_plugin.sh --release
	@rm -f $(STAMPS)/plugin-dev
	@touch $@

$(STAMPS)/plugin-dev: $(RUST_SOURCES) tools/hdf5_plugin.sh | $(STAMPS)/python
	@mkdir -p $(STAMPS)
	@echo "==> plugin: the plug-in for HDF5, development build"
	@tools/hdf5_plugin.sh
	@rm -f $(STAMPS)/plugin
	@touch $@

rados-class: ## the object class for Ceph, in build/rados-class
	@tools/rados_class.sh

wheel: setup plugin ## a wheel with the plug-in for HDF5 in it, in build/wheels
	@echo "==> wheel"
	@$(BIN)/maturin build --release --interpreter $(BIN)/python --out build/wheels

wheels: ## wheels for manylinux_2_28 by zig, each tried, and a source distribution; ARCH="x86_64 aarch64" (15 minutes each)
	@PYTHON="$(PYTHON)" tools/wheels.sh $(ARCH)

# Tried again where another try may help; otherwise tests that need what is missing are skipped, and say so.
$(STAMPS)/test_programs: tools/test_programs.sh
	@mkdir -p $(STAMPS)
	@echo "==> test: programs that only tests run"
	@if tools/test_programs.sh; then touch $@; fi

# One build, the development one with its assertions: the tests in Rust, the extension and the plug-in share it.
test: export INSTALL = apt
test: dev $(STAMPS)/plugin-dev $(STAMPS)/test_programs ## run every test: Rust, Python, examples, README
	@echo "==> test: Rust"
	@cargo test --workspace
	@if [ -e /usr/include/rados/objclass.h ]; then \
		echo "==> test: the object class for Ceph, development build"; \
		tools/rados_class.sh build/rados-class-dev dev; \
	fi
	@echo "==> test: Python, examples, documents"
	@DRYSTONE_RADOS_CLASS="$${DRYSTONE_RADOS_CLASS:-$(CURDIR)/build/rados-class-dev}" $(BIN)/python -m pytest --numprocesses 2 --dist loadfile $(PYTEST)

lint: dev ## formatters, lints and types
	@$(MAKE) --no-print-directory lints

lints:
	@echo "==> lint: Rust"
	@cargo fmt --all --check
	@cargo clippy --workspace --all-targets --quiet -- -D warnings
	@echo "==> lint: what uses what"
	@$(BIN)/python tools/rooms.py
	@echo "==> lint: what is public"
	@$(BIN)/python tools/public_items.py
	@echo "==> lint: words"
	@$(BIN)/python tools/words.py
	@echo "==> lint: tuned constants"
	@$(BIN)/python tools/constants.py
	@echo "==> lint: Python"
	@$(BIN)/ruff format --check
	@$(BIN)/ruff check
	@$(BIN)/mypy
	@$(BIN)/stubtest drystone --mypy-config-file pyproject.toml --allowlist tools/stubtest.txt

# One build, unoptimised: clippy, the unit tests and the extension share it.
check: dev ## lint and the quick tests: under 5 minutes when warm
	@$(MAKE) --no-print-directory lints
	@echo "==> check: quick tests"
	@cargo test --workspace --lib --quiet
	@$(BIN)/python -m pytest --quiet -m "not slow" $(PYTEST)

demo: setup ## kill a simulation, restart it on other ranks, compare bit for bit, draw it; then real data (a minute after the first build)
	@echo "==> demo: examples/gray_scott"
	@$(BIN)/python examples/gray_scott/demo.py --folder build/demo $(DEMO)
	@echo "==> demo: examples/ocean, real data"
	@$(BIN)/python examples/ocean/climatology.py --folder build/ocean
	@echo "==> demo: done. Look at the pictures in build/demo and build/ocean, at the run itself with"
	@echo "      $(BIN)/drystone view build/demo/restarted.dry"
	@echo "    and go on with docs/tutorial/README.md"

# Rust's reference is copied beside the pages, which link to it.
docs: setup ## the documentation as a site with a search, in build/site
	@echo "==> docs: reference of the Rust crates"
	@cargo doc --no-deps --quiet --package drystone
	@echo "==> docs: site"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@cp -r "$${CARGO_TARGET_DIR:-target}/doc" build/site/rust
	@echo "    open build/site/index.html"

bench: setup ## measure, against raw files and h5py
	@echo "==> bench"
	@$(BIN)/python bench/run.py $(BENCH)

peers: setup ## measure against h5py, netCDF4, ADIOS2, zarr, tensorstore, TileDB, blosc2 and raw files (10 minutes)
	@echo "==> peers"
	@$(BIN)/python bench/peers/run.py $(PEERS)

install: ## the C library and its headers into PREFIX (default /usr/local); needs only Rust and a C compiler
	@echo "==> install: the C library into $(PREFIX)"
	@cargo build --release --quiet --package drystone-capi
	@tools/install_c.sh "$(or $(CARGO_TARGET_DIR),target)/release" "$(PREFIX)"

clean: ## remove everything that these targets made
	rm -rf build .venv .pytest_cache .mypy_cache .ruff_cache python/drystone/*.so python/drystone/hdf5/plugin/*.so
	cargo clean
