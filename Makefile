# Two commands do all the set-up: `make index` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := ./install.sh $(VENV)
UNPACKED = $(VENV) $${UV_CACHE_DIR:-$${XDG_CACHE_HOME:-$$HOME/.cache}/uv}
LIBRARY := tests/data/library
SOURCE ?= $(LIBRARY)
PAGE := http://127.0.0.1:8750
STAMP := $(VENV)/.installed
# One process more than there are cores: each waits for Postgres and for its children now and then.
MANY := -n $$(($$(getconf _NPROCESSORS_ONLN) + 1)) --maxprocesses 5 --dist loadfile --no-loadscope-reorder
PYTEST = $(BIN)/python -m pytest$(if $(JUNIT), --junit-xml=$(JUNIT))
# The many processes of the tests would else compile the project's modules each for itself.
unexport PYTHONDONTWRITEBYTECODE

# What takes minutes says every twenty seconds that it is at work.
define watched
	@size() { du -scm $(UNPACKED) 2>/dev/null | tail -n 1 | cut -f1; }; before=$$(size); \
	$(1) & child=$$!; seconds=0; while kill -0 $$child 2>/dev/null; do sleep 1; seconds=$$((seconds + 1)); \
		[ $$((seconds % 20)) -ne 0 ] || echo "  $$seconds s, $$(($$(size) - before)) MB unpacked"; \
	done; wait $$child
endef

.DEFAULT_GOAL := help
.PHONY: help install index test tests coverage mutants rest faults browser test-ui test-distributed test-image \
	demo-distributed test-llm everything lint lock bench bench-parsing results peers pictures library clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 20

$(STAMP): pyproject.toml constraints.txt constraints.py install.sh
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo 'python3 cannot make a virtual environment here: apt-get install python3-venv, then again'; exit 1; }
	@echo 'Installing into $(VENV), 3.8 GB in all and most of it models and torch: one to five minutes, once.'
	$(call watched,$(INSTALL) dev -- --editable .)
	@if ls -d $(VENV)/lib/python*/site-packages/nvidia* >/dev/null 2>&1; then \
		echo 'GPU packages are in $(VENV) although none are needed: rm -r $(VENV), then again'; exit 1; fi
	@touch $@

install: $(STAMP)  ## Prepare .venv with the pincite command

index: $(STAMP)  ## Index SOURCE (the project's own library by default) and ask it a few questions
ifeq ($(patsubst %/,%,$(SOURCE)),$(LIBRARY))
	$(BIN)/pincite index --config tests/data/pincite.yaml
	@$(BIN)/python examples/ask_library.py tests/data/pincite.yaml
	@printf '\nAsk on a page, with every passage marked in its document:\n  %s\nthen open %s\n' \
		'$(BIN)/pincite serve --config tests/data/pincite.yaml' '$(PAGE)'
else
	$(BIN)/pincite index --source "$(SOURCE)"
	@$(BIN)/pincite status
	@printf 'Ask it something: %s\nOr on a page: %s, then open %s\n' '$(BIN)/pincite query "..."' '$(BIN)/pincite serve' '$(PAGE)'
endif

lint: $(STAMP)
	$(BIN)/python constraints.py check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(STAMP)  ## Lint, types, layers and the tests
	@$(MAKE) --no-print-directory --jobs 2 lint tests

tests: $(STAMP)
	$(PYTEST) $(MANY)

coverage: $(STAMP)  ## The share of lines that `make test` runs, in all and by package; child processes are not counted
	@mkdir -p build/coverage; $(PYTEST) $(MANY) --cov --cov-report=; ended=$$?; \
	for package in '*' pincite assets resources pipelines; do \
		printf '%s %s %%\n' "$$package" "$$($(BIN)/coverage report --include="$$package/*" --precision=1 --format=total)"; \
	done | sed 's/^\*/all/'; exit $$ended

mutants: $(STAMP)  ## Break every promised behaviour in a copy and see whether a test notices (ONLY=words PROCESSES=n)
	$(BIN)/python -m tests.mutants.run --only "$(ONLY)" --processes $(or $(PROCESSES),2)

rest: $(STAMP)  ## The tests that `make test` leaves out: every fault, and what takes long
	$(PYTEST) $(MANY) tests -m faults

faults: $(STAMP)  ## `rest`, with the faults that `make test` injects among them; writes docs/measured/reliability.md
	PINCITE_FUZZ_INPUTS=2000 PINCITE_ALL_VIEWS=1 $(PYTEST) $(MANY) tests -m 'faults or case or defends' \
		--reliability=docs/measured/reliability.md

browser: $(STAMP)
	@command -v chromium >/dev/null || { echo 'the UI is tested in chromium: apt-get install chromium, then again'; exit 1; }
	@$(BIN)/python -c 'import playwright' 2>/dev/null || \
		$(INSTALL) ui

test-ui: browser  ## Use the UI in Debian's chromium: lineage, metadata, checks, a backfill, and every picture of the manual
	$(PYTEST) tests/ui

pictures: browser  ## Take the pictures of README.md and docs/guide/dagster.md anew, by the tests that look at them
	$(BIN)/python -m pytest tests/ui/test_pictures.py --pictures=docs/guide

# The extra and redis-server, for two workers that share nothing but a store and a Postgres.
define distributed
	@$(BIN)/python -c 'import dagster_celery, dagster_postgres, redis' 2>/dev/null || \
		$(INSTALL) distributed
	@command -v redis-server >/dev/null || { [ "$$(id -u)" = 0 ] && \
		apt-get update -qq && apt-get install -qq --no-install-recommends redis-server; } || \
		{ echo 'there is no redis-server here: apt-get install redis-server, then again'; exit 1; }
endef

demo-distributed: $(STAMP)  ## Index the library by two workers over Redis, an S3 server and Postgres (PORT=first of three)
	$(distributed)
	@$(BIN)/python examples/celery/demo.py $(or $(PORT),6390)

test-distributed: $(STAMP)  ## Many machines: two workers killed, stopped and cut off, against one machine's index
	$(distributed)
	$(PYTEST) tests/distributed

test-image: $(STAMP)  ## Follow the Dockerfile without a container engine, and use what it makes (root; minutes)
	$(PYTEST) tests/image

test-llm: $(STAMP)  ## Buy summaries, contexts and answers from a small real model on loopback
	@$(BIN)/python -c 'import llama_cpp.server.app' 2>/dev/null || { \
		command -v c++ >/dev/null || { echo 'llama.cpp is compiled here: apt-get install g++, then again'; exit 1; }; \
		echo 'llama.cpp is compiled, once: some minutes'; $(INSTALL) compile && \
		CMAKE_ARGS="-DLLAVA_BUILD=OFF -DGGML_NATIVE=OFF" $(INSTALL) llm; }
	$(PYTEST) tests/llm

everything: $(STAMP)  ## All suites in order, or ONLY="some of them"; writes docs/measured/suites.md
	@$(BIN)/python -m tests.everything $(ONLY)

bench: $(STAMP)  ## Measure indexing against bare embedding of the same texts, and search against bare SQL
	$(BIN)/python benchmarks/indexing.py
	$(BIN)/python benchmarks/searching.py

bench-parsing: $(STAMP)  ## Measure what the parsers find, and how fast, beside other parsers
	$(BIN)/python benchmarks/parsing.py

results: $(STAMP)  ## Measure every shared set beside the published figures; writes docs/measured/results.md
	$(BIN)/python benchmarks/results.py

peers: $(STAMP)  ## Measure CocoIndex, Haystack, LangChain and LlamaIndex beside pincite (SOURCE=folder QUESTIONS=file ROUNDS=n)
	$(BIN)/python benchmarks/peers.py --rounds $(or $(ROUNDS),1) $(if $(QUESTIONS),--questions "$(QUESTIONS)") \
		$(if $(filter-out $(LIBRARY),$(SOURCE)),--source "$(SOURCE)")

lock:  ## Make constraints.txt of pyproject.toml (UPGRADE=1: at the newest releases)
	@[ -x $(BIN)/uv ] || { echo 'there is no .venv yet: make install, then again'; exit 1; }
	$(BIN)/python constraints.py lock $(if $(UPGRADE),--upgrade)

library: $(STAMP)  ## Rebuild the project's own documents from their sources
	$(BIN)/python tests/data/build_library.py

clean:  ## Remove the virtual environments and the default state
	rm -rf $(VENV) .pincite build/peers
