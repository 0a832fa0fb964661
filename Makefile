# Two commands for a fresh machine with Python 3.11+: `make demo` and `make test`. Both set up .venv by themselves.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test lint types tests slow clean

# The whole job on a procedural town, from photos to updated splats, 4 to 10 minutes on two cores with the set-up: `make demo`, or
# `make demo SCENE=town` for a larger one, which takes longer.
SCENE ?= mini
FOCAL_mini := 343
FOCAL_town := 457
RUN := out/$(SCENE)-run

demo: out/$(SCENE)/scene.json
	@echo "The whole job on $(SCENE): for mini 4 to 10 minutes on two cores, set-up and town included. Ctrl-C stops it, the same command goes on."
	$(BIN)/skyanchor update --scaffold out/$(SCENE)/aerial --ground out/$(SCENE)/ground --out $(RUN) --camera f=$(FOCAL_$(SCENE))
	$(BIN)/skyanchor evaluate $(RUN) --truth out/$(SCENE)/ground/truth
	$(BIN)/skyanchor report $(RUN) --truth out/$(SCENE)/ground/truth
	@echo "Open $(RUN)/report.html, or: $(BIN)/skyanchor view $(RUN)"

out/%/scene.json: | $(STAMP)
	$(BIN)/skyanchor town out/$* --preset $*

test: lint types tests

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

tests: $(STAMP)
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive $(BIN)/pytest -n auto --dist loadfile --durations=30 --durations-min=2 --cov --cov-report=term:skip-covered

slow: $(STAMP)
	$(BIN)/pytest -m slow

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

clean:
	rm -rf .venv out
