# `make demo`, `make look` and `make test` need Python 3.11+ and cargo, nothing else. `make help` lists what there is.
.DEFAULT_GOAL := demo
.PHONY: help demo look test pytest system libraries lint tables bench build native emulator bpf full docs dist clean

UV := $(shell uv --version >/dev/null 2>&1 && command -v uv || echo .tools/bin/uv)
# Bytecode once: without it, where PYTHONDONTWRITEBYTECODE is set, every process would compile torch and Ray again.
SYNC := $(UV) sync --quiet --inexact --compile-bytecode
# `uv sync` always obeys the pins of pyproject.toml; `uv pip` with --no-config does not.
NEWEST_OF_ALL = $(UV) venv --quiet --allow-existing .venv && $(UV) pip install --no-config --quiet --python $(BIN)/python --upgrade \
  --editable '.[train,search,video,data,emulation]' --group dev --group foreign --group docs
BIN := .venv/bin
SIM := --manifest-path sim/Cargo.toml
# Agents on the kernel need libelf and zlib (Debian: libelf-dev zlib1g-dev).
AGENTS = $(if $(and $(wildcard /usr/include/libelf.h),$(wildcard /usr/include/zlib.h)),--features orbitcc-emulator/agents)
# Beside the objects, `make bpf` writes the digests of sources and objects, and what compiled them (tests/sim/test_bpf.py).
BPF_OUT := $(CURDIR)/sim/emulator/bpf
PYTESTS = $(BIN)/python -m pytest -n 3 --dist worksteal --durations 30 --ignore tests/emulator --ignore tests/deploy
# What tests of emulation, deployment, Mininet, BPF, captures and reports need beyond Python and cargo, on Debian.
SYSTEM := iproute2 iputils-ping net-tools mininet clang llvm libbpf-dev libelf-dev zlib1g-dev tshark chromium
# BenchMARL needs an older TorchRL than our constraints allow: `make libraries` puts both into a folder of their own.
BENCHMARL := benchmarl==1.5.2 torchrl==0.11.1 tensordict==0.11.0 hydra-core==1.3.8 omegaconf==2.3.1 \
  antlr4-python3-runtime==4.9.3 pyvers==0.2.3
# A static emulator links the archives of the same packages.
HOST = $(shell rustc --version --verbose | sed -n 's/^host: //p')
STATIC_WAY = --features orbitcc-emulator/static --target $(HOST)
STATICALLY = $(if $(STATIC),LIBBPF_SYS_LIBRARY_PATH=$(dir $(shell $(or $(CC),cc) -print-file-name=libelf.a)) RUSTFLAGS="-C target-feature=+crt-static")
LIB := sim/target/release/$(if $(filter Darwin,$(shell uname)),lib_sim.dylib,lib_sim.so)

help:  ## this list
	@sed -n 's/^\([a-z]*\):[^#]*## /  make \1: /p' $(MAKEFILE_LIST)

demo: $(UV)  ## the main job: install everything, train a policy with RLlib, evaluate it beside classical controllers
	@echo "1/2 installing into .venv: this downloads 3.1 GB on Linux (torch with its CUDA libraries 2.8 GB, Ray and the rest"
	@echo "    0.3 GB), 6 GB when installed, and builds the simulator with cargo (1 to 3 minutes)."
	@echo "    A light first look without learners (0.1 GB): make look"
	@began=$$(date +%s); $(SYNC) --no-dev --extra train && echo "    done in $$(($$(date +%s) - began)) s"
	@echo "2/2 orbitcc demo (two to four minutes on two cores)"
	@$(BIN)/orbitcc demo

look: $(UV)  ## a light first look without learners: evaluate a policy that ships beside classical controllers
	@echo "1/2 installing Python packages (0.1 GB) into .venv and building the simulator with cargo (1 to 3 minutes)"
	@began=$$(date +%s); $(SYNC) --no-dev && echo "    done in $$(($$(date +%s) - began)) s"
	@echo "2/2 orbitcc demo --shipped (half a minute)"
	@$(BIN)/orbitcc demo --shipped

test: full emulator  ## everything: the native tests, then the Python tests with the learners installed
	cargo test --profile tested --workspace $(SIM) $(AGENTS)
	cargo test --release --package orbitcc-core $(SIM) --test event_logs  # the build that ships, without these checks, does the same
	$(PYTESTS)
	$(BIN)/python -m pytest --durations 15 tests/emulator tests/deploy  # in real time: nothing else may run

pytest: full  ## the Python tests alone, without those of the emulator
	$(PYTESTS)

system:  ## on Debian as root: packages without which tests of emulation, deployment, captures and reports are skipped
	@for package in $(SYSTEM); do dpkg -s $$package >/dev/null 2>&1 || wanted="$$wanted $$package"; done; \
		[ -z "$$wanted" ] && exit; export DEBIAN_FRONTEND=noninteractive; apt-get update -qq; for package in $$wanted; do \
		apt-get install -qq -y --no-install-recommends $$package >/dev/null || lacks="$$lacks $$package"; done; \
		[ -z "$$lacks" ] || { echo "not to be had here:$$lacks"; exit 1; }

libraries: full  ## other libraries over our environments (d3rlpy, SuperSuit, RLlib's algorithms): weekly
	$(SYNC) --extra train --extra data --group foreign --group libraries
	$(UV) pip install --no-config --quiet --python $(BIN)/python --target build/benchmarl --no-deps $(BENCHMARL)
	ORBITCC_LIBRARIES=1 ORBITCC_BENCHMARL=$(CURDIR)/build/benchmarl $(BIN)/python -m pytest tests/libraries

lint: build  ## formats, types and lints of Python and Rust
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cargo fmt $(SIM) --all --check
	cargo clippy $(SIM) --workspace --all-targets $(AGENTS) -- -D warnings
	cargo check $(SIM) --package orbitcc-python --no-default-features  # a build without QUIC

docs: full  ## the documentation site, warnings as errors: build/docs/index.html
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --builder html docs build/docs
	@echo build/docs/index.html

tables: build  ## how old the tables and pictures of the documentation are
	$(BIN)/python -m benches

bench: build  ## the figures of docs/performance.md
	$(BIN)/orbitcc bench

build: $(UV)  ## simulator, command and developer tools, without the learners
	$(SYNC)

full: $(UV)  ## as `build`, with the learners, what films need, and Mininet (some gigabytes; NEWEST=1: newest versions, no pins)
	@echo "make full: the simulator, the command, the developer tools, the learners (torch, Ray, Stable-Baselines3), moviepy and Mininet, into .venv"
	$(if $(NEWEST),$(NEWEST_OF_ALL),$(SYNC) --extra train --extra search --extra video --extra data --extra emulation --group foreign --group docs)
	@echo "done; now: source .venv/bin/activate   (then orbitcc and python are those of .venv, which has no pip of its own)"

native:  ## rebuild only the simulator, in place
	cargo build --release $(SIM) --package orbitcc-python
	cp $(LIB) orbitcc/_sim.abi3.so.tmp && mv orbitcc/_sim.abi3.so.tmp orbitcc/_sim.abi3.so

emulator:  ## what plays scenarios on this machine's own TCP, in place (Linux; STATIC=1: without shared libraries)
	$(STATICALLY) cargo build --release $(SIM) --package orbitcc-emulator $(if $(STATIC),$(STATIC_WAY),$(AGENTS))
	cp sim/target/$(if $(STATIC),$(HOST)/)release/orbitcc-emulator orbitcc/orbitcc-emulator.tmp
	mv orbitcc/orbitcc-emulator.tmp orbitcc/orbitcc-emulator

bpf:  ## the BPF programs, after a change in sim/emulator/bpf (Debian: clang llvm libbpf-dev; BPF_OUT=DIR: elsewhere)
	cd sim/emulator/bpf && for name in agent deploy deploy_kernel decide; do \
		clang -target bpf -O2 -g -mcpu=v3 -Wall -ffile-prefix-map=$$PWD=. -I/usr/include/$$(uname -m)-linux-gnu -c $$name.bpf.c -o "$(BPF_OUT)/$$name.bpf.o" && \
		$$(command -v llvm-strip || command -v llvm-strip-14) -g "$(BPF_OUT)/$$name.bpf.o" || exit 1; done
	@cd sim/emulator/bpf && export LC_ALL=C && { \
		echo "# $$(clang --version | sed -n 1p), libbpf $$(sed -n 's/^#define LIBBPF_M.*_VERSION //p' /usr/include/bpf/libbpf_version.h | paste -sd.)" && \
		sha256sum *.c *.h && cd "$(BPF_OUT)" && sha256sum *.bpf.o; } > "$(BPF_OUT)/SHA256SUMS"

dist: $(UV)  ## source distribution and wheel for this machine, in dist/
	$(UV) build --quiet --out-dir dist .
	@ls dist/*.tar.gz dist/*.whl

.tools/bin/uv:
	python3 -m venv .tools
	.tools/bin/pip install --quiet uv

clean:  ## remove everything that was built or installed
	rm -rf .venv .tools build dist sim/target orbitcc/_sim*.so orbitcc/orbitcc-emulator
