PYTHON ?= python3
OPEN ?= 1
BACKBONE ?=
BIN = .venv/bin

.PHONY: setup demo test lint clean

setup: .venv/.ready

.venv/.ready: requirements.txt pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	touch $@

# The main job: data set, training, evaluation, page. OPEN=0 stops before the page; BACKBONE= fine-tunes that encoder.
demo: setup
	$(BIN)/cdconv demo $(if $(BACKBONE),--backbone $(BACKBONE)) $(if $(filter 0,$(OPEN)),--no-open)

test: setup .venv-legacy/.ready lint
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# An older `datasets`, without torch, for the tests of the loading script. Where it cannot be made they are skipped.
.venv-legacy/.ready: requirements-legacy.txt
	-$(PYTHON) -m venv .venv-legacy && .venv-legacy/bin/pip install --quiet --disable-pip-version-check -r $< && touch $@

# What can be made again in minutes; trained models stay.
clean:
	rm -rf .venv .venv-legacy cdconv cdconv-sample
