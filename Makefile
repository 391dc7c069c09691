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

# The machine's C compiler, else zig from PyPI. Without Python.h (or with COMPILE=0) the kernels run as plain Python.
TOOLS := setuptools cython $(if $(shell command -v cc || command -v gcc || command -v clang),,ziglang)
COMPILE ?= $(if $(wildcard $(shell $(PYTHON) -c "import sysconfig; print(sysconfig.get_path('include'))")/Python.h),1,0)
KERNELS := $(shell find src -name '*.pxd' -o -name '*.h')
BUILD = $(BIN)/python setup.py -q

.PHONY: demo test check matrix bench torture docs clean format

demo: $(VENV)/.kernels
	$(BIN)/trueline demo

test: $(VENV)/.test $(VENV)/.kernels check
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not torture and not building"

check: $(VENV)/.test
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	PYTHONPATH=src $(BIN)/lint-imports
	$(BIN)/python -m pytest tests/test_public_interfaces.py

# A short form of the tests with other kernels of BLAS, threads, locales, homes and Pythons.
matrix: $(VENV)/.test $(VENV)/.kernels
	$(BIN)/python tests/matrix.py

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench $(VENV)/.kernels
	$(BIN)/python -m benchmarks

torture: $(VENV)/.test $(VENV)/.kernels
	$(BIN)/python -m pytest -m torture --timeout=0
	$(BIN)/python tests/matrix.py --long

docs: $(VENV)/.test $(VENV)/.kernels
	$(BIN)/python -m docs

clean:
	rm -rf $(VENV) $(VENV)-* build demo-output
	find src tests benchmarks docs \( -name '*.so' -o -name __pycache__ \) -prune -exec rm -rf {} +

# Only what changed is compiled again.
$(VENV)/.kernels: $(VENV)/.core setup.py $(KERNELS) $(KERNELS:.pxd=.py)
	$(if $(filter 0,$(COMPILE)),find src -name '*.so' -delete,$(BUILD) build_ext --inplace --parallel 2)
	touch $@

# The core set is what a user of everything but Spark installs; the test set adds Spark and the tools.
$(VENV)/.core: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(if $(UV),uv venv --quiet --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))
	$(INSTALL) -c constraints.txt $(TOOLS)
	TRUELINE_COMPILE=0 $(INSTALL) -c constraints.txt --no-build-isolation -e ".[all]"
	touch $@

$(VENV)/.test: $(VENV)/.core
	TRUELINE_COMPILE=0 $(INSTALL) -c constraints.txt --no-build-isolation -e ".[all,spark,test]"
	touch $@

# adelie asks for NumPy 1 but runs on 2, so its own requirements are left out.
$(VENV)/.bench: $(VENV)/.test
	TRUELINE_COMPILE=0 $(INSTALL) -c constraints.txt --no-build-isolation -e ".[all,spark,test,bench]"
	$(INSTALL) --no-deps adelie==1.1.52
	touch $@
