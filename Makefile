# make demo   the main job on real data, under two minutes once installed
# make test   all tests, C++ and Python
# make check  format, lints, types, and a build in which warnings are errors
# make fuzz   a thousand random Lightning runs, interrupted and resumed; prints how many went wrong
# make test-oldest  the Lightning tests on the oldest supported versions, in an environment of their own
# make bench  the table of docs/performance.md: an hour and 12 GB in BENCH_DATA; leave the machine alone meanwhile
# make clean  removes everything that make made
#
# Each sets up what it needs: system libraries (through apt-get for root, else it prints the command), .venv with the
# versions in constraints.txt, and the native core beside the Python sources. Nothing is done twice: the environment is
# made again when pyproject.toml or constraints.txt change, and of the core only what changed is compiled.

PYTHON ?= python3
BIN := .venv/bin
BUILD := build/dev
CXX_FILES = $(shell find csrc -name '*.cpp' -o -name '*.h')
CMAKE = $(BIN)/cmake -G Ninja -S . -DCMAKE_MAKE_PROGRAM=$(CURDIR)/$(BIN)/ninja \
	-DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python -Dpybind11_DIR=$$($(BIN)/python -m pybind11 --cmakedir) -DDSRT_TESTS=ON
# This project's environment decides what is imported, not the shell's.
unexport PYTHONPATH PYTHONHOME

.PHONY: demo test check clean core fuzz test-oldest

demo: core
	$(BIN)/python examples/digits/demo.py

test: core
	$(BIN)/cmake --build $(BUILD)
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure
	$(BIN)/python -m pytest

check: core
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)
	$(CMAKE) -B build/werror -DDSRT_WERROR=ON
	$(BIN)/cmake --build build/werror

fuzz: core
	$(BIN)/python tests/fuzz_resume.py --scenarios 1000

# What depends on Lightning, torchdata and Polars; the rest of the tests does not.
OLDEST := tests/test_resume.py tests/test_datamodule.py tests/test_nodes.py tests/test_batch_sampler.py tests/test_loader.py \
	tests/test_dataset.py tests/test_trace.py tests/test_rules.py tests/test_snapshot.py

test-oldest: core .venv-oldest/installed
	PYTHONPATH=. .venv-oldest/bin/python -m pytest -p no:cacheprovider $(OLDEST)

.venv-oldest/installed: constraints-oldest.txt
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install -q -r constraints-oldest.txt
	touch $@

clean:
	rm -rf .venv .venv-oldest build dsrt_lightning/_core*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis

core: $(BUILD)/build.ninja
	$(BIN)/cmake --build $(BUILD) --target _core

$(BUILD)/build.ninja: .venv/installed
	$(CMAKE) -B $(BUILD) -DDSRT_WERROR=OFF -DDSRT_INPLACE=ON

# The install itself compiles nothing (wheel.cmake=false): `core` is the one place that does.
.venv/installed: pyproject.toml constraints.txt scripts/system_packages.sh
	scripts/system_packages.sh $(PYTHON)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install -q -c constraints.txt scikit-build-core pybind11 cmake ninja
	$(BIN)/python -m pip install -q -c constraints.txt --no-build-isolation \
		--config-settings wheel.cmake=false --config-settings editable.mode=inplace -e '.[test,dev]'
	touch $@

# --- Benchmarks: DatasetRT comes as its published wheel, in an environment of its own ---

BENCH_DATA ?= build/bench
# Which workloads, how many trials: make bench BENCH='--workloads w3 --trials 2'
BENCH ?=

bench: core .venv-bench/installed
	$(BIN)/python -m benchmarks --data $(BENCH_DATA) --baseline .venv-bench/bin/python $(BENCH)

# Whether the benchmarks work, on tiny data, DatasetRT's part too; the times mean nothing.
bench-smoke: core .venv-bench/installed
	$(BIN)/python -m benchmarks --data $(BENCH_DATA) --baseline .venv-bench/bin/python --size smoke --trials 1

.venv-bench/installed: benchmarks/requirements-baseline.txt constraints.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install -q -c constraints.txt -r $<
	touch $@
