# Two commands on a fresh machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test browser format benchmark clean

demo: .venv/installed
	$(BIN)/dnc demo

test: .venv/installed-dev browser
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

# The pages are tested in Chromium. Where it may not be installed, these tests are skipped.
browser:
	@if command -v chromium || command -v chromium-browser || command -v google-chrome; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  { apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
	  || echo "Chromium could not be installed: the tests in a browser are skipped."; \
	else echo "There is no Chromium, and it can only be installed by root with apt-get:" \
	  "the tests in a browser are skipped."; fi

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: .venv/installed-dev
	$(BIN)/python -m benchmarks.clustering
	$(BIN)/python -m benchmarks.step
	$(BIN)/python -m benchmarks.loader
	$(BIN)/python -m benchmarks.report
	$(BIN)/python -m benchmarks.segmentation
	$(BIN)/python -m benchmarks.cost
	$(BIN)/python -m benchmarks.neighbours

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --constraint constraints.txt --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv dnc-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
