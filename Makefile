# What a user of the repository types. Everything runs on two cores without a network, once the
# packages of Cargo.lock are there.
CARGO ?= cargo
SCHEDCAST := target/release/schedcast

.PHONY: demo test lint bench build clean

build:
	$(CARGO) build --release --locked -p schedcast-cli

# A real, throttled PostgreSQL: fit to its recording, then seven other limits, predicted next to measured.
demo: build
	$(SCHEDCAST) what-if recordings/postgres-quota --measured

# Fast checks first; tests that need the live kernel skip, saying so, where it cannot be had.
test: lint
	$(CARGO) test --locked --workspace --no-fail-fast

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings

bench:
	$(CARGO) bench --locked -p schedcast-sim

clean:
	$(CARGO) clean
