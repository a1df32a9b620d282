PYTHON ?= python3
OPEN ?= 1
BACKBONE ?=
TRAIN ?=
BIN = .venv/bin

PIP = $(BIN)/pip install --quiet --disable-pip-version-check --no-compile

.PHONY: setup lock demo test fuzz bench coverage lint clean sbom audit licences image-check reproduce

setup: .venv/.ready

# The lock holds the hashes of all packages except torch, whose CPU and GPU builds share a version. Choose a build for your
# machine. The packages that torch needs on a CPU are in the lock. `--no-build-isolation` uses only build tools from the lock.
# pip would compile the modules on one core. Some packages hold templates that cannot be compiled.
.venv/.ready: requirements.lock pyproject.toml setup.py
	$(PYTHON) -m venv .venv
	$(PIP) --no-deps --require-hashes -r requirements.lock
	$(PIP) $$(grep ^torch== requirements.txt)
	$(PIP) --no-deps --no-build-isolation --editable .
	$(BIN)/python -m compileall -qq -j 0 .venv/lib || true
	touch $@

# Writes requirements.lock after a change of requirements.txt. Other packages keep their versions; UPGRADE=1 takes new ones.
lock: .venv-audit/.ready
	.venv-audit/bin/uv pip compile requirements.txt -o requirements.lock --quiet --generate-hashes --no-annotate --universal \
		--python-version 3.11 --no-emit-package torch --custom-compile-command "make lock" $(if $(UPGRADE),--upgrade)

# The main job: data set, detector, evaluation, page. OPEN=0 stops before the page. The detector is the shipped one.
# TRAIN=1 trains a small encoder from scratch instead, to show the steps, and BACKBONE=ENCODER fine-tunes this encoder. The
# first command fails if the page could not open after hours of training.
TRAINED = $(if $(BACKBONE),$(subst /,-,$(BACKBONE)),$(if $(TRAIN),tiny))
DEMO = $(if $(TRAINED),runs/demo-$(TRAINED)-$$data,models/$(SHIPPED))
demo: setup
	$(if $(filter 0,$(OPEN)),,$(BIN)/python -c "import socket; socket.create_server(('127.0.0.1', 7860)).close()")
	data=cdconv; $(BIN)/cdconv data build || { test -z "$$CDCONV_FILE" && data=cdconv-sample && \
		$(BIN)/cdconv data build --source sample --out $$data; } && \
	$(if $(TRAINED),$(BIN)/cdconv train $(if $(BACKBONE),flatten-4-class --backbone $(BACKBONE),tiny) --data $$data \
		--out $(DEMO) --resume &&) \
	$(BIN)/cdconv evaluate $(DEMO) --data $$data --split test \
	$(if $(filter 0,$(OPEN)),,&& $(BIN)/cdconv space --model $(DEMO))

# A file of tests runs in one process, which makes its fixtures once. Files that share a slow fixture run together
# (tests/conftest.py). Files start in the order of their names. The default order, by number of tests, would start slow files
# with few tests last and leave the other processes idle.
# There is one process more than cores, because many tests wait for processes that they start.
# Tests start many processes, which should not compile the modules again, so bytecode is written.
# A process that crashes ends the run. pytest-xdist would start another one, and then wait for ever for its tests.
WORKERS = -n $$(( $$(nproc 2>/dev/null || echo 2) + 1 )) --maxprocesses 4 --dist loadfile --no-loadscope-reorder \
	--max-worker-restart 0
test: setup .venv-legacy/.ready lint
	HF_HUB_OFFLINE=1 PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest $(WORKERS)

# The tests with generated input and the tests that kill processes, with about 10^5 cases. They take half an hour or more.
FUZZ ?= 20000
fuzz: setup
	CDCONV_FUZZ=$(FUZZ) HF_HUB_OFFLINE=1 $(BIN)/python -m pytest tests/test_fuzz.py tests/test_hostile.py tests/test_killed.py

# Speed compared with the usual alternatives, in about ten minutes on two idle cores. QUICK=1 only shows that it runs.
bench: setup
	$(PIP) --no-deps -r bench/requirements.txt
	HF_HUB_OFFLINE=1 $(BIN)/python bench/run.py $(if $(filter 1,$(QUICK)),--quick)

# Coverage is measured apart from the tests, because tracing makes them half as slow again.
coverage: setup
	HF_HUB_OFFLINE=1 $(BIN)/python -m pytest $(WORKERS) --cov --cov-report=term:skip-covered

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# An older `datasets`, without torch, for the tests of the loading script. If it cannot be installed, they are skipped.
.venv-legacy/.ready: requirements-legacy.txt
	-$(PYTHON) -m venv .venv-legacy && .venv-legacy/bin/pip install --quiet --disable-pip-version-check -r $< && touch $@

# Runs the steps of the Dockerfile without Docker, in an empty folder with its own environment.
image-check:
	$(PYTHON) tests/run_image.py

# The next three targets check the packages of `make setup`. `sbom` writes a bill of materials (CycloneDX), `audit` looks for
# published vulnerabilities, and `licences` lists the licences.
sbom: setup .venv-audit/.ready
	.venv-audit/bin/cyclonedx-py environment $(BIN)/python --pyproject pyproject.toml --output-reproducible -o sbom.json

# A package that the database does not know is a failure, because nothing is known about it.
AUDIT = PIP_AUDIT_LOGLEVEL=ERROR .venv-audit/bin/pip-audit --strict --disable-pip
audit: .venv-audit/.ready
	$(AUDIT) -r requirements.lock
	grep ^torch== requirements.txt | $(AUDIT) --no-deps -r /dev/stdin

licences: setup .venv-audit/.ready
	.venv-audit/bin/pip-licenses --python $(BIN)/python --ignore-packages cdconv --no-version --order=name --format=markdown \
		| sed '1i # Licences of the packages that `make setup` installs\n' > docs/licences.md

.venv-audit/.ready:
	$(PYTHON) -m venv .venv-audit
	.venv-audit/bin/pip install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0 pip-audit==2.10.1 \
		pip-licenses==5.5.5 uv==0.13.9
	touch $@

# Trains the shipped detector from START: five teachers, two students and the mean of their weights (the soup); two runs on crossed
# chats; and two students of the soup and of the second of these runs. This takes about nine hours on a CPU with bf16 instructions.
# Finished steps are skipped. The result is not the shipped one exactly: the published soup started from another NLI stage.
# NLI_TRAIN and NLI_VALIDATION can name files instead of corpora on the Hub.
START = models/e5-small-nli-3-epochs
NLI_TRAIN ?= clue/clue:ocnli clue/clue:cmnli:validation
NLI_VALIDATION ?= clue/clue:ocnli
SHIPPED = e5-small-long-replies
SOUP = runs/e5-small-cdconv-soup
PAIRS = runs/pairs/models/sentence-pair-4-class-e5-small-nli-3-epochs-seed
TEACHERS = $(PAIRS)23 $(PAIRS)42 $(addprefix runs/,e5-small-flatten-seed23 e5-small-cdconv e5-small-sentence-pair-seed42)
STUDENTS = e5-small-pair-student e5-small-cdconv-nli

reproduce: setup
	$(BIN)/cdconv data build
	test -d nli || $(BIN)/cdconv data nli $(NLI_TRAIN:%=--train %) $(NLI_VALIDATION:%=--validation %) --out nli
	$(BIN)/cdconv train e5-small-flatten --backbone $(START) --resume
	$(BIN)/cdconv train e5-small-cdconv --backbone $(START) --out runs/e5-small-cdconv --resume
	$(BIN)/cdconv train e5-small-sentence-pair --backbone $(START) --seed 42 --resume
	$(BIN)/python -m paper.reproduce table4 --backbone $(START) --methods sentence-pair --configs 4-class --seeds 23,42 \
		--set epochs=12 --set learning_rate=5e-5 --set logit_adjustment=0.5 --set precision=bf16 --out runs/pairs
	test -d runs/e5-small-ensemble || $(BIN)/cdconv ensemble $(TEACHERS) --no-calibrate --out runs/e5-small-ensemble
	for student in $(STUDENTS); do $(BIN)/cdconv train $$student --out runs/$$student --resume || exit 1; done
	test -d $(SOUP) || $(BIN)/python -m paper.soup $(STUDENTS:%=runs/%) --out $(SOUP)
	$(BIN)/cdconv train e5-small-crossed-long --backbone $(START) --resume
	$(BIN)/cdconv train e5-small-crossed-cdconv --out runs/e5-small-crossed-cdconv --resume
	test -d runs/e5-small-with-crossed || $(BIN)/cdconv ensemble $(SOUP) runs/e5-small-crossed-cdconv --out runs/e5-small-with-crossed
	$(BIN)/cdconv train e5-small-balanced --out runs/e5-small-balanced --resume
	test -d runs/e5-small-balanced-fp16 || $(BIN)/cdconv export runs/e5-small-balanced --out runs/e5-small-balanced-fp16 --calibrate-head
	$(BIN)/cdconv train $(SHIPPED) --out runs/$(SHIPPED) --resume
	test -d runs/$(SHIPPED)-fp16 || $(BIN)/cdconv export runs/$(SHIPPED) --out runs/$(SHIPPED)-fp16 --calibrate-head
	$(BIN)/cdconv evaluate runs/$(SHIPPED)-fp16 --split test --json runs/$(SHIPPED).test.json

# Removes what can be rebuilt in minutes. Trained models stay.
clean:
	rm -rf .venv .venv-legacy .venv-audit sbom.json cdconv cdconv-sample
