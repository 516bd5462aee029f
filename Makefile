# make demo   the main job on real data, under two minutes once installed
# make test   all tests, C++ and Python
# make check  format, lints, types, and a build in which warnings are errors
# make fuzz   a thousand random Lightning runs, interrupted and resumed; prints how many went wrong
# make test-oldest  the Lightning tests on the oldest supported versions, in an environment of their own
# make bench  the table of docs/performance.md: an hour and 12 GB in BENCH_DATA; leave the machine alone meanwhile
# make sweep, make growth, make cold  its other tables, and the pictures: minutes each, 2, 11 and 8 GB
# make faults, make sanitize, make fuzz-native  what docs/reliability.md counts: ten minutes, then as long as SECONDS says
# make soak MINUTES=n  one cache, random faults, kills and resumes for n minutes; each sample is compared with a model
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
OLDEST := tests/test_resume.py tests/test_datamodule.py tests/test_datamodule_sets.py tests/test_nodes.py tests/test_batch_sampler.py \
	tests/test_loader.py tests/test_transforms.py tests/test_dataset.py tests/test_trace.py tests/test_rules.py tests/test_snapshot.py

test-oldest: core .venv-oldest/installed
	PYTHONPATH=. .venv-oldest/bin/python -m pytest -p no:cacheprovider $(OLDEST)

.venv-oldest/installed: constraints-oldest.txt
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install -q -r constraints-oldest.txt
	touch $@

clean:
	rm -rf .venv .venv-oldest .venv-bench .venv-peers .venv-streaming build dsrt_lightning/_core*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis

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

# PEERS=all adds other libraries than DatasetRT, in environments of their own.
PEERS ?=
PEER_PYTHONS = $(if $(PEERS),--peers .venv-peers/bin/python .venv-streaming/bin/python)

bench: core .venv-bench/installed $(if $(PEERS),.venv-peers/installed .venv-streaming/installed)
	$(BIN)/python -m benchmarks --data $(BENCH_DATA) --baseline .venv-bench/bin/python $(PEER_PYTHONS) $(BENCH)

# Whether the benchmarks work, on tiny data, DatasetRT's part too; the times mean nothing.
bench-smoke: core .venv-bench/installed
	$(BIN)/python -m benchmarks --data $(BENCH_DATA) --baseline .venv-bench/bin/python --size smoke --trials 1

# Whether copies to a GPU run beside the model, and how fast they are against the link.
bench-gpu: core
	$(BIN)/python -m benchmarks.gpu --data $(BENCH_DATA)

.PHONY: bench-gpu

.venv-bench/installed: benchmarks/requirements-baseline.txt constraints.txt
	$(PYTHON) -m venv .venv-bench
	.venv-bench/bin/python -m pip install -q -c constraints.txt -r $<
	touch $@

.venv-%/installed: benchmarks/requirements-%.txt
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install -q -r $<
	touch $@

# Which part: make sweep SWEEP='--sizes 64 256'; what was measured before stays in the tables and pictures.
SWEEP ?=
GROWTH ?=
COLD ?=

sweep: core .venv/pictures
	$(BIN)/python -m benchmarks.sweep --data $(BENCH_DATA)/sweep --picture docs/pictures/sweep.svg $(SWEEP)

growth: core .venv/pictures
	$(BIN)/python -m benchmarks.growth --data $(BENCH_DATA)/growth --picture docs/pictures/growth.svg $(GROWTH)

cold: core
	$(BIN)/python -m benchmarks.cold --data $(BENCH_DATA)/cold $(COLD)

.venv/pictures: .venv/installed
	$(BIN)/python -m pip install -q -c constraints.txt matplotlib
	touch $@

.PHONY: bench bench-smoke sweep growth cold

# --- Faults: the counts of docs/reliability.md ---

# Ten minutes on two idle cores: what is killed, fails, is flipped, vanishes, forks and is abandoned.
faults: core
	DSRT_FAULTS=full $(BIN)/python -m pytest tests/faults -v

# The C++ tests, the fuzzers' corpus and a stress test from Python under both sanitizers.
sanitize: sanitize-asan sanitize-tsan

# Python is not instrumented, so the sanitizer has to be loaded before it; its own leaks are not ours.
sanitize-asan: RUNTIME = libasan.so libstdc++.so
sanitize-asan: export ASAN_OPTIONS = detect_leaks=0
sanitize-tsan: RUNTIME = libtsan.so
sanitize-tsan: export TSAN_OPTIONS = halt_on_error=1
sanitize-%: core
	$(CMAKE) --preset $* -DDSRT_PYTHON=ON
	$(BIN)/cmake --build build/$*
	ASAN_OPTIONS=detect_leaks=1 $(BIN)/ctest --test-dir build/$* --output-on-failure
	rm -rf build/$*/stress && mkdir build/$*/stress
	LD_PRELOAD="$(foreach library,$(RUNTIME),$$(c++ -print-file-name=$(library)))" DSRT_CORE=$$(ls build/$*/_core*.so) \
		PYTHONPATH=.:tests:tests/faults $(BIN)/python tests/faults/stress.py build/$*/stress $(SECONDS)

# How long each fuzz target, and each stress test, runs.
SECONDS ?= 60
FUZZ_TARGETS = $(basename $(notdir $(wildcard csrc/fuzz/*_fuzz.cpp)))

# What they find that is new goes to build/fuzz/found; an input that breaks something stops it, and belongs into the corpus.
fuzz-native: core
	$(CMAKE) --preset fuzz -DDSRT_PYTHON=OFF
	$(BIN)/cmake --build build/fuzz --target $(FUZZ_TARGETS)
	for target in $(FUZZ_TARGETS); do mkdir -p build/fuzz/found/$$target && build/fuzz/$$target -max_total_time=$(SECONDS) \
		-max_len=2048 -print_final_stats=1 build/fuzz/found/$$target csrc/fuzz/corpus/$$target || exit 1; done

MINUTES ?= 10
# Each run has faults of its own; the seed of one that failed is printed: make soak SEED=n
SEED ?=

soak: core
	rm -rf build/soak && mkdir -p build/soak
	DSRT_CACHE_DIR=build/soak/cache PYTHONPATH=.:tests:tests/faults \
		$(BIN)/python tests/faults/soak.py build/soak $$((60 * $(MINUTES))) $(SEED)

.PHONY: faults sanitize fuzz-native soak
