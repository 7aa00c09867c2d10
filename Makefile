# Two commands do everything on a fresh machine: `make headline` and `make test`.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.PHONY: headline test check install slow mutants exhibits clean

install: $(STAMP)

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

# Any `key=value` goes through: make headline ARGS="scene=../shared/data/bonsai images=images_4 steps=300"
headline: $(STAMP)
	$(BIN)/odin-bench reproduce headline $(ARGS)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

test: check
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow and not gpu" $(ARGS)

# Bugs seeded into the runtime must make the exactness tests fail.
mutants: $(STAMP)
	$(BIN)/python -m tests.mutants

# Three exhibits of scale=smoke; then one cell is taken away, and only that one may run again.
exhibits: $(STAMP)
	$(BIN)/python -m tests.exhibits

slow: $(STAMP)
	$(BIN)/python -m pytest -m slow $(ARGS)

clean:
	rm -rf $(VENV) build *.egg-info
