# The commands of the project. `make help` lists them.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
READY := $(VENV)/.ready
# where torch is looked for first: this index has it for the CPU alone, PyPI's Linux wheels bring
# CUDA; make TORCH_INDEX= takes PyPI's
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PIP := $(RUN) -m pip --disable-pip-version-check install --progress-bar on
export PYTHONUTF8 := 1
# pages and tests already share the cores: threads of their own would wait for each other
export OMP_NUM_THREADS ?= 1
# each of some hundred processes would compile the package anew
export PYTHONDONTWRITEBYTECODE :=

# other people's models, and a tool to compare with
ZOO := timm==1.0.31 torch-audit==0.3.0 torchvision==0.28.0 transformers==5.23.0

# for one script of the book, tested in its interpreter
TRITON := triton==3.9.0

PARALLEL := --numprocesses=logical --dist=loadgroup

.DEFAULT_GOAL := all
.PHONY: all pdf test proofs serve bench bench-watch bench-grading bench-site examine-zoo models-zoo triton messages english exercises solutions grade written report mutants clean help

all: $(READY)  ## build the site into _build/site and the exercises into exercises
	@$(RUN) -m press build

pdf: $(READY)  ## print each language of the site as one PDF (needs Chromium or Chrome)
	@$(RUN) -m press pdf

test: $(READY)  ## run everything that guards the project, on all cores
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(RUN) -m press check
	@$(RUN) -m pytest $(PARALLEL)

proofs: $(READY)  ## run what `make test` only samples, and `make mutants`
	@$(RUN) -m pytest $(PARALLEL) -m proof
	@$(RUN) -m classroom.mutants

serve: all  ## build, then serve the site on http://localhost:8000
	@$(RUN) -m http.server --bind localhost --directory _build/site 8000

bench: $(READY)  ## measure speed, as ratios
	@$(RUN) book/code/benchmark.py
	@$(RUN) book/code/benchmark_fast.py

bench-watch: $(READY)  ## measure what `normkit.watch` costs, as ratios (some minutes)
	@$(RUN) -m normkit.watching.benchmark

bench-grading: $(READY)  ## measure grading against stock nbgrader, as ratios (some minutes)
	@$(RUN) -W ignore -m classroom.benchmark

bench-site: $(READY)  ## measure every page with Lighthouse (needs Chromium; about two hours)
	@$(RUN) -m press bench

examine-zoo: $(READY)  ## examine 188 real architectures, and 120 traps planted in some (minutes)
	@$(PIP) $(ZOO)
	@$(RUN) -W ignore -m tests.normkit.examining.zoo
	@$(RUN) -W ignore -m tests.normkit.examining.planted
	@$(RUN) -W ignore -m tests.normkit.examining.neighbours

models-zoo: $(READY)  ## compare the table of models with their code (minutes)
	@$(PIP) $(ZOO)
	@$(RUN) -W ignore -m tests.book.models

triton: $(READY)  ## install Triton (1 GB, Linux), and test the kernels of the book without a GPU
	@$(PIP) $(TRITON)
	@$(RUN) -m pytest tests/book/code/test_rms_norm_triton.py

messages: $(READY)  ## refresh the catalogues after an English edit; list what to translate
	@$(RUN) -m press messages

exercises: $(READY)  ## release the assignments only
	@$(RUN) -m press exercises

solutions: $(READY)  ## run the corrected assignments, for students after the deadline
	@$(RUN) -m press solutions

grade: $(READY)  ## grade a class: make grade ASSIGNMENT=layer_norm TASKS=forward,backward
	@$(RUN) -m classroom.grade $(ASSIGNMENT) $(if $(TASKS),--tasks "$(TASKS)")

written: $(READY)  ## mark the written answers of a class: make written ASSIGNMENT=layer_norm
	@$(RUN) -m classroom.written $(ASSIGNMENT)

report: $(READY)  ## report on a graded class: make report ASSIGNMENT=layer_norm OLDER=../2025
	@$(RUN) -m classroom.report $(ASSIGNMENT) $(if $(OLDER),--older $(OLDER))

mutants: $(READY)  ## prove the assignments: grade every known mistake (about half an hour)
	@$(RUN) -m classroom.mutants

english: $(READY)  ## build the English pages alone, before they are translated
	@$(RUN) -m press english

clean:  ## remove all that was built (the environment stays)
	rm -rf _build

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
		{ echo "Python 3.11 or newer is needed, and '$(PYTHON)' is not: try make PYTHON=python3.12"; exit 1; }
	@echo "Setting up $(VENV) (once; a few minutes)"
	@$(PYTHON) -m venv $(VENV)
	@[ -z "$(TORCH_INDEX)" ] || $(PIP) --no-deps --retries 0 --timeout 10 \
		--index-url $(TORCH_INDEX) "$$(grep '^torch==' requirements.txt)" 2>/dev/null || \
		echo "$(TORCH_INDEX) does not answer: torch comes from PyPI"
	@$(PIP) -r requirements.txt
	@touch $@
