# `make demo` and `make test` need Python 3.11+ and cargo, nothing else. `make help` lists what there is.
.DEFAULT_GOAL := demo
.PHONY: help demo test lint bench build native full clean

UV := $(shell uv --version >/dev/null 2>&1 && command -v uv || echo .tools/bin/uv)
SYNC := $(UV) sync --quiet --inexact
BIN := .venv/bin
SIM := --manifest-path sim/Cargo.toml
LIB := sim/target/release/$(if $(filter Darwin,$(shell uname)),lib_sim.dylib,lib_sim.so)

help:  ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## /  make \1: /p' $(MAKEFILE_LIST)

demo: $(UV)  ## a first look: install the light parts, run a small evaluation, print where its report is
	$(SYNC) --no-dev
	$(BIN)/orbitcc demo

test: full  ## everything: the native tests, then the Python tests with the learners installed
	cargo test --profile tested --workspace $(SIM)
	cargo test --package orbitcc-core $(SIM)  # the same with overflow checks; event logs must not differ
	$(BIN)/python -m pytest

lint: build  ## formats, types and lints of Python and Rust
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cargo fmt $(SIM) --all --check
	cargo clippy $(SIM) --workspace --all-targets -- -D warnings

bench: build  ## the figures of docs/performance.md
	$(BIN)/orbitcc bench

build: $(UV)  ## simulator, command and developer tools, without the learners
	$(SYNC)

full: $(UV)  ## as `build`, with the learners (torch, Ray, Stable-Baselines3: some gigabytes) and what films need
	@echo "make full: the simulator, the command, the developer tools, the learners (torch, Ray, Stable-Baselines3) and moviepy, into .venv"
	$(SYNC) --extra train --extra video --group foreign

native:  ## rebuild only the simulator, in place
	cargo build --release $(SIM) --package orbitcc-python
	cp $(LIB) orbitcc/_sim.abi3.so.tmp && mv orbitcc/_sim.abi3.so.tmp orbitcc/_sim.abi3.so

.tools/bin/uv:
	python3 -m venv .tools
	.tools/bin/pip install --quiet uv

clean:  ## remove everything that was built or installed
	rm -rf .venv .tools build dist sim/target orbitcc/_sim*.so
