# What a user of the repository types. Everything runs on two cores without a network, once the
# packages of Cargo.lock and python/requirements-test.txt are there.
CARGO ?= cargo
SCHEDCAST ?= target/release/schedcast
PYTHON ?= python3
VENV := target/venv

.PHONY: demo test truth truth-sample oracle fuzz swarm faults mutants lint bill speed build fast python studies book pictures page-speed twins twin-pages robot upgrades validate validate-pages validate-quick single-hog single-hog-guests null-test renew kernels packages packages-test test-aarch64 sums reproducible wheels services services-pages circle overhead clean

RELEASE := $(CARGO) build --release --locked -p schedcast-cli
build:
	$(RELEASE)

# The same command for the processor of this machine, laid out by what it executes most: the same results to the byte
# from fewer instructions. On another processor it may not run. Builds twice, with some simulations in between that show
# what is executed most.
FAST := $(abspath target/fast)
PROFILES := $(FAST)/profiles
PROFDATA = $(firstword $(wildcard $(shell rustc --print sysroot)/lib/rustlib/*/bin/llvm-profdata))
HERE_ONLY := -Ctarget-cpu=native
# Thin: of a profile the fat link of everything at once makes nothing (2.8 million dispatches of W1 a second, 3.2 so).
FAST_BUILD = CARGO_PROFILE_RELEASE_LTO=thin $(CARGO) build --release --locked --target-dir $(FAST)
TRAIN := LLVM_PROFILE_FILE=$(PROFILES)/run-%p.profraw RAYON_NUM_THREADS=1 $(FAST)/release/schedcast
fast:
	@test -n "$(PROFDATA)" || { echo "make fast needs llvm-profdata: rustup component add llvm-tools" >&2; exit 1; }
	rm -rf $(PROFILES)
	RUSTFLAGS="$(HERE_ONLY) -Cprofile-generate=$(PROFILES)" $(FAST_BUILD) -p schedcast-cli
	$(TRAIN) run --seeds 1 --duration 2s -- cyclictest -t 50 -i 5000 -d 100 > /dev/null
	$(TRAIN) run --seeds 1 --duration 2s --machine hwp-desktop-8 -- cyclictest -t 80 -i 5000 -d 100 > /dev/null
	$(TRAIN) run --seeds 1 --duration 1s --machine icl-2x32x2 -- cyclictest -t 300 -i 5000 -d 100 > /dev/null
	$(TRAIN) run --seeds 1 --duration 20ms -- hackbench -p -g 4 -l 1000 > /dev/null
	$(TRAIN) run --seeds 1 --duration 50ms --machine spr-2x56x2 -- netperf -t UDP_RR -l 1 --pairs 56 > /dev/null
	$(TRAIN) what-if recordings/postgres-quota --seeds 1 > /dev/null
	$(PROFDATA) merge -o $(PROFILES)/all.profdata $(PROFILES)/run-*.profraw
	RUSTFLAGS="$(HERE_ONLY) -Cprofile-use=$(PROFILES)/all.profdata" $(FAST_BUILD) -p schedcast-cli
	@echo "$(FAST)/release/schedcast"

# A real, throttled PostgreSQL: fit to its recording, then six other limits, predicted next to measured.
demo: build
	$(SCHEDCAST) what-if recordings/postgres-quota --measured

# Fast checks first; tests that need the live kernel skip, saying so, where it cannot be had. One thread links the release
# for minutes, and tests that wait leave a CPU idle for about as long: it is built beside them, with the least weight.
test: lint
	$(CARGO) test --locked --workspace --no-run
	nice -n 19 $(RELEASE) --quiet & \
	$(CARGO) test --locked --workspace --no-fail-fast; tested=$$?; wait $$! && exit $$tested
	$(MAKE) python
	$(MAKE) instructions
	$(MAKE) truth-sample
	$(MAKE) validate-quick

# Instructions of the shipped program against those on record; skips, saying so, without valgrind. The test is that of
# `make test`: with `-p` its crates would be built again, with other features of what they depend on.
instructions: build
	SCHEDCAST="$(abspath $(SCHEDCAST))" $(CARGO) test --locked --workspace --test instructions -- --ignored

# Stored measurements and published bands that the shipped program forecasts, against those on record: they may only rise.
truth-sample truth: build
	SCHEDCAST="$(abspath $(SCHEDCAST))" $(CARGO) test --locked --workspace --test truth -- --ignored \
		$(if $(filter truth,$@),everything,sample)

# The Python package in a virtualenv of its own, installed as a user would, held against the command. In the profile of
# the tests, whose crates are built already: a release takes four minutes more and answers the same to the byte.
python: build $(VENV)/ready
	PATH="$(abspath $(VENV))/bin:$$PATH" MATURIN_PEP517_ARGS="--profile dev" \
		pip install --quiet --no-build-isolation .
	$(VENV)/bin/ruff check . && $(VENV)/bin/ruff format --check .
	SCHEDCAST="$(abspath $(SCHEDCAST))" $(VENV)/bin/pytest -q

# Debian and its children keep venv in a package of its own: apt install python3-venv.
$(VENV)/ready: python/requirements-test.txt
	$(PYTHON) -m venv --clear $(VENV) || { echo "no venv: apt install python3-venv"; exit 1; }
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r $<
	touch $@

# Every reader and the verbs against inputs drawn by coverage, FUZZ_SECONDS each; writes the table of the page.
FUZZ_SECONDS ?= 600
fuzz:
	$(PYTHON) .ci/fuzz.py $(FUZZ_SECONDS) --page docs/validity/fuzzing.md

# Drawn worlds, checked after every event: SWARM_WORLDS with assertions, five times as many without; writes the page.
# What breaks is shrunk to an experiment in target/swarm. A minute of CPU time for each 10,000 without.
SWARM_WORLDS ?= 2000
SWARM := target/swarm
SWARM_RUN := run --locked -p schedcast-verify --example swarm --
swarm:
	$(CARGO) $(SWARM_RUN) run $(SWARM_WORLDS) 0 $(SWARM)/debug.json
	$(CARGO) $(subst run --locked,run --release --locked,$(SWARM_RUN)) run $$((5 * $(SWARM_WORLDS))) 0 $(SWARM)/release.json
	$(CARGO) $(SWARM_RUN) page docs/validity/swarm.md $(SWARM)/debug.json $(SWARM)/release.json

# A fault at each system call of apply, undo, record, run and sweep, as root: half an hour on two
# cores. FAULTS_ONLY=apply takes one of them. Writes the table of the page, or its row.
faults:
	$(CARGO) test --locked --workspace --test faults -- --ignored --nocapture

# Mutants of the rules and of the advice, as many of each place: which changes does no test notice? The first of each
# place in the order that the seed shuffles them to, without those that do not compile. Written down before any ran.
MUTANT_SEED ?= 20261125
MUTANTS_EACH ?= 80
MUTANT_PLACES := $(addprefix crates/kernel/src/,fair bandwidth select rt) crates/advise
mutants:
	$(PYTHON) .ci/mutants.py draw $(MUTANT_SEED) $(MUTANTS_EACH) $(MUTANT_PLACES)

lint:
	$(CARGO) fmt --all --check
	$(PYTHON) -m doctest .ci/words.py && $(PYTHON) .ci/words.py
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" $(CARGO) doc --locked --workspace --no-deps --quiet
	$(PYTHON) .ci/licences.py
	$(CARGO) update --workspace --locked --quiet --manifest-path crates/fuzz/engine/Cargo.toml

# What the command and the Python package are built from, with licences and checksums, as CycloneDX.
bill:
	mkdir -p target
	$(PYTHON) .ci/licences.py bill target/bill-of-materials.json

# Numbers that others measured, predicted; writes the page and the pictures anew and fails when a band is missed.
studies: build
	$(SCHEDCAST) reproduce --pictures studies --format markdown > docs/studies.md

# The rules against the C of kernel trees (validation/trees fetches them), in drawn worlds: an hour, or as long as
# ORACLE_SEEDS histories of ORACLE_STEPS steps for each tree and world of 8 CPUs, more for smaller machines. Writes the
# table of the page.
ORACLE_SEEDS ?= 100
ORACLE_STEPS ?= 3000
oracle:
	$(CARGO) run --release --locked -p schedcast-tree --example oracle -- $(ORACLE_SEEDS) $(ORACLE_STEPS) docs/validation/oracle.md

# The documentation as pages for a browser, in target/book (cargo install mdbook).
book:
	mdbook build docs

# Every expectation anew from what the code gives today, and which files moved: snapshots, pages that are written from
# tables, transcripts, the ends of drawn worlds; then the instructions and the scores of the shipped program.
EXPECTED := answer book drawn hashes terminal transcripts
renew: export RENEW = 1
renew: export INSTA_UPDATE = always
renew:
	failed=0; \
	$(CARGO) test --locked --workspace --no-fail-fast --lib $(EXPECTED:%=--test %) || failed=1; \
	$(MAKE) instructions truth-sample || failed=1; \
	git --no-pager diff --stat; exit $$failed

# How soon the report and the served page are there, in Chromium: the tables of docs/report.md.
page-speed: build
	$(PYTHON) crates/present/report/measure.py $(SCHEDCAST)

# The pictures in it, taken anew with Chromium.
pictures: build
	$(PYTHON) crates/present/report/pictures.py $(SCHEDCAST) docs/pictures

# What people install, in target/packages: a static program for each architecture whose standard library is here (rustup
# target add x86_64-unknown-linux-musl aarch64-unknown-linux-musl), as archive, OCI image, .deb and .rpm; wheels and sdist.
PACKAGES := target/packages
VERSION := $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
RUSTLIB = $(shell rustc --print sysroot)/lib/rustlib
ARCHITECTURES ?= $(foreach one,x86_64 aarch64,$(if $(wildcard $(RUSTLIB)/$(one)-unknown-linux-musl),$(one)))
packages: $(ARCHITECTURES:%=package-%) wheels sums packages-test

# The linker that comes with Rust knows every architecture. It merges functions of the same code (no function is told from
# another by its address here) and packs relocations: 4 % of the size. A package's own opt-level in the profile makes cargo
# forget that its symbols are to go (12.9 MB instead of 11.3), so that is said here once more.
package-%: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER = rust-lld
package-%: export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_LINKER = rust-lld
# Paths of the machine that builds are no part of what it builds.
CARGO_HOME ?= $(HOME)/.cargo
RUST_SOURCES = $(shell rustc --print sysroot)/lib/rustlib/src/rust=/rustc/$(shell rustc -vV | sed -n 's/commit-hash: //p')
ANYWHERE = --remap-path-prefix=$(CURDIR)=/schedcast --remap-path-prefix=$(CARGO_HOME)=/cargo \
	--remap-path-prefix=$(RUST_SOURCES)
SMALLER = $(ANYWHERE) -Cstrip=symbols -Clink-arg=--icf=all -Clink-arg=--pack-dyn-relocs=relr
package-%: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUSTFLAGS = $(SMALLER)
package-%: export CARGO_TARGET_X86_64_UNKNOWN_LINUX_MUSL_RUSTFLAGS = $(SMALLER)
package-%:
	$(CARGO) build --profile dist --locked --target $*-unknown-linux-musl -p schedcast-cli
	HELPER=target/$(shell uname -m)-unknown-linux-musl/dist/schedcast packaging/packages.sh \
		target/$*-unknown-linux-musl/dist/schedcast $* $(VERSION) $(PACKAGES)

# A wheel for each C library and architecture whose standard library is here. Zig links them against glibc 2.28 and musl 1.2
# of any architecture (packaging/requirements.txt); what is installed from source needs Rust alone.
LIBRARIES ?= $(foreach one,x86_64 aarch64,$(foreach libc,gnu musl,$(if $(wildcard $(RUSTLIB)/$(one)-unknown-linux-$(libc)),$(one)-unknown-linux-$(libc))))
wheels: $(VENV)/ready $(LIBRARIES:%=wheel-%)
	$(VENV)/bin/maturin sdist --out $(PACKAGES)
wheel-%: export RUSTFLAGS = $(ANYWHERE)
wheel-%: $(VENV)/ready
	$(VENV)/bin/pip install --quiet --disable-pip-version-check -r packaging/requirements.txt
	PATH="$(abspath $(VENV))/bin:$$PATH" $(VENV)/bin/maturin build --quiet --profile dist --locked --zig --target $* \
		--compatibility $(if $(findstring musl,$*),musllinux_1_2,manylinux_2_28) --out $(PACKAGES)

# Whether a clone elsewhere, with another home of cargo, gives the same program byte for byte: ten minutes and a network.
ELSEWHERE := $(CURDIR)/target/elsewhere
reproducible: ONE = $(firstword $(ARCHITECTURES))
reproducible: PROGRAM = target/$(ONE)-unknown-linux-musl/dist/schedcast
reproducible:
	test -z "$$(git status --porcelain)" || { echo "not committed: a clone lacks it" >&2; exit 1; }
	rm -rf $(ELSEWHERE) && git clone --quiet . $(ELSEWHERE)/clone
	$(MAKE) package-$(ONE)
	CARGO_HOME=$(ELSEWHERE)/home $(MAKE) -C $(ELSEWHERE)/clone package-$(ONE)
	cmp $(PROGRAM) $(ELSEWHERE)/clone/$(PROGRAM)
	cd $(PACKAGES) && for each in *$(ONE)*.tar* *.deb; do cmp "$$each" $(ELSEWHERE)/clone/$(PACKAGES)/"$$each" || exit 1; done
	rm -rf $(ELSEWHERE)

# Sums of all of them in one order: the file that is signed, by `gpg --detach-sign --armor SHA256SUMS` or `cosign sign-blob`.
sums:
	cd $(PACKAGES) && find . -type f ! -name 'SHA256SUMS*' -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum > ../sums
	mv $(PACKAGES)/../sums $(PACKAGES)/SHA256SUMS

# In roots of their own, as root; DEBIAN_11 is the folder of a Debian 11 that debootstrap made.
packages-test:
	$(PYTHON) packaging/test.py $(PACKAGES) $(shell uname -m) $(VERSION)

# The fast tests of what computes a forecast, as programs for aarch64 under an emulator of its instructions (apt install
# qemu-user-static gcc-aarch64-linux-gnu: a library for benchmarks has three lines of C). Tests of doc comments are left
# out: rustdoc starts them by itself.
EMULATOR ?= qemu-aarch64-static
EMULATED ?= base kernel sim trace workload
test-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_LINKER = rust-lld
test-aarch64: export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_MUSL_RUNNER = $(EMULATOR)
test-aarch64: export CC_aarch64_unknown_linux_musl = aarch64-linux-gnu-gcc
test-aarch64: export CFLAGS_aarch64_unknown_linux_musl = -ffreestanding
test-aarch64:
	$(CARGO) test --locked --target aarch64-unknown-linux-musl $(EMULATED:%=-p schedcast-%) --lib --tests --no-fail-fast

# What recording costs by tracefs and by BPF: the table of docs/commands/record.md. Minutes, as root, with perf.
overhead: build
	$(PYTHON) validation/recorder_overhead.py --schedcast $(abspath $(SCHEDCAST))

# The table of docs/validation/speed.md: minutes, on an otherwise idle machine. SIMSO = a Python that has simso, if any.
SIMSO ?=
# A profile fits one program only, so the one that measures is laid out by three of its own loads.
SPEED := $(FAST)/release/examples/speed
speed:
	@test -n "$(PROFDATA)" || { echo "make speed needs llvm-profdata: rustup component add llvm-tools" >&2; exit 1; }
	rm -rf $(PROFILES)
	RUSTFLAGS="$(HERE_ONLY) -Cprofile-generate=$(PROFILES)" $(FAST_BUILD) -p schedcast-lab --example speed
	for load in w1 w1-machine w3; do LLVM_PROFILE_FILE=$(PROFILES)/run-$$load.profraw $(SPEED) one $$load > /dev/null; done
	$(PROFDATA) merge -o $(PROFILES)/all.profdata $(PROFILES)/run-*.profraw
	RUSTFLAGS="$(HERE_ONLY) -Cprofile-use=$(PROFILES)/all.profdata" $(FAST_BUILD) -p schedcast-lab --example speed
	$(CARGO) run --release --locked -p schedcast-lab --example speed -- page docs/validation/speed.md \
		$(SPEED) $(SIMSO)

# Benchmarks, servers and rt-app files on this kernel and in simulation, side by side: an hour, as root, on an otherwise
# idle machine with rt-app, rt-tests, perf, stress-ng, postgresql, sysbench, nginx and wrk.
TWINS := $(PYTHON) validation/twins.py $(abspath $(SCHEDCAST))
RT_APP := $(PYTHON) validation/rt_app.py $(abspath $(SCHEDCAST))
MEASURED := docs/validation
# What that machine does when it has nothing to do: it runs beside everything that is simulated here.
BACKGROUND := $(abspath recordings/dev-vm-idle)
# A machine that nobody described: `schedcast calibrate` did, minutes before the programs ran on it.
SECOND := $(MEASURED)/zen4-
twins: build
	$(TWINS) measure programs $(MEASURED)/programs-6.18.json
	$(TWINS) measure servers $(MEASURED)/servers-6.18.json
	$(RT_APP) measure $(MEASURED)/rt-app-6.18.json
	$(MAKE) twin-pages

# The same pages from what was measured before, after a change of the model.
twin-pages: build
	$(PYTHON) validation/limits.py $(abspath $(SCHEDCAST)) $(MEASURED)/bandwidth-6.18.json dev-vm $(MEASURED)/bandwidth-6.18.md
	$(TWINS) report programs $(MEASURED)/programs-6.18.json dev-vm $(MEASURED)/programs-6.18.md
	$(TWINS) report servers $(MEASURED)/servers-6.18.json dev-vm $(MEASURED)/servers-6.18.md
	$(TWINS) report programs $(SECOND)programs.json $(SECOND)machine.toml $(SECOND)programs.md
	$(RT_APP) report $(MEASURED)/rt-app-6.18.json dev-vm $(MEASURED)/rt-app-6.18.md
	$(RT_APP) report $(SECOND)rt-app.json $(SECOND)machine.toml $(SECOND)rt-app.md
	for each in $(MEASURED)/calibration-6.18 $(SECOND)calibration; do \
		$(TWINS) report calibration $$each.json $$each-machine.toml $$each.md || exit 1; \
	done

# hackbench on 128 and 224 CPUs beside reports of the kernel test robot: simulations only, half an hour of CPU time.
robot:
	$(CARGO) run --release --locked -p schedcast-verify --example report_twins -- robot validation/robot.toml $(MEASURED)/robot.md

# What upgrades and single commits did, as others published it, beside forecasts: simulations only, minutes of CPU time.
upgrades:
	cd validation && $(CARGO) run --release --locked -p schedcast-verify --example report_twins -- upgrades upgrades.toml \
		upgrade-reasons.toml $(abspath $(MEASURED))/upgrades.md

# The experiments of validation/ in simulation and for real, on this kernel and on those of virtual machines: an hour, as
# root, on an otherwise idle machine with stress-ng, rt-app, rt-tests, postgresql, nginx, wrk and qemu-system-x86.
VALIDATION := $(abspath docs/validation)
HERE := $(VALIDATION)/host-$(shell uname -r | cut -d. -f1,2)
EXPERIMENTS := bursts.toml latencies.toml limits.toml messages.toml nested.toml periodic.toml servers.toml shares.toml
REASONS := --reasons $(abspath validation/reasons.toml)
validate: build kernels
	cd validation && $(abspath $(SCHEDCAST)) validate $(EXPERIMENTS) --results $(HERE).json --page $(HERE).md $(REASONS) \
		--background $(BACKGROUND)
	$(MAKE) validate-6.1 validate-6.12

# The same pages from what was measured before, after a change of the model.
validate-pages: build kernels
	cd validation && $(abspath $(SCHEDCAST)) validate $(EXPERIMENTS) --measured $(HERE).json --results $(HERE).json \
		--page $(HERE).md $(REASONS) --background $(BACKGROUND)
	$(MAKE) AGAIN=yes validate-6.1 validate-6.12

# An emulated guest has one CPU and says nothing about how long work takes, so it has experiments of its own for some.
IN_GUEST := ../shares.toml ../nested.toml ../limits.toml bursts.toml periodic.toml messages.toml
validate-%: build kernels
	cd validation/guest && SCHEDCAST_KERNELS="$(KERNELS)" $(abspath $(SCHEDCAST)) validate --on vm:$* $(IN_GUEST) \
		--results $(VALIDATION)/vm-$*.json --page $(VALIDATION)/vm-$*.md $(REASONS) \
		$(if $(AGAIN),--measured $(VALIDATION)/vm-$*.json)

# Guests with two CPUs, translated on a thread for each: placement, shares and limits. Their machine was described by
#   SCHEDCAST_ACCELERATOR=MTTCG schedcast calibrate --on vm:6.18 --output docs/validation/guest2-machine.toml
validate-two-%: build kernels
	cd validation/guest2 && SCHEDCAST_ACCELERATOR=MTTCG SCHEDCAST_KERNELS="$(KERNELS)" $(abspath $(SCHEDCAST)) validate \
		--on vm:$* messages.toml shares.toml --results $(VALIDATION)/vm2-$*.json --page $(VALIDATION)/vm2-$*.md $(REASONS) \
		$(if $(AGAIN),--measured $(VALIDATION)/vm2-$*.json)

# Twelve real services under seven limits, recorded, forecast, and their advice applied: an hour and a half as root, on an
# otherwise idle machine with cgroup v1 and the packages of validation/services/services.toml (bench.py install).
BENCH := $(abspath target/services)
SERVICES_PAGE := docs/validity/services-bench.md
SERVICES ?=
services: build
	$(PYTHON) validation/services/bench.py check
	$(PYTHON) validation/services/bench.py measure $(SERVICES) --work $(BENCH) --schedcast $(abspath $(SCHEDCAST))
	$(PYTHON) validation/services/advise.py $(SERVICES) --work $(BENCH) --schedcast $(abspath $(SCHEDCAST))
	$(MAKE) services-pages

# The page from what was measured before, after a change of the model; what was applied is not applied again.
services-pages: build
	$(PYTHON) validation/services/score.py --schedcast $(abspath $(SCHEDCAST)) --json $(BENCH)/score.json \
		$(patsubst %/raw.json,%,$(wildcard $(BENCH)/*/raw.json))
	$(PYTHON) validation/services/page.py keep $(BENCH)
	$(PYTHON) validation/services/page.py write $(BENCH)/score.json $(SERVICES_PAGE)

# A hog whose throttling is decided by phases alone, and stars of comparisons without an effect: minutes of simulation.
single-hog: build
	$(PYTHON) validation/single_hog.py $(abspath $(SCHEDCAST)) $(MEASURED)/single-hog.md $(MEASURED)/single-hog-guests.json
# The same hog on stock kernels in virtual machines: some two minutes each. GUESTS is a folder with vmlinuz-… and config-….
GUESTS ?= $(KERNELS)
SERIES ?= 6.1 6.12
single-hog-guests: kernels
	$(PYTHON) validation/single_hog_guests.py $(MEASURED)/single-hog-guests.json $(GUESTS) $(SERIES)
null-test: build
	$(PYTHON) validation/null_test.py $(abspath $(SCHEDCAST)) $(MEASURED)/null-test.md

# Two weights and a limit on both other kernels in seconds; skips, saying so, without qemu or kernels (make kernels).
validate-quick: build
	SCHEDCAST="$(abspath $(SCHEDCAST))" $(CARGO) test --locked --workspace --test on_vm -- --ignored --nocapture

# Record, what-if, apply and undo by tracefs and by BPF, here and under Debian's kernels: a minute for each. Renews the page's
# table where all of them are there; GUESTS is their folder. Skips, saying so, without root, qemu or a kernel.
circle: build
	SCHEDCAST="$(abspath $(SCHEDCAST))" SCHEDCAST_KERNELS="$(GUESTS)" $(CARGO) test --locked --workspace --test circle \
		-- --ignored --nocapture

# Debian's cloud kernels for virtual machines, unpacked and not installed.
KERNELS := $(abspath target/kernels/boot)
KERNEL_PACKAGES := linux-image-cloud-amd64 linux-image-6.12-cloud-amd64
kernels:
	mkdir -p target/kernels
	cd target/kernels && for meta in $(KERNEL_PACKAGES); do \
		package=$$(apt-cache depends $$meta | sed -n 's/.*Depends: //p' | head -n 1); \
		ls boot/vmlinuz-$${package#linux-image-} >/dev/null 2>&1 && continue; \
		apt-get download $$package && dpkg-deb --fsys-tarfile $${package}_*.deb | tar -x ./boot && rm $${package}_*.deb; \
	done

clean:
	$(CARGO) clean
