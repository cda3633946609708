# The verbs of this project; `make` alone lists them.
PYTHON3 ?= python3
WORKERS ?= 2
RUN := .venv/bin/python -m

.DEFAULT_GOAL := help
.PHONY: help setup fmt format lint type test test-long processors mutate faults test-gpu bench screenshots docs forecasts lock all packages

help: ## this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: ## make .venv, with what the tests need; start-ui.py does the same without that
	@$(PYTHON3) start-ui.py --setup-only --extra test

fmt: setup ## format every file and mend what lint can mend
	@$(RUN) ruff format .
	@$(RUN) ruff check --fix .

format: setup ## is every file formatted?
	@$(RUN) ruff format --check .

lint: setup ## does every file keep the rules of ruff, and American spelling?
	@$(RUN) ruff check .
	@.venv/bin/codespell $(shell git ls-files '*.py' '*.md' '*.toml' 2>/dev/null)

type: setup ## does everything fit together, for mypy in its strict mode?
	@$(RUN) mypy
	@$(RUN) mypy --strict start-ui.py

# All of the gates and the tests run, also where one fails: so that one run shows everything. Types are
# checked beside the tests; mypy keeps what it found in .mypy_cache.
# Tests that compare numbers run once more as other processors compute them.
test: setup packages ## format, lint, types and every test; sets up what it needs
	@failed=""; types=$$(mktemp); \
	$(MAKE) --no-print-directory type >$$types 2>&1 & checking=$$!; \
	for gate in format lint; do \
		$(MAKE) --no-print-directory $$gate || failed="$$failed $$gate"; \
	done; \
	$(RUN) pytest -n $(WORKERS) --dist worksteal; code=$$?; \
	$(RUN) tests.processors --workers $(WORKERS) || failed="$$failed processors"; \
	wait $$checking || failed="$$failed type"; cat $$types; rm -f $$types; \
	if [ -n "$$failed" ]; then echo "make test: not passed, see above:$$failed"; fi; \
	if [ -n "$$failed" ] && [ $$code -eq 0 ]; then code=1; fi; \
	exit $$code

processors: setup ## the tests that compare numbers, as other processors and more threads compute them
	@$(RUN) tests.processors --all --workers $(WORKERS)

mutate: setup ## plant some twenty faults one at a time: do the tests find them?
	@$(RUN) tests.mutate

test-long: setup packages ## the random campaigns and cross products that `make test` leaves out
	@$(RUN) pytest -n $(WORKERS) --dist worksteal -m long

faults: setup ## kill runs and the queue, cut, fill the disk, signal, flip bits, hostile inputs: does everything survive?
	@$(RUN) tests.faults

test-gpu: setup ## the tests that need an NVIDIA graphics card
	@$(RUN) pytest -m cuda

bench: setup ## measure speed and memory; prints figures, judges nothing; OPTIONS=--quick shows in three minutes that it runs
	@$(RUN) tests.benchmarks.cpu $(OPTIONS)

screenshots: setup packages ## regenerate the screenshots in docs/images
	@$(RUN) tests.ui.screenshots

lock: setup ## choose the versions of all packages anew, and write them to constraints.txt
	@$(RUN) tests.lock

docs: setup ## regenerate docs/settings.md from the settings
	@$(RUN) onetrainer.presets.settings_reference > docs/settings.md

forecasts: setup ## forecast memory and work of the built-in presets that have changed: configs/forecasts.json
	@$(RUN) modules.forecast.preset_memory

all: fmt test ## mend, then check everything: before every commit

packages:
	@bash .ci/window-packages
