# Everything runs in .venv, made from a plain Python; `make help` lists the targets.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := zcuda_async compat/zcuda_compat
OLDEST := .venv-oldest
# What depends on the version of LLVM: the code generator's tests and kernels that run.  They compile most of the time,
# so they run side by side; the others look at processes and at the order of events, and have the machine to themselves.
COMPILER_TESTS := tests/test_jit_*.py tests/test_kernels_reference.py tests/test_corpus.py
SIDE_BY_SIDE := --numprocesses auto --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help demo test test-oldest check format bench kernels docs clean

help:  ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.examples  ## Run the main example: overlapped transfers and kernels on a photograph
	$(BIN)/python examples/overlap.py

test: $(VENV)/.dev  ## Run the tests
ifdef TESTS
	$(BIN)/python -m pytest $(TESTS)
else
	$(BIN)/python -m pytest $(SIDE_BY_SIDE) $(COMPILER_TESTS)
	$(BIN)/python -m pytest $(addprefix --ignore-glob=,$(COMPILER_TESTS))
endif

test-oldest: $(OLDEST)/.dev  ## Run the compiler's tests with the oldest llvmlite that is supported
	$(OLDEST)/bin/python -m pytest $(SIDE_BY_SIDE) $(COMPILER_TESTS)

check: $(VENV)/.dev  ## Lint, check the format, check the types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict $(PACKAGES) examples

format: $(VENV)/.dev  ## Fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.bench  ## Compare with gcc, PoCL, numba and Warp, and measure the runtime (minutes)
	$(BIN)/python -m benchmarks $(BENCH)

kernels:  ## Rebuild the committed .ptx files from their .cu files (needs nvcc)
	nvcc -ptx -arch=compute_80 -O3 examples/kernels/image.cu -o examples/kernels/image.ptx
	nvcc -ptx -arch=compute_80 -O3 benchmarks/kernels.cu -o benchmarks/kernels.ptx
	nvcc -ptx -arch=compute_80 -O3 benchmarks/more.cu -o benchmarks/more.ptx
	$(PYTHON) tests/corpus/build.py

docs: $(VENV)/.dev  ## Rewrite the pages that are made from the code
	$(BIN)/zcuda coverage --table > docs/ptx-coverage.md

clean:  ## Remove the environment and everything made by the tools
	rm -rf $(VENV) $(OLDEST) build dist out .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"zcuda-async needs Python 3.11 or later, got {v[0]}.{v[1]}; run make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

# One stamp per set of extras: installing again happens only when pyproject.toml has changed.
$(VENV)/.%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

$(OLDEST)/.dev: pyproject.toml .ci/oldest.py
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet --editable '.[dev]' "$$($(OLDEST)/bin/python .ci/oldest.py llvmlite)"
	@touch $@
