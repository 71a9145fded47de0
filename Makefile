# Every target makes .venv and installs what it needs; a fresh machine needs python3 and nothing else.
PYTHON ?= python3
BIN := .venv/bin
export PATH := $(CURDIR)/$(BIN):$(PATH)
PYTEST := $(BIN)/pytest --numprocesses auto --dist loadfile
FOR_PROGRAMS := tests/export tests/serve
# Their tests skip in part without a browser, Node or the services that draw curves
WITH_PROGRAMS := tests/pipeline/test_tracking.py tests/explain/test_attention_pictures.py \
	tests/evaluation/test_eval_page.py
unexport PYTHONDONTWRITEBYTECODE  # or every command that a test starts compiles tmt anew

.PHONY: demo test test-exports exports-ready check format bench fuzz man clean

demo: .venv/ready
	$(BIN)/tmt train configs/tiny.yaml
	$(BIN)/tmt translate -m runs/tiny "这只动物没有穿过街道，因为它太累了。"
	$(BIN)/tmt explain -m runs/tiny "这只动物没有穿过街道，因为它太累了。" -o runs/tiny/explain
	$(BIN)/tmt export -m runs/tiny --to html

test: .venv/ready
	$(PYTEST) $(FOR_PROGRAMS:%=--ignore=%)

# The exports in the programs that they are for, and the server with its clients. Node comes by pip,
# Chromium by npm; what needs a program that could not be installed skips, and says so
test-exports: .venv/ready
	$(MAKE) exports-ready || echo "the programs that exports are for could not be installed"
	$(PYTEST) $(FOR_PROGRAMS) $(WITH_PROGRAMS)

exports-ready: .venv/ready
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev,track,test-exports,test-serve]'
	cd tests/export/node && npm install --silent && node chromium.mjs

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/ready
	$(BIN)/tmt bench train

# Hostile files for every reader: make fuzz MINUTES=30
fuzz: .venv/ready
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[fuzz]'
	$(BIN)/python scripts/faults/fuzz.py --minutes $(or $(MINUTES),5)

# The manual page, written from the commands; an installed tmt has it: man tmt
man: .venv/ready
	$(BIN)/python scripts/write_manual.py
	man -l docs/tmt.1

clean:
	rm -rf .venv

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	@echo "Installing tmt into .venv; PyTorch is the largest part"
	$(BIN)/pip install --constraint constraints.txt --editable '.[dev]'
	touch $@
