# The targets a newcomer guesses. Each sets up what it needs; `make demo` and `make test` work on a bare checkout.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.PHONY: help install demo test test-slow check format bench clean

help:            ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

install: $(VENV)/.installed        ## a virtual environment with everything in it

$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "capse needs Python 3.11 or newer")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet -c constraints.txt -e '.[dev]'
	@touch $@

demo: install    ## train TransE, then CapsE from it, on the embedded graph; ends with an HTML report
	$(BIN)/capse demo --out demo

check: install   ## style, types, and who imports whom
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check      ## everything above and the tests (under 10 minutes)
	$(BIN)/pytest -n auto --dist worksteal

test-slow: install  ## servers, browsers, long kills, full data sets (under 30 minutes)
	$(BIN)/pytest -m slow

bench: install   ## speed against peers and against the plain computation; writes results/
	$(BIN)/python -m benchmarks

format: install  ## rewrite the files the way `make check` wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:           ## remove what the targets above made
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
