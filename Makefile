# Works from a clean clone with Python 3.11 or newer, git and make; all else comes into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
LIGHT := $(VENV)/.installed-light
STAMP := $(VENV)/.installed
EARLIER := $(VENV)/earlier
PIP := $(BIN)/python -m pip --disable-pip-version-check
ARGS ?=

.PHONY: help venv compiled demo lint quick test long bench screenshots translations clean

help:
	@echo "make venv    create $(VENV) with all that flnet and its tests need (PYTHON=$(PYTHON))"
	@echo "make demo    four nodes on this machine that train MNIST (ARGS='--nodes 3 --rounds 2 --exit', or '--vertical')"
	@echo "make quick   the tests that need no network, browser or data set: the ones to run while editing"
	@echo "make test    lint, types and all tests that CI runs (ARGS='-k settings')"
	@echo "make long    these, and the tests that take minutes: soak, many schedules, nodes of an earlier version"
	@echo "make lint    lint and types only"
	@echo "make bench   measure against the floors of this machine (ARGS='works exchange --quick')"
	@echo "make screenshots  the pictures in docs/screenshots/, from real nodes in Chromium"
	@echo "make translations  compile what flnet/web/locale holds, after a change of a .po file"
	@echo "make clean   remove $(VENV) and what tools leave behind"

venv: $(STAMP)

# What the demo needs, and a node that trains with PyTorch. Nothing is compiled ahead: most of it is never imported, and
# that would be a sixth of the disk.
$(LIGHT): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "flnet needs Python 3.11 or newer, but PYTHON=$(PYTHON) is " + sys.version.split()[0])'
	@echo "installing into $(VENV); the first time this takes a minute or two"
	@rm -f $@
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) -qq install --upgrade pip
	@# First and alone: so its exact version decides, and no resolver tries another build. For Linux, PyPI has a build with
	@# gigabytes of CUDA; the one of PyTorch's own index has none, and counts as newer.
	@echo "1 of 2: PyTorch for processors (200 MB)"
	@$(PIP) install --no-compile --no-deps 'torch==2.13.0' --extra-index-url https://download.pytorch.org/whl/cpu --retries 1
	@echo "2 of 2: flnet and what it needs (120 MB)"
	@$(PIP) -qq install --no-compile -e '.[torch,images,onnx]'
	@touch $@

$(STAMP): $(LIGHT)
	@echo "installing TensorFlow, and what the tests need (2 GB); this takes a few minutes"
	@rm -f $@
	@$(PIP) -qq install -e '.[torch,tensorflow,images,table,onnx,experiments,vertical,privacy,lan,dev]'
	@touch $@

# Nodes and their training children are processes of their own: where Python is told to write no byte code, each of
# them would compile all of flnet again, a quarter of a second of a processor.
compiled: venv
	@$(BIN)/python -m compileall -q flnet trainers resources

demo: $(LIGHT)
	@$(BIN)/python -m compileall -q flnet trainers resources
	@$(BIN)/flnet demo $(ARGS)

# Earlier versions of mypy do not know the variable, and check in one process.
lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPY_NUM_WORKERS=2 $(BIN)/mypy

# Pure code and what runs in one process. ARGS adds to it, as in `make quick ARGS="-k median"`.
QUICK := tests/params tests/protocol tests/aggregation tests/algorithms tests/rounds tests/membership tests/security \
	tests/store tests/simulation tests/frozen tests/test_layout.py tests/test_settings.py tests/test_errors.py

quick: compiled
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -q -n 2 --dist loadgroup -m "not slow and not browser and not data" \
		$(QUICK) $(ARGS)

# Four processes: tests that start nodes, tests that attack them, and tests with a browser have one each, and begin
# first (tests/conftest.py); they wait for most of their time.
# Even where Python is told to write no byte code, pytest keeps the tests as it rewrote them: that takes each process
# ten seconds.
test: lint compiled
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 4 --dist loadgroup --no-loadscope-reorder $(ARGS)

# Nodes of the earlier version call peers with aiohttp, which nothing else needs: it is kept apart.
$(EARLIER): $(STAMP)
	@$(PIP) -qq install --target $@ 'aiohttp>=3.10,<4'

long: lint compiled $(EARLIER)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 4 --dist loadgroup --no-loadscope-reorder --long $(ARGS)

bench: venv
	@$(BIN)/python -m benchmarks $(ARGS)

screenshots: venv
	@$(BIN)/python docs/screenshots.py $(ARGS)

translations: venv
	@$(BIN)/pybabel -q compile -d flnet/web/locale -D flnet

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
