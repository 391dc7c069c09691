# One verb each; every verb does its own set-up in .venv. uv is used when it is there, pip otherwise.
SHELL := bash
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
ifdef UV
  INSTALL = uv pip install --quiet --python $(BIN)/python --compile-bytecode
else
  INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check
endif

.PHONY: demo test check matrix bench torture docs clean format

demo: $(VENV)/.core
	$(BIN)/trueline demo

test: $(VENV)/.test check
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not torture"

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports

# A short form of the tests with other kernels of BLAS, threads, locales, homes and Pythons.
matrix: $(VENV)/.test
	$(BIN)/python tests/matrix.py

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench
	$(BIN)/python -m benchmarks

torture: $(VENV)/.test
	$(BIN)/python -m pytest -m torture --timeout=0

docs: $(VENV)/.test
	$(BIN)/python -m docs

clean:
	rm -rf $(VENV) $(VENV)-* demo-output
	find src tests benchmarks docs -name __pycache__ -prune -exec rm -rf {} +

# The core set is what a user of everything but Spark installs; the test set adds Spark and the tools.
$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(if $(UV),uv venv --quiet --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))
	$(INSTALL) -c constraints.txt -e ".[all]"
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(INSTALL) -c constraints.txt -e ".[all,spark,test]"
	touch $@

# adelie asks for NumPy 1 but runs on 2, so its own requirements are left out.
$(VENV)/.bench: $(VENV)/.test
	$(INSTALL) -c constraints.txt -e ".[all,spark,test,bench]"
	$(INSTALL) --no-deps adelie==1.1.52
	touch $@
