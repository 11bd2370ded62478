# Custom Gradients: a hands-on course. `make lab` opens it, `make test` tests it.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
LAB_ARGS ?=
JOBS ?= 2

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export COURSE_PROGRESS ?=

.PHONY: lab test lint test-notebooks test-stability test-hostile grade release sync docs pictures bench bench-explorers bench-grading clean

lab: $(VENV)/.lab  ## open the course in JupyterLab
	@echo "Opening JupyterLab at the first lesson."
	@$(BIN)/course lab $(LAB_ARGS)

$(BIN)/python:
	@echo "Making a virtual environment in $(VENV)."
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.lab: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the course (torch is large; this is needed once)."
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e .
	@touch $@

$(VENV)/.test: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing the course with its tests."
	@$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[test]'
	@touch $(VENV)/.lab $@

test: COURSE_PROGRESS := off
test: lint  ## run everything: lint, unit tests, exercises, notebooks, browser
	@echo "Notebooks against their sources."
	@$(BIN)/course sync --check
	@echo "Unit tests, doctests, exercises, grading, notebooks and the browser."
	@$(BIN)/python -m pytest -q --doctest-modules helpers
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations 15 tests

lint: $(VENV)/.test
	@echo "Lint, format and import rules."
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

test-notebooks: $(VENV)/.test  ## every notebook under nbval
	@COURSE_PROGRESS=off $(BIN)/python -m pytest tests/notebooks

test-stability: $(VENV)/.test  ## every notebook five times, under other hash seeds and thread counts
	@COURSE_STABILITY=full $(BIN)/python -m pytest --durations 60 tests/notebooks

test-hostile: $(VENV)/.test  ## the whole hostile corpus of the grader
	@COURSE_HOSTILE=full $(BIN)/python -m pytest tests/grading

SUBMISSIONS ?= submissions
OUT ?= graded
grade: $(VENV)/.lab  ## grade a folder: make grade SUBMISSIONS=folder OUT=folder
	@$(BIN)/course grade $(SUBMISSIONS) --out $(OUT)

release: $(VENV)/.lab  ## the learners' bundle, in $(OUT)
	@$(BIN)/course release $(OUT)

sync: $(VENV)/.test  ## refresh outputs, exercises and generated pages
	@$(BIN)/course sync
	@$(MAKE) docs

docs: $(VENV)/.test  ## pages generated from code
	@$(BIN)/python -m helpers.functions.support_matrix --out docs/support_matrix.md
	@$(BIN)/python -m helpers.clinic.catalogue --out docs/clinic.md
	@$(BIN)/python tests/misconceptions/table.py --out docs/misconceptions.md

pictures: $(VENV)/.test  ## the stills in docs/images
	@$(BIN)/python -m helpers.explorers.pictures

bench: $(VENV)/.test  ## time and memory of the Functions
	@$(BIN)/python tests/benchmarks/functions.py --out docs/benchmarks/functions.json

bench-explorers: $(VENV)/.test  ## latency of the explorers in a real browser
	@$(BIN)/python tests/benchmarks/explorers.py --out docs/benchmarks/explorers.json

bench-grading: $(VENV)/.test  ## throughput of the grader
	@$(BIN)/python tests/benchmarks/grading.py --out docs/benchmarks/grading.json

clean:
	rm -rf $(VENV) artifacts build dist *.egg-info
