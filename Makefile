# What people type, and what CI calls. Each target installs what it is missing.

.DEFAULT_GOAL := help
.PHONY: help demo build dist profile test mutations conformance cache-study lint generated studies fuzz packages package bench bench-sim bench-search bench-cluster bench-l4 performance tools clean

# rustup's default home, and where Debian keeps haproxy and nginx.
export PATH := $(HOME)/.cargo/bin:$(PATH):/usr/sbin:/sbin

help: ## list the targets
	@sed -n 's/^\([a-z0-9-]*\):.*## /  make \1	/p' $(MAKEFILE_LIST)

# Where Rust links by lld, that keeps one of equal functions, and packs what is relocated at the start.
ifeq ($(shell uname -m),x86_64)
SMALL = -C link-arg=-Wl,--icf=all -C link-arg=-Wl,-z,pack-relative-relocs
endif
# What is built for the other machine, and for no C library at all.
FOREIGN = $(if $(filter x86_64,$(shell uname -m)),aarch64,x86_64)-unknown-linux-gnu
FOREIGN_ARCH = $(if $(filter aarch64-%,$(FOREIGN)),arm64,amd64)
STATIC = $(shell uname -m)-unknown-linux-musl
DIST = cargo rustc --profile dist --package loadline --features embedded-pages --bin loadline
# How often the parts of that binary ran that requests pass through (`make profile`): what ran often is inlined.
PROFILE = $(CURDIR)/target/loadline.profdata
PROFILE_USE = -C profile-use=$(PROFILE) -C llvm-args=-no-pgo-warn-mismatch
# Less of what ran often counts as hot than LLVM means by it, so that the binary stays below its limit.
HOT = -C llvm-args=-hot-callsite-threshold=500 -C llvm-args=-profile-summary-cutoff-hot=850000 \
      -C llvm-args=-inlinecold-threshold=5
WITH_PROFILE = RUSTC_WRAPPER=$(CURDIR)/scripts/with-profile PROFILE_FLAGS

build: ## build the binary, quickly: target/release/loadline
	@scripts/setup build
	cargo build --release --package loadline

dist: ## the binary that packages carry, optimised as a whole: target/dist/loadline, symbols apart
	@scripts/setup dist
	@scripts/profile unpack
	$(WITH_PROFILE)="$(PROFILE_USE)" $(DIST) -- $(SMALL) $(HOT)
	@scripts/profile check
	scripts/dist target/dist/loadline 30000000

profile: ## count what runs often under load, by which `make dist` optimises: before a release, 45 min
	@scripts/setup profile
	cargo build --profile dist --package loadline-bench
	$(WITH_PROFILE)="-C profile-generate" $(DIST) --target-dir target/counting -- $(SMALL) -C profile-generate
	scripts/profile count

demo: build ## two regions held to their capacity: 90 s, then target/demo/report.html
	./target/release/loadline demo --report target/demo/report.html

packages: ## Debian packages for amd64 and arm64, a static binary and a container image in target/packages, each tried
	@scripts/setup packages
	$(MAKE) dist
	scripts/cross $(FOREIGN)
	scripts/cross $(STATIC)
	$(MAKE) package BINARY=target/dist/loadline
	LOADLINE=target/dist/loadline scripts/packages target/$(FOREIGN)/dist/loadline
	scripts/packages target/$(STATIC)/dist/loadline
	scripts/try-unpacked target/packages/loadline_*_$(FOREIGN_ARCH).deb
	scripts/try-unpacked target/packages/loadline_*_static.tar.xz

package: ## the Debian package and the container image of BINARY=file, tried in a clean root
	@scripts/setup packages
	rm -rf target/packages
	scripts/packages $(BINARY)
	scripts/try-package target/packages/loadline_*.deb

test: ## run every test
	@scripts/setup test
	@mkdir -p target && rm -f target/skipped-tests
	LOADLINE_SKIPPED=$(CURDIR)/target/skipped-tests cargo test --workspace
	@scripts/skipped target/skipped-tests

mutations: ## faults in core, each of which the swarm must find; ONLY=queue for some
	@scripts/setup test
	cargo test --workspace --test mutations -- --nocapture

conformance: ## the rules of caching on loadline, nginx, Varnish and Traffic Server: docs/studies/cache.md
	@scripts/setup conformance
	cargo test --workspace --test cache_peers -- --nocapture

cache-study: conformance ## that page with hits, herds and outages of the four; 1 h, BENCH=--quick 15 min
	cargo build --workspace --bin loadline --bin loadline-bench
	cargo bench --package loadline-core --bench eviction -- --json $(CURDIR)/target/eviction.json $(BENCH)
	target/debug/loadline-bench run --only "cache, popularity" --only "cache, herd" \
		--only "cache, slow object" --only "cache, server down" --json target/cache-study.json $(BENCH) || true
	cargo run --package loadline --example cache-study -- \
		docs/studies/cache.md target/cache-study.json target/eviction.json

lint: ## check formatting, lints, documentation, and licences and sources of dependencies
	@scripts/setup lint
	cargo fmt --check
	scripts/names
	cargo clippy --workspace --all-targets -- -D warnings
	scripts/deny
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --lib --no-deps --quiet

generated: ## write the pages of docs/ that are made of the code
	@scripts/setup build
	cargo build --workspace --bin loadline --example every-key
	target/debug/examples/every-key examples/every-key.toml
	scripts/generated target/debug/loadline

studies: ## every study of the lab, shortened and judged; full: loadline lab run
	@scripts/setup studies
	$(if $(BINARY),,$(MAKE) build)
	scripts/studies $(or $(BINARY),./target/release/loadline) $(STUDIES)

fuzz: ## fuzz each parser of strangers' bytes for 30 s; FUZZ="300 rules" for one, longer
	@scripts/setup fuzz
	scripts/fuzz $(FUZZ)

bench: dist ## compare with HAProxy, nginx, Envoy and Caddy; BENCH="--quick --only small" narrows it
	@scripts/setup bench
	cargo build --profile dist --package loadline-bench
	./target/dist/loadline-bench run --json target/bench.json $(BENCH)

bench-sim: ## how many requests are simulated per second, and what that grows with
	@scripts/setup build
	_RJEM_MALLOC_CONF=thp:always,metadata_thp:always cargo bench --package loadline-sim --bench throughput -- --json $(abspath target/bench-sim.json)

bench-search: ## how long a capacity search takes and how right it is, by kind of server
	@scripts/setup build
	cargo bench --package loadline-load --bench search --profile release -- $(BENCH)

bench-cluster: ## edges that share a real etcd, judged: waste, overshoot, writes, faults; SECONDS=60 EDGES=50 FAULT_SECONDS=180
	@scripts/setup test
	cargo test --package loadline --test cluster_bench -- --nocapture --test-threads=1

bench-l4: ## nanoseconds to forward a packet, as root; KATRAN_OBJECT=file beside Katran
	@scripts/setup bench-l4
	$(if $(KATRAN_OBJECT),KATRAN_OBJECT=$(abspath $(KATRAN_OBJECT))) \
	cargo bench --package loadline-l4 --bench forward -- $(BENCH)

performance: dist ## the same as a page, docs/performance.md: an idle machine, 40 min
	@scripts/setup bench
	cargo build --profile dist --package loadline-bench
	./target/dist/loadline-bench run --json target/bench.json >target/performance.txt || true
	./target/dist/loadline-bench plot target/bench.json >target/performance-scale.svg
	mv target/performance-scale.svg docs/performance-scale.svg
	bench/performance.sh target/performance.txt >target/performance.md
	mv target/performance.md docs/performance.md

tools: dist ## what six load generators report for the same work: docs/load-tools.md, 3 min
	@scripts/setup tools
	bench/tools.sh target/dist/loadline >target/load-tools.md
	mv target/load-tools.md docs/load-tools.md

clean: ## remove what was built
	cargo clean
