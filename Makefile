# Two commands on a fresh machine with Python 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test format benchmark clean

demo: .venv/installed
	$(BIN)/dnc demo

test: .venv/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n 2

format: .venv/installed-dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

benchmark: .venv/installed-dev
	$(BIN)/python -m benchmarks.clustering
	$(BIN)/python -m benchmarks.step
	$(BIN)/python -m benchmarks.loader

.venv/installed: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --constraint constraints.txt --editable .
	touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/python -m pip install --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv dnc-demo .mypy_cache .ruff_cache .pytest_cache .hypothesis
