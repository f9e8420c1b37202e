# make          environment in .venv with all extras and test tools, versions from constraints.txt
# make demo     the tour on the command line; without .venv in .venv-demo: no torch, under a minute
# make test     all tests; options for pytest in ARGS
# make slow     the heavier tests: full spaces, other machines, killed processes, every variant
# make notebooks  executes the notebooks; with ARGS=--write their outputs are stored
# make papers   the papers' tables, quickly: DATA=folder MODEL=causal model, options in ARGS
# make docs     the site with the reference, in site/
# make lint, make types, make wheel, make clean, make distclean
#
# Needs Python 3.11 or newer; another one is chosen by PYTHON=...

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.made
# one more than processors, at most four: tests wait for servers and for processes
WORKERS = $(shell $(BIN)/python -c "import os; print(min(4, (os.cpu_count() or 1) + 1))")
PIP    = $(BIN)/python -m pip --no-input --disable-pip-version-check -q install -c constraints.txt

SUITED := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do \
	"$$p" -c '$(SUITED)' 2>/dev/null && command -v "$$p" && break; done)

define need_python
@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv was not found; name it: make PYTHON=..." >&2; exit 1; }
endef

.PHONY: venv demo test slow notebooks papers docs lint types wheel clean distclean
.DEFAULT_GOAL := venv

venv: $(STAMP)

# PyTorch comes first: what needs it then takes the one that is there.
$(STAMP): pyproject.toml constraints.txt
	$(need_python)
	@echo "==> environment in $(VENV)"
	@$(BIN)/python -c '$(SUITED)' 2>/dev/null || "$(PYTHON)" -m venv --clear $(VENV)
	@$(PIP) --upgrade pip
	@echo "==> PyTorch"
	@$(PIP) torch hatchling
	@echo "==> the package with all extras, test tools"
	@$(PIP) --no-build-isolation -e '.[all]' --group dev
	@touch $@

# what is there; else the slim core with detection and the gateway, in an environment of its own
DEMO := $(if $(wildcard $(STAMP)),$(VENV),.venv-demo)

demo: $(DEMO)/.made
	@$(DEMO)/bin/dp-middleware demo

.venv-demo/.made: pyproject.toml constraints.txt
	$(need_python)
	@echo "==> environment in .venv-demo"
	@"$(PYTHON)" -m venv --clear .venv-demo
	@.venv-demo/bin/python -m pip --no-input --disable-pip-version-check -q install \
		-c constraints.txt -e '.[detect,gateway]'
	@touch $@

test: $(STAMP)
	@PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile $(ARGS)

slow: $(STAMP)
	@$(BIN)/python -m pytest -m slow -n 2 --dist loadfile --durations=10 $(ARGS)

notebooks: $(STAMP)
	@$(BIN)/python notebooks/execute.py $(ARGS)

papers: $(STAMP)
	@for name in inferdpt dyntext cape stencil privrewrite; do echo "==> $$name"; \
		$(BIN)/python benchmarks/papers/$$name.py "$(DATA)" --quick $(MODEL:%=--model %) $(ARGS) \
		|| exit 1; done

docs: $(STAMP)
	@$(PIP) --group docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build -q --strict -f .mkdocs.yml

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(STAMP)
	@$(BIN)/mypy

wheel: $(STAMP)
	@rm -rf dist
	@$(BIN)/python -m build -q --no-isolation
	@ls dist/*

clean:
	rm -rf dist build site .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -path './.venv*' -prune -o -name __pycache__ -type d -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) .venv-demo
