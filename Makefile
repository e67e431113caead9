# quiver-fast: build, run, test, install. `make help` lists the targets.

PYTHON ?= python3
PREFIX ?= /usr/local
# The duration of each of the two pairs of `make analysis-demo`.
DURATION ?= 15s
# Arguments for pytest in `make test` and `make bench`, such as `-k tls`.
PYTEST_ARGS ?=
# The target of `make fuzz`, and its seconds; for `states` also the first seed, or a seed and its
# steps to replay.
TARGET ?= performatives
TIME ?= 600
FIRST ?=
SEED ?=
STEPS ?=
# The tests of `make test` and `make test-all`: files or folders.
TESTS ?= tests

# A build without TLS needs the user's word: make … QUIVER_FAST_TLS=0
export QUIVER_FAST_TLS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# Nothing of the caller's Python may leak into the build and the tests.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV __PYVENV_LAUNCHER__ PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
# The environment of `make dev` and `make check`: an installation that points to src/.
DEV := build/dev
PIP := $(BIN)/python -m pip --quiet --no-input
# Only `make install` writes outside this folder, and it knows no staging.
ifneq ($(DESTDIR),)
$(error DESTDIR is not supported: a virtual environment cannot be moved. Package the wheel instead)
endif

# Without the two files that the build writes.
SOURCES := $(sort $(shell find src spark_analysis impls buildtools -type f \
	! -name data_plane.pxd ! -name libproton.pxd \
	\( -name '*.py' -o -name '*.pyx' -o -name '*.px[di]' -o -name '*.[ch]' -o -name py.typed \
	-o -path 'impls/*' -o -path '*/schemas/*.json' -o -path '*/templates/*' \)))
PROJECT_FILES := setup.py pyproject.toml MANIFEST.in README.md LICENSE NOTICE

# keep_if_same: write standard input to $@, touching it only when it would change. The name in
# between is this make's own: two of them may run beside one another.
keep_if_same = cat >$@.$$$$ && if cmp -s $@.$$$$ $@; then rm $@.$$$$; else mv $@.$$$$ $@; fi

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: FORCE help run dev check docs docs-site coverage test test-slow test-all measure peers install \
	uninstall wheel wheels sdist lint format annotate bench instructions sanitize sanitize-threads fuzz \
	analysis-demo pictures clean

# Tests that have one outcome on any machine, in a time that a developer waits.
GATE := not slow and not measured
# The part for `make check`: no test that builds or starts a broker.
QUICK_TESTS ?= tests/unit tests/functional/test_wrapper_pyfast.py

help: ## Show this list
	@echo "make TARGET [PYTHON=python3.12] [PREFIX=/usr/local] [QUIVER_HOME=DIR] [TESTS=tests/unit] [PYTEST_ARGS=…] [DURATION=15s] [TARGET=sasl] [TIME=600]"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-24s%s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/.installed ## Build and install into .venv, then measure a peer-to-peer pair for 10 s
	$(BIN)/quiver --duration 10s

dev: $(DEV)/.created ## Build for development: in place, without optimization, only what changed
	@$(if $(BUILT),,$(DEV_BUILD))
	@echo "quiver-fast: built in place: $(DEV)/bin/quiver"

check: dev $(DEV)/.check ## Check the build of `make dev`: style, types and the quick tests, in 2 minutes
	$(DEV)/bin/ruff check .
	$(DEV)/bin/ruff format --check .
	# Types of spark_analysis are checked by `make lint`, which has PySpark.
	$(DEV)/bin/mypy --package quiver_fast & types=$$!; \
	$(DEV)/bin/python buildtools/c_check.py && \
	PATH="$(CURDIR)/$(DEV)/bin:$$PATH" cython-lint src && wait $$types
	$(DEV)/bin/pytest $(QUICK_TESTS) -m '$(GATE)' --hypothesis-profile quick \
		--numprocesses logical $(PYTEST_ARGS)

# Most tests wait more than they compute: one process more than there are cores. A file's tests
# stay together, because they share what is slow to start, and files go in order, so that short
# ones end it.
IN_PARALLEL := --numprocesses $(shell echo $$(($$(nproc) + 1))) --dist loadfile --no-loadscope-reorder

test: $(VENV)/.test ## Run the tests against the installed wheel, with the installed peers
	@echo "quiver-fast: running the tests: a quarter of an hour on two cores"
	$(call run_tests,$(IN_PARALLEL) -m '$(GATE)' --hypothesis-profile quick)

# Tests that judge seconds, CPU or memory run alone; the longest only in `make test-all`.
MEASURED ?= measured and not slow

measure: $(VENV)/.test ## Run the tests that judge seconds, CPU or memory, one by one: leave the machine alone
	$(call run_tests,--measure -m '$(MEASURED)')

test-slow: export QUIVER_FAST_KILLS ?= 100
test-slow: export QUIVER_FAST_DAMAGES ?= 2000
test-slow: export QUIVER_FAST_FAULTS ?= 1
test-slow: export QUIVER_FAST_LOSSES ?= 3000
test-slow: export QUIVER_FAST_HISTORY ?= 60
test-slow: $(VENV)/.test ## Run the tests with all examples, and those that take minutes
	$(call run_tests,$(IN_PARALLEL) -m 'not measured')

test-all: MEASURED = measured
test-all: test-slow measure ## Run all tests

peers: $(VENV)/.java ## Install the brokers and clients of others that tests talk to (as root)
	@sh tests/interop/install_peers.sh

install: build/wheel.stamp ## Install under PREFIX; with QUIVER_HOME also into an upstream quiver
	@PYTHON='$(PYTHON)' PREFIX='$(PREFIX)' QUIVER_HOME='$(QUIVER_HOME)' sh buildtools/install.sh

uninstall: ## Remove the files of `make install` with the same PREFIX and QUIVER_HOME
	@PREFIX='$(PREFIX)' QUIVER_HOME='$(QUIVER_HOME)' sh buildtools/install.sh --remove

wheel: build/wheel.stamp ## Build the wheel for this machine: dist/*.whl
	@ls dist/*.whl

wheels: $(VENV)/.release build/wheel.stamp ## Build wheels for other machines: wheelhouse/*.whl
	@sh buildtools/wheels.sh $(BIN)

sdist: $(VENV)/.release ## Build the source distribution: dist/*.tar.gz
	@rm -f dist/*.tar.gz
	$(BIN)/python -m build --sdist --outdir dist . >build/sdist.log || { cat build/sdist.log; exit 1; }
	@ls dist/*.tar.gz

lint: $(VENV)/.lint $(VENV)/.spark ## Check style, types, Cython's warnings, our C, the shell scripts and the image
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint src
	$(BIN)/python buildtools/cython_check.py
	$(BIN)/python buildtools/c_check.py
	$(BIN)/hadolint Containerfile

format: $(VENV)/.lint ## Format the Python and C files
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python buildtools/c_check.py --format

annotate: $(VENV)/.lint ## Show where Cython calls Python: build/annotate/**/*.html
	$(BIN)/python buildtools/cython_check.py --annotate build/annotate

bench: $(VENV)/.test $(VENV)/.bench $(VENV)/.java ## Measure speed against the reference client in the same run
	$(in_site_packages)
	$(BIN)/pytest bench $(PYTEST_ARGS)

instructions: $(VENV)/.test ## Count instructions per message under valgrind
	$(BIN)/python -m bench.instructions

sanitize: $(VENV)/.test ## Run the tests of server, streams and fuzzing with ASan and UBSan
	sh buildtools/sanitize.sh $(BIN) $(IN_PARALLEL) $(PYTEST_ARGS)

sanitize-threads: $(VENV)/.test ## Run the tests of the server's other threads with ThreadSanitizer
	sh buildtools/sanitize.sh $(BIN) --threads $(PYTEST_ARGS)

fuzz: $(VENV)/.test ## Fuzz TARGET=performatives|message|sasl|scanner|csp|textwire|recovery|records with clang, or states
	sh buildtools/fuzz.sh $(BIN) $(TARGET) $(TIME) $(if $(FIRST),--first $(FIRST)) \
		$(if $(SEED),--seed $(SEED)) $(if $(STEPS),--steps $(STEPS))

coverage: $(VENV)/.test $(VENV)/.coverage ## Tell which lines of Python and Cython the tests run; TESTS="tests/unit" for some
	sh buildtools/coverage.sh $(BIN)/python $(TESTS)

docs: $(VENV)/.test ## Write the blocks of documents that are made of code and figures
	$(BIN)/python -m buildtools.documents

docs-site: $(VENV)/.created ## Build the site of the documents with MkDocs: build/site
	@$(BIN)/python buildtools/build_requirements.py site >build/site.txt
	@$(PIP) install --requirement build/site.txt
	$(BIN)/mkdocs build --strict --quiet --site-dir build/site
	@echo "quiver-fast: build/site/index.html"

pictures: $(VENV)/.test ## Photograph the pages of a run and of a comparison, for the documents
	$(BIN)/python buildtools/pictures.py

analysis-demo: $(VENV)/.java ## Measure two pairs; analyse them here and on Spark: equal answers
	$(BIN)/python buildtools/analysis_demo.py $(DURATION)

clean: ## Remove everything that was built, also .venv
	rm -rf build dist wheelhouse $(VENV) tests/interop/node_modules
	rm -rf .benchmarks .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find src spark_analysis buildtools tests bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
	find src -name '*.so' -delete
	rm -rf src/*.egg-info

# ---- The build: each file here is a fact that the next one depends on.

define in_site_packages
@$(BIN)/python -c 'import quiver_fast, sys; path = quiver_fast.__file__; \
	sys.exit("site-packages" not in path and f"not the installed package: {path}")'
endef

# run_tests: with the arguments $1 for pytest.
define run_tests
$(in_site_packages)
QUIVER_FAST_WHEEL="$$(echo "$$PWD"/dist/*.whl)" \
	$(BIN)/pytest $(TESTS) $1 $(PYTEST_ARGS)
endef

# The Python that builds; another one means another virtual environment.
build/python.txt: FORCE
	@sh buildtools/prerequisites.sh '$(PYTHON)'
	@mkdir -p build
	@'$(PYTHON)' -c 'import sys; print(sys.base_prefix, sys.version)' | { $(keep_if_same); }

# Options that change the build.
build/options.txt: FORCE
	@mkdir -p build
	@printf '%s\n' "$$QUIVER_FAST_PROTON" "$$QUIVER_FAST_PROTON_SDIST" "$$QUIVER_FAST_TLS" \
		"$$CC" "$$CFLAGS" "$$LDFLAGS" | { $(keep_if_same); }

# The list of sources, so that a deleted one is noticed.
build/sources.txt: FORCE
	@mkdir -p build
	@printf '%s\n' $(SOURCES) | { $(keep_if_same); }

build/requirements.txt: FORCE
	@mkdir -p build
	@'$(PYTHON)' buildtools/build_requirements.py | { $(keep_if_same); }

$(VENV)/.created: build/python.txt build/requirements.txt
	@echo "quiver-fast: creating $(VENV)"
	@rm -rf $(VENV)
	@'$(PYTHON)' -m venv $(VENV)
	@$(PIP) install --no-compile --requirement build/requirements.txt
	@touch $@

build/wheel.stamp: $(VENV)/.created build/options.txt build/sources.txt $(SOURCES) $(PROJECT_FILES)
	@echo "quiver-fast: building the engine and the wheel: a few minutes from nothing"
	@rm -f dist/*.whl
	@sh buildtools/build_wheel.sh $(BIN)
	@touch $@

# Forced, because a rebuilt wheel has the same version as the installed one.
$(VENV)/.installed: build/wheel.stamp
	@echo "quiver-fast: installing into $(VENV)"
	@$(PIP) install --force-reinstall --no-deps dist/*.whl
	@$(PIP) install dist/*.whl
	@touch $@

# Most installed modules are never imported, so Python compiles a module when it is imported.
$(VENV)/.test $(VENV)/.lint $(VENV)/.release $(VENV)/.bench $(VENV)/.coverage \
		$(VENV)/.spark: $(VENV)/.%: \
		$(VENV)/.installed
	@echo "quiver-fast: installing what \"$*\" needs"
	@$(PIP) install --no-compile "$$(echo dist/*.whl)[$*]"
	@touch $@

DEV_PIP := $(DEV)/bin/python -m pip --quiet --no-input install --no-compile
# A developer waits for the compiler, so nothing is optimized. The server counts the objects that
# it makes and frees, and the tests that start one check at its end that both are equal.
DEV_FLAGS := CFLAGS='-O0 -DQUIVER_FAST_BALANCE'
DEV_BUILD := $(DEV_FLAGS) $(DEV)/bin/python setup.py --quiet build_ext --inplace

# Run-time requirements come over the network while the compiler works. BUILT tells `make dev`
# that this has compiled everything.
$(DEV)/.created: build/python.txt build/requirements.txt pyproject.toml
	@rm -rf $(DEV)
	@'$(PYTHON)' -m venv $(DEV)
	@$(DEV)/bin/python buildtools/build_requirements.py --run >build/run.txt
	@$(DEV_PIP) --requirement build/requirements.txt
	@$(DEV_PIP) --requirement build/run.txt & run=$$!; \
	$(DEV_FLAGS) $(DEV_PIP) --no-deps --no-build-isolation --editable . && wait $$run
	@touch $@
	$(eval BUILT := yes)

$(DEV)/.check: $(DEV)/.created
	@$(DEV)/bin/python buildtools/build_requirements.py test lint >build/check.txt
	@$(DEV_PIP) --requirement build/check.txt
	@touch $@

# Java for Spark; if it is missing and cannot be installed, everything else works.
$(VENV)/.java: $(VENV)/.spark buildtools/java.sh
	@sh buildtools/java.sh
	@touch $@
