# The commands of the project. `make help` lists them.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
export PYTHONUTF8 := 1
# pages and tests already share the cores: threads of their own would wait for each other
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := all
.PHONY: all test serve bench messages english exercises solutions report mutants clean help

all: $(READY)  ## build the site into _build/site and the exercises into exercises
	@$(RUN) -m press build

test: $(READY)  ## run everything that guards the project
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(RUN) -m press check
	@$(RUN) -m pytest

serve: all  ## build, then serve the site on http://localhost:8000
	@$(RUN) -m http.server --bind localhost --directory _build/site 8000

bench: $(READY)  ## measure speed, as ratios
	@$(RUN) book/code/benchmark.py

messages: $(READY)  ## refresh the catalogues after an English edit; list what to translate
	@$(RUN) -m press messages

exercises: $(READY)  ## release the assignments only
	@$(RUN) -m press exercises

solutions: $(READY)  ## run the corrected assignments, for students after the deadline
	@$(RUN) -m press solutions

report: $(READY)  ## report on a graded class: make report ASSIGNMENT=layer_norm
	@$(RUN) -m classroom.report $(ASSIGNMENT)

mutants: $(READY)  ## prove the assignments: grade every known mistake (about half an hour)
	@$(RUN) -m classroom.mutants

english: $(READY)  ## build the English pages alone, before they are translated
	@$(RUN) -m press english

clean:  ## remove all that was built (the environment stays)
	rm -rf _build

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Python 3.11 or newer is needed, and '$(PYTHON)' is not: try make PYTHON=python3.12"; exit 1; }
	@echo "Setting up $(VENV) (once; a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --disable-pip-version-check --progress-bar on -r requirements.txt
	@touch $@
