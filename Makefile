# Everything a person or CI types. The virtual environment and the image are made when they are missing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNNING := $(VENV)/.installed
DEVELOPING := $(VENV)/.installed-development
LABEXTENSION := $(wildcard labextension/*.* labextension/src/* labextension/style/* labextension/schema/*)
# Jupyter does not start as root unless told to; in a container there may be nobody else.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: image run test bench examples lint lock kernels check-kernels test-ipython test-ipykernel record-numbers check-numbers test-libraries clean

# What is needed to run it: JupyterLab and the kernel.
$(RUNNING): pyproject.toml $(LABEXTENSION)
	@echo "Setting up $(VENV) ..."
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --progress-bar on -e ".[lab]"
	@touch $@

# What is needed as well to change and test it.
$(DEVELOPING): $(RUNNING)
	@echo "Installing what the tests need: a minute or two ..."
	$(BIN)/python -m pip install --quiet --group dev -e .
	@touch $@

# Fetches and compiles the sandbox's Python: a few minutes the first time, nothing afterwards.
image: $(RUNNING)
	@$(BIN)/wasm-kernel image build

run: image
	$(BIN)/wasm-kernel install --sys-prefix --no-image
	$(BIN)/jupyter lab $(AS_ROOT) examples/tour.ipynb

# The tests also need the variant that counts fuel and, where available, a browser and a hub's proxy. They often wait for
# a kernel or a page: five workers keep two cores busy. What fails beside others runs once more, alone: if it passes then,
# the machine was busy, and the test is to be mended; if not, it has failed.
test: $(DEVELOPING) lint
	@$(BIN)/wasm-kernel image build --metered
	@$(BIN)/python -m tests.browser.chromium
	@$(BIN)/python -m tests.hub.proxy
	$(BIN)/python labextension/build.py test
	$(BIN)/python -m pytest --numprocesses 5 --dist loadfile --durations 20 || { \
	  [ $$? = 1 ] && echo "Once more, alone:" && \
	  $(BIN)/python -m pytest --last-failed --last-failed-no-failures none --maxfail 5; }

lint: $(DEVELOPING)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python labextension/build.py lint

bench: image $(DEVELOPING)
	$(BIN)/python -m bench

# Run the example notebooks and keep their outputs in them.
examples: image $(DEVELOPING)
	$(BIN)/wasm-kernel install --sys-prefix --no-image
	$(BIN)/python -m tests.run_examples

# IPython's own test suite inside the guest.
test-ipython: image $(DEVELOPING)
	$(BIN)/python -m tests.ipython_suite

# ipykernel's own tests against our kernel.
test-ipykernel: image $(DEVELOPING)
	$(BIN)/python -m tests.ipykernel_suite

# What a native Python answers to the programs of tests/numbers: write it down; compare it with what is written.
record-numbers: image $(DEVELOPING)
	$(BIN)/python -m tests.numbers.record

check-numbers: image $(DEVELOPING)
	$(BIN)/python -m tests.numbers.record --check

# Test files of numpy, pandas, scipy, scikit-learn and statsmodels inside the guest; what fails is explained.
test-libraries: image $(DEVELOPING)
	$(BIN)/python -m tests.numbers.library_suites

# Pin the latest versions of the guest's packages.
lock: $(DEVELOPING)
	$(BIN)/uv pip compile --upgrade --no-deps --generate-hashes --only-binary :all: --python-version 3.15 \
	  --python-platform wasm32-pyodide2024 --no-annotate --no-header \
	  wasm_kernel/host/image/guest-packages.in -o wasm_kernel/host/image/guest-packages.lock

# Faster numeric functions for the runtime, from C: see kernels/README.md. Needs clang and lld of LLVM 22.
kernels: $(DEVELOPING)
	$(BIN)/python -m kernels

# Whether those in the repository are made of these sources.
check-kernels: $(DEVELOPING)
	$(BIN)/python -m kernels --check

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis
