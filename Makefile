# The few things to type. Each target is a short list of commands that can also be run by hand.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help up test soak soak-postgres chaos fuzz bench lint docs man report clean

TARGET := $(or $(CARGO_TARGET_DIR),target)

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/make \1\t\2/' | expand -t 22

up: compiler ## Build, then start scheduler and worker on http://localhost:8080 (data in ./data)
	cargo build --release --locked --bin muster --bin muster-scheduler --bin muster-worker
	$(TARGET)/release/muster up

test: compiler ## Everything: formatting, lints, unit, store, end-to-end and schema tests; installs what they need
	@mkdir -p $(TARGET) && date +%s > $(TARGET)/test-began
	scripts/install-test-deps
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	cargo build --workspace --locked
	cargo --config "target.'cfg(unix)'.runner='$(CURDIR)/scripts/with-test-timeout'" test --workspace --locked --no-fail-fast 2>&1 \
		| tee $(TARGET)/test-output.txt || { scripts/test-summary $(TARGET); exit 1; }
	scripts/schemathesis
	@scripts/test-summary $(TARGET)

soak: compiler ## Simulate clusters that go wrong for SOAK (10m), or the one of MUSTER_SIM_SEED; stops at a broken promise
	cargo run --locked --package muster-sim --example soak -- $(or $(SOAK),10m)

chaos: compiler ## Kill and freeze everything under load: CHAOS (20m) at the most, KILLS (500), SEED; tells broken promises
	scripts/install-test-deps
	cargo build --locked --workspace --bins
	cargo run --locked --package muster-tests --example chaos -- --for $(or $(CHAOS),20m) --kills $(or $(KILLS),500) $(if $(SEED),--seed $(SEED))

fuzz: compiler ## Send FUZZ (100000) made-up requests, of the SEED, to schedulers with and without accounts; tells broken promises
	cargo build --locked --workspace --bins
	cargo run --locked --package muster-tests --example fuzz -- --count $(or $(FUZZ),100000) $(if $(SEED),--seed $(SEED))

soak-postgres: compiler ## Work of the database for a job over MINUTES (15); it must not grow
	cargo run --locked --package muster-store-postgres --example postgres_soak -- $(or $(MINUTES),15)

bench: compiler ## Measure the real binaries beside the limits of this machine; adds a line to docs/bench-history.csv
	cargo build --release --locked --workspace --bins
	cargo run --release --locked --package muster-bench -- --trend docs/bench-history.csv

lint: ## Formatting and lints only
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings

docs: ## Write the generated pages: docs/reference and docs/state-machine.md
	cargo run --locked --bin muster -- reference docs/reference
	MUSTER_WRITE_DOCS=1 cargo test --locked --package muster-worker reference_page
	MUSTER_UPDATE_DOCS=1 cargo test --locked --package muster-domain --test state_machine

report: compiler ## Play all policies on the traces in MUSTER_TRACES and write docs/scheduling-report.md
	cargo run --locked --bin muster -- scheduling-report docs/scheduling-report.md --traces "$${MUSTER_TRACES:-../shared/traces}"

man: compiler ## Write the man pages of muster into target/man
	cargo run --locked --bin muster -- man $(TARGET)/man

.PHONY: compiler
compiler:
	@command -v cargo > /dev/null || { echo "A Rust toolchain is needed, with cargo on the PATH."; exit 1; }
	@command -v cc > /dev/null || { echo "A C compiler is needed: apt-get install build-essential"; exit 1; }

clean: ## Remove what was built (never ./data)
	cargo clean
	rm -rf .venv
