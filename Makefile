# What a person or CI calls. It needs Python 3.11 with venv, Rust and a C compiler, and says so where they are missing.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ONLINE := packaging/online.sh
# Pip would print a line for every package of an extra that is not wanted.
MATURIN := $(ONLINE) env VIRTUAL_ENV=$(CURDIR)/$(VENV) PIP_QUIET=1 $(BIN)/maturin develop --release
PAPERS := $(ONLINE) $(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable papers
SFU := $(BIN)/rtclab-sfu
CLIP := $(BIN)/python -c 'from rtclab.backend.live.browsers.video_clip import prepare_clip; prepare_clip(640, 480, 30)'
# In CI, what checks gives way to the tests beside it.
GIVE_WAY := $(if $(CI),setsid --wait tests/give_way.sh 15)
# A cargo that does not look for the job slots of make, which only a make below this one could use.
CARGO := env -u MAKEFLAGS cargo
NATIVE := Cargo.toml Cargo.lock pyproject.toml $(shell find crates -name '*.rs' -o -name Cargo.toml)
LIVE_PACKAGES := chromium chromium-driver firefox-esr coturn janus nftables slirp4netns iperf3 tshark iputils-ping iproute2 util-linux
TEST_PACKAGES := $(LIVE_PACKAGES) janus-demos valgrind
STRANGERS := target/strangers
LIVEKIT_SERVER := github.com/livekit/livekit-server/cmd/server@v1.13.5
LIVEKIT_CLIENT := livekit-client@2.23.0
WHIP_WHEP := github.com/pion/webrtc/v4/examples/whip-whep@v4.2.26
FUZZ_TARGETS := $(basename $(notdir $(wildcard fuzz/fuzz_targets/*.rs)))
# What `make dist` builds for; `rustup target add` installs a target. The wheels for Linux run with this glibc and later.
TARGETS ?= x86_64-unknown-linux-gnu aarch64-unknown-linux-gnu x86_64-apple-darwin aarch64-apple-darwin x86_64-pc-windows-gnu
GLIBC := 2.17
DIST := $(CURDIR)/target/dist
PROFILE := $(DIST)/profile.profdata
# Absolute paths of this machine, such as in messages of panics, would end up in the wheels.
PATHS := --remap-path-prefix=$(HOME)=. --remap-path-prefix=$(CURDIR)=.
LLVM := $$(rustc --print target-libdir)/../bin
FIND_ZIG := PATH=$(CURDIR)/$(BIN):$$PATH
BUILD_WHEEL := CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
  RUSTC_WRAPPER=$(CURDIR)/packaging/rustc.sh $(FIND_ZIG) maturin build --release --locked --target-dir $(DIST)/cargo
FUZZ_SECONDS ?= 60

# Another .venv than one whose Python runs and is new enough is made again.
VENV_RUNS := $(shell $(BIN)/python -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null)

.PHONY: FORCE machine packages run arena reproduce then-and-now setup setup-live setup-dev setup-strangers test check gate gate-trials bench instructions same-bytes dist fuzz fuzz-build $(FUZZ_TARGETS:%=fuzz-%) docs clean

run: $(VENV)/built                ## build what changed, run first-call, print the path of its report
	$(BIN)/rtclab run first-call

arena: $(VENV)/built-papers       ## all congestion controls in the suites rfc8867 and access, and docs/arena.md: two minutes
	$(BIN)/rtclab validate arena --keep-live --page docs/arena.md

reproduce: $(VENV)/built-papers   ## all published conditions, their reports, and docs/reproduction.md
	$(BIN)/rtclab reproduce all --every-reading --page docs/reproduction.md

then-and-now: $(VENV)/built-live $(VENV)/built-papers ## the papers' conditions with real browsers, and docs/then-and-now.md: two hours
	$(BIN)/rtclab reproduce all --backend live --page docs/then-and-now.md

setup: $(VENV)/built              ## .venv with the native module
	@echo 'The native module is built without a profile. With one, as in the wheels of `make dist`, first-call takes 18 % fewer instructions.'

setup-live: $(VENV)/built-live    ## what live calls need: Debian packages, Python packages, the video clip
	SUDO=sudo packaging/install_debian.sh $(LIVE_PACKAGES)
	$(CLIP)

setup-dev: $(VENV)/built-dev      ## .venv with everything that test and check need

setup-strangers: $(STRANGERS)/whip-whep $(STRANGERS)/livekit-server $(STRANGERS)/livekit-client ## servers and pages of others, for tests (Go, npm): 3 minutes

test: packages $(VENV)/built-dev $(SFU) ## installs what is missing, and runs all tests; those that lack a part are skipped, or fail with CI set
	$(CLIP)
	$(BIN)/python tests/lanes.py $(LANES)

# Without a password. Tests name what could not be installed.
packages:
	-@SUDO='sudo -n' packaging/install_debian.sh $(TEST_PACKAGES)

check: $(VENV)/built-dev          ## formatting, lints and types, and whether simulated calls are as good as before
	$(GIVE_WAY) $(CARGO) clippy --quiet --workspace --all-targets --profile server -- -D warnings
	cargo fmt --check
	RUSTDOCFLAGS="-D warnings" $(GIVE_WAY) $(CARGO) doc --quiet --workspace --no-deps --profile server
	$(GIVE_WAY) $(BIN)/ruff check
	$(BIN)/ruff format --check
	$(GIVE_WAY) $(BIN)/mypy
	$(GIVE_WAY) $(BIN)/rtclab gate gate/suite.toml

gate: $(VENV)/built-dev           ## the suite in gate/; docs/gate.md says how to update its baseline
	$(BIN)/rtclab gate gate/suite.toml

gate-trials: $(VENV)/built-dev    ## how often the gate finds a loss of 10 %, and fails for nothing: a quarter of an hour
	$(BIN)/python gate/trials.py

bench: $(VENV)/built-dev $(if $(BASE),target/bench/$(BASE)/built) ## figures, not verdicts; BASE=COMMIT adds ratios to it
	cargo bench --workspace --exclude rtclab-python --exclude rtclab-extension
	$(BIN)/python -m tools.bench $(if $(BASE),--base target/bench/$(BASE))

instructions: machine             ## instructions and cache misses of simulations, against their limits; BASE=COMMIT: against that commit
	$(PYTHON) -m tools.instructions $(if $(BASE),--base $(BASE))

same-bytes: $(VENV)/built-dev target/bench/$(BASE)/built ## whether half a hundred simulated configurations have the same bytes as BASE=COMMIT
	$(BIN)/python tests/same_bytes.py --base target/bench/$(BASE)

target/bench/%/built:
	rm -rf $(@D) && mkdir -p $(@D)
	git archive $* | tar -x -C $(@D)
	cd $(@D) && cargo build --release --locked -p rtclab-python --features pyo3/extension-module
	cp $(@D)/target/release/lib_native.so $(@D)/python/rtclab/_native.abi3.so
	touch $@

dist: $(VENV)/built-dist $(PROFILE) ## dist/: source and profile-guided wheels, built and tested; TARGETS="TRIPLE ..." chooses
	rm -rf dist
	$(BIN)/maturin sdist --out dist
	$(BIN)/pip wheel --quiet --no-deps --wheel-dir dist ./papers
	for target in $(TARGETS); do $(MAKE) wheel-$$target || exit 1; done
	RTCLAB_DIST=$(CURDIR)/dist $(BIN)/pytest tests/install

$(PROFILE): $(VENV)/built-dist $(NATIVE) packaging/train.py
	rm -rf $(DIST)/profile && mkdir -p $(DIST)/profile
	RUSTFLAGS=-Cprofile-generate=$(DIST)/profile $(BUILD_WHEEL) --target $$(rustc --print host-tuple) --out $(DIST)/profile
	$(BIN)/python -m zipfile --extract $(DIST)/profile/*.whl $(DIST)/profile/python
	PYTHONPATH=$(DIST)/profile/python $(BIN)/python packaging/train.py
	$(LLVM)/llvm-profdata merge --output=$@ $(DIST)/profile/*.profraw

wheel-%-linux-gnu: $(PROFILE)
	rm -rf $(DIST)/$*
	RUSTFLAGS="-Cprofile-use=$(PROFILE) $(PATHS)" $(BUILD_WHEEL) --strip --zig --target $*-linux-gnu \
	  --compatibility manylinux_$(subst .,_,$(GLIBC)) --out $(DIST)/$*
	RUSTFLAGS="$(PATHS)" $(FIND_ZIG) cargo zigbuild --locked --profile server -p rtclab-sfu \
	  --target $*-linux-gnu.$(GLIBC) --target-dir $(DIST)/cargo
	$(LLVM)/llvm-strip -o $(DIST)/$*/rtclab-sfu $(DIST)/cargo/$*-linux-gnu/server/rtclab-sfu
	PYTHON=$(BIN)/python packaging/add_program.sh $(DIST)/$*/*.whl $(DIST)/$*/rtclab-sfu dist

wheel-%: $(PROFILE)
	RUSTFLAGS="-Cprofile-use=$(PROFILE) $(PATHS)" $(BUILD_WHEEL) --strip --zig --target $* --out dist

fuzz: fuzz-build                  ## searches for inputs that fail, FUZZ_SECONDS a target; `make test` runs those that are kept
	$(MAKE) --jobs=$$(nproc) --output-sync=target $(FUZZ_TARGETS:%=fuzz-%)

fuzz-build:
	cd fuzz && cargo build --quiet --locked --release --target $$(rustc --print host-tuple) --target-dir target

# What it finds stays in fuzz/found, which Git ignores; libFuzzer writes to the first folder only.
$(FUZZ_TARGETS:%=fuzz-%): fuzz-%: fuzz-build
	mkdir -p fuzz/found/$* fuzz/artifacts/$*
	fuzz/target/*/release/$* fuzz/found/$* $(wildcard fuzz/corpus/$* fuzz/regressions/$*) -artifact_prefix=fuzz/artifacts/$*/ \
	  -verbosity=0 -print_final_stats=1 -max_total_time=$(FUZZ_SECONDS) -max_len=4096 -timeout=60 \
	  $(patsubst %,-dict=%,$(wildcard fuzz/$*.dict))

docs: $(VENV)/built-docs          ## the site in target/doc/site, the Rust documentation, and the JSON Schema of scenarios
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps
	$(BIN)/rtclab schema > target/doc/scenario.schema.json
	$(BIN)/sphinx-build -q -W -E --keep-going -d target/doc/site-cache docs target/doc/site

clean:                            ## everything that make made, but not runs
	rm -rf $(VENV) dist target fuzz/target python/rtclab/_native*.so

machine:
	@packaging/check_machine.sh $(PYTHON)

$(BIN)/maturin: $(if $(VENV_RUNS),,FORCE) | machine
	$(PYTHON) -m venv --clear $(VENV)
	$(ONLINE) $(BIN)/pip install --quiet --disable-pip-version-check 'maturin>=1.9,<2'

$(VENV)/built: $(BIN)/maturin $(NATIVE)
	$(MATURIN)
	touch $@

$(SFU): $(BIN)/maturin Cargo.toml Cargo.lock $(shell find crates/rtclab-sfu/src crates/rtclab-core/src/forwarding -name '*.rs') \
		crates/rtclab-sfu/Cargo.toml
	$(ONLINE) cargo build --quiet --locked --profile server -p rtclab-sfu
	install target/server/rtclab-sfu $@

# Calls of three people need no optimised server, whose build takes twice as long.
$(STRANGERS)/livekit-server:
	GOBIN=$(CURDIR)/$(@D) go install -ldflags=-s -gcflags='all=-N -l -dwarf=false' $(LIVEKIT_SERVER)
	mv $(@D)/server $@

$(STRANGERS)/livekit-client:
	rm -rf $@.part && mkdir -p $@.part
	npm install --prefix $@.part --no-save --ignore-scripts --no-audit --no-fund --silent $(LIVEKIT_CLIENT)
	mv $@.part/node_modules/livekit-client $@

$(STRANGERS)/whip-whep:
	GOBIN=$(CURDIR)/$(@D) go install -ldflags=-s -gcflags='all=-N -l -dwarf=false' $(WHIP_WHEP)

$(VENV)/built-live: $(BIN)/maturin $(NATIVE) $(SFU)
	$(MATURIN) --extras live
	touch $(VENV)/built $@

# What rtclab depends on, for the test that installs its wheel without a network.
target/wheelhouse/complete: $(BIN)/maturin pyproject.toml papers/pyproject.toml
	mkdir -p $(@D)
	$(BIN)/python -c 'import tomllib as t; \
	  projects = [t.load(open(f"{d}/pyproject.toml", "rb")) for d in (".", "papers")]; \
	  print(*projects[0]["project"]["dependencies"], *projects[1]["build-system"]["requires"], sep="\n")' > $(@D)/requirements.txt
	$(ONLINE) $(BIN)/pip download --quiet --disable-pip-version-check --only-binary :all: --dest $(@D) --requirement $(@D)/requirements.txt
	touch $@

$(VENV)/built-dev: $(BIN)/maturin $(NATIVE) papers/pyproject.toml target/wheelhouse/complete
	$(MATURIN) --extras dev,docs,live
	$(PAPERS)
	touch $(VENV)/built $(VENV)/built-docs $(VENV)/built-papers $@

$(VENV)/built-dist: $(VENV)/built-dev
	$(BIN)/pip install --quiet --disable-pip-version-check auditwheel cargo-zigbuild ziglang
	rustup component add llvm-tools
	rustup target add $(TARGETS)
	touch $@

$(VENV)/built-docs: $(BIN)/maturin $(NATIVE) papers/pyproject.toml
	$(MATURIN) --extras docs
	$(PAPERS)
	touch $(VENV)/built $(VENV)/built-papers $@

$(VENV)/built-papers: $(VENV)/built papers/pyproject.toml
	$(PAPERS)
	touch $@
