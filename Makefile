# The targets a newcomer guesses. Each sets up what it needs; `make demo` and `make test` work on a bare checkout.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOWEST := .venv-lowest
EXTRAS := rdf search service tensorboard tune
CORE   := runs kernels models training evaluation graph search experiments cli
comma  := ,
space  := $(subst ,, )

.PHONY: help install demo test test-slow soak test-lowest check check-js coverage constraints docs dist check-dist format bench clean

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

check-js:        ## the page's JavaScript, by ESLint; skipped where npm is not installed
	@if command -v npm >/dev/null; \
	then npm ci --prefix tools/js --silent --no-audit --no-fund && npm run --prefix tools/js --silent lint; \
	else echo "check-js: npm is not installed, so the page's JavaScript was not checked"; fi

test: check      ## everything above and the tests (under 10 minutes)
	$(BIN)/pytest -n auto --dist worksteal

test-slow: install  ## servers, browsers, long kills, full data sets (under 45 minutes)
	$(BIN)/pytest -m slow

soak: install    ## an hour of mixed load on a service, a hundred kills, ten thousand made-up files to import
	$(BIN)/pytest -m soak

coverage: install  ## the tests again, with the share of lines and branches that they run
	$(BIN)/pytest -n auto --dist worksteal --cov

test-lowest:     ## the tests of the core packages with the lowest versions that pyproject.toml allows, torch excepted
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet packaging
	$(LOWEST)/bin/python tools/lowest_versions.py $(EXTRAS) > $(LOWEST)/constraints.txt
	grep '^torch==' constraints.txt >> $(LOWEST)/constraints.txt
	$(LOWEST)/bin/pip install --quiet -c $(LOWEST)/constraints.txt -e '.[$(subst $(space),$(comma),$(EXTRAS))]' pytest pytest-xdist hypothesis httpx
	$(LOWEST)/bin/pytest -n auto --dist worksteal -W default $(addprefix tests/,$(CORE))

constraints: install  ## rewrite constraints.txt with the versions that are installed
	$(BIN)/python tools/write_constraints.py

dist: install    ## sdist and wheel in dist/, their metadata checked
	$(BIN)/python tools/check_distribution.py --build-only

check-dist: install  ## `make dist`, and the wheel tried in an empty environment without the repository
	$(BIN)/python tools/check_distribution.py

bench: install   ## speed against peers and against the plain computation; writes results/
	$(BIN)/python -m benchmarks

docs: install    ## the documentation as a site in site/, links and anchors checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: install  ## rewrite the files the way `make check` wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:           ## remove what the targets above made
	rm -rf $(VENV) $(LOWEST) .coverage demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist site
