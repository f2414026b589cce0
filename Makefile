# vsetrain: everything a person or a machine does with the sources. `make help` lists it.
.DEFAULT_GOAL := help
export CGO_ENABLED := 0

GO          ?= go
GOLANGCI    := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
GORELEASER  := github.com/goreleaser/goreleaser/v2@v2.15.1
BENCHSTAT   := golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da
VERSION     ?= $(shell git describe --tags --match 'v*' --dirty 2>/dev/null)
# The one that scripts/install-test-tools.sh fetched, if it did: pictures in tests need it.
export VSETRAIN_ONNXRUNTIME ?= $(wildcard $(CURDIR)/bin/libonnxruntime.so)
# Go stamps the commit too, but not where GOFLAGS has -buildvcs=false.
COMMIT      ?= $(shell git describe --always --exclude '*' --abbrev=12 --dirty=+changes 2>/dev/null)
BUILT       := -X vsetrain/internal/system/build
LDFLAGS     := -s -w $(if $(VERSION),$(BUILT).version=$(VERSION:v%=%)) $(if $(COMMIT),$(BUILT).commit=$(COMMIT))
BUILD       := $(GO) build -trimpath -ldflags '$(LDFLAGS)'
TARGETS     := linux/amd64 linux/arm64 darwin/arm64 darwin/amd64 windows/amd64
FUZZTIME    ?= 20s
SEED        ?= 1
MUTANTS     ?= 200
# The packages with the longest tests, begun first so that none runs alone at the end. All are vetted before tests begin,
# and linked without the tables of debuggers: a third of the time of linking.
LONGEST     := ./cmd/vsetrain ./internal/compute/device/cuda ./internal/run/training ./train ./internal/run/evaluate ./internal/compute/device/cpu
# So many are tested at the same time: one more than there are processors, because some wait for Slurm and for signals.
PACKAGES    := $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 1)))
# Garbage is collected less often: that took a sixth of the time of many tests, or more.
test lint: export GOGC := 400
# Tests that repeat others in more combinations: every kernel with rounded copies beside it and in parts, every kind of
# product on the emulated GPU, GRUs on tensor cores in every order, recorded steps of all networks on it,
# data sets that stay there, every loss with GSMN; and those that compile and assemble all kernels anew, where others see
# by checksums that what is committed is of the same sources. They take two fifths of the time of all tests.
COMBINED    := ^(TestCopiesOfAllKernels|TestConformanceOfProducts|TestConformanceInParts|TestGRUOnTensorCores|$\
	TestBF16Copies|TestRecordedSteps|TestRanksOnManyGPUs|TestResidentFeatures|$\
	TestGSMNLearnsWithEveryLoss|TestPTXIsOfTheSources|TestAssembler|TestSelftestLaunchesEveryKernel|$\
	TestSelftestOnOtherGPUs|TestReasoningOfDrawnGraphs|TestSelfAttentionOnTensorCores|TestDrawnPairsOnTensorCores)$$
# Every network on the strict driver: make test-strict. A whole selftest on the emulated driver: make test-selftest.
STRICT      := ^TestStrictDriverAll$$
WHOLE       := ^TestWholeSelftest$$
CONFIG      ?= vsepp/f30k-lseh

# Every target with a description is a command and no file.
.PHONY: $(shell sed -n 's/^\([a-z0-9-]*\):.*\#\# .*/\1/p' $(firstword $(MAKEFILE_LIST)))

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/vsetrain
	$(BUILD) -o bin/vsetrain ./cmd/vsetrain

STATIC := -tags nodl
build-static: ## build bin/vsetrain-static: no CUDA, no shared libraries, for Linux without glibc (Alpine); and check it
	$(BUILD) $(STATIC) -o bin/vsetrain-static ./cmd/vsetrain
	bash scripts/static-check.sh bin/vsetrain-static

build-vsecu: ## build bin/vsetrain-vsecu, which calls CUDA through gorgonia.org/cu (needs gcc; docs/cuda.md)
	GO=$(GO) LDFLAGS='$(LDFLAGS)' bash scripts/vsecu.sh build

test: ## check formatting, vet, and run the tests: four minutes on two cores once compiled
	@unformatted=$$(gofmt -l .); \
	if [ -n "$$unformatted" ]; then echo "not formatted (run make fmt):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) test -p $(PACKAGES) -vet=off -ldflags=-w -timeout 20m -skip '$(COMBINED)|$(STRICT)|$(WHOLE)' $(LONGEST) ./...

test-combined: ## run the tests that repeat those of make test in more combinations
	$(GO) test -timeout 20m -run '$(COMBINED)' ./internal/compute/device/cuda ./internal/compute/device/cuda/kernels ./internal/run/training ./lab/selftest ./train

test-vsecu: ## run the tests of the CUDA driver through gorgonia.org/cu, on the emulated driver (needs gcc and g++)
	GO=$(GO) bash scripts/vsecu.sh test

test-orders: ## run conformance, golden cases and small trainings on the emulated GPU with its threads in forward, reverse and random order
	@set -e; for order in 0 1 2; do echo "EMULATED_CUDA_ORDER=$$order"; \
	EMULATED_CUDA_ORDER=$$order $(GO) test -count=1 -timeout 15m -run '^(TestConformance$$|TestGolden|TestMicroBatchesOnGPU)' ./internal/compute/device/cuda ./models/... ./train; done

test-strict: ## run every network, at full size, on a CUDA driver that computes nothing and reports what a GPU's refuses (needs g++)
	$(GO) test -count=1 -timeout 10m -run '$(STRICT)' ./cmd/vsetrain

test-selftest: ## run a whole vsetrain selftest on the emulated driver, which must launch every kernel (needs g++): ten minutes
	$(GO) test -count=1 -v -timeout 60m -run '$(WHOLE)' ./cmd/vsetrain

NO_AVX512 := cpu.avx512f=off,cpu.avx512bw=off,cpu.avx512dq=off,cpu.avx512vl=off
test-avx2: ## run the tests of the arithmetic as on a processor without AVX-512 and AMX
	GODEBUG=$(NO_AVX512) $(GO) test -count=1 -timeout 15m -skip 'CUDA|BF16Copies|Recorded|GPUs' ./internal/compute/device/cpu ./internal/compute/gemm ./internal/compute/vec ./internal/compute/sparse ./eval ./loss ./models/... ./train

test-docs: build ## run the shell blocks of README.md and docs as a reader would, on small synthetic data: two minutes
	bash scripts/run-docs.sh bin/vsetrain

test-arm64: ## run tests of kernels, golden cases and a resumed training of the arm64 program in qemu (qemu-user): three minutes
	GO=$(GO) bash scripts/test-arm64.sh

test-wine: ## run the program for Windows under Wine: tests of files, training, kills, Ctrl-C, eval, serve; skipped without Wine
	GO=$(GO) bash scripts/test-wine.sh

vet-all: ## vet the sources for every supported system
	@set -e; for t in $(TARGETS); do echo "vet $$t"; GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) vet ./...; done

test-long: test test-combined test-strict test-selftest ## also fuzz every reader and race the concurrent packages (VSETRAIN_DATA names a folder of real data)
	FUZZTIME=$(FUZZTIME) GO=$(GO) bash scripts/test-long.sh

lint: ## check the rules of .golangci.yml, staticcheck among them, and the width of other lines: building the linter takes a minute
	$(GO) run $(GOLANGCI) run ./...
	@! git ls-files '*.md' '*.cu' '*.cuh' '*.cc' '*.h' | LC_ALL=C.UTF-8 xargs grep -nE '^[^|].{120}' | grep -v :// || \
	{ echo "these lines have more than 120 columns"; exit 1; }

# Packages that share memory between goroutines and are quick under the race detector: 45 s of CPU once compiled. The
# tests in a browser are left out.
RACED := ./internal/compute/par ./internal/files/runfs ./internal/apps/search ./internal/apps/serve ./internal/apps/view ./data ./data/text
test-race: ## run the tests of the concurrent packages under the race detector (needs gcc)
	CGO_ENABLED=1 $(GO) test -race -timeout 15m -skip Browser $(RACED)

mutants: ## plant mistakes, drawn by SEED, each behind a switch, and say which of them no test sees; again to continue
	$(GO) run ./lab/mutants -seed $(SEED) -n $(MUTANTS) -log bin/mutants-$(SEED).log -skip '$(COMBINED)|$(STRICT)|$(WHOLE)'

TIME ?= 2m
campaign: ## draw power failures, faults, kills, damages, sweeps, load and hostile input, or some KINDS of these, by SEED for TIME, and rewrite their tables of docs/log/verify.md
	GO=$(GO) TIME=$(TIME) SEED=$(SEED) KINDS="$(KINDS)" bash scripts/campaign.sh

test-campaign: ## two minutes of the campaign, without its tables (part of .ci/run): six with the compiling of fuzz targets
	GO=$(GO) TIME=2m SEED=$(SEED) PAGE= bash scripts/campaign.sh

vulncheck: ## look for known vulnerabilities in what the program is built from; skipped where their database is out of reach
	@GO=$(GO) GOVULNCHECK=$(GOVULNCHECK) bash scripts/vulncheck.sh

fmt: ## format the sources
	gofmt -w .

generate: ## write the assembly kernels anew
	$(GO) generate ./lab/asmgen

figures: ## draw the charts of docs/ and write the tables beside them anew, from docs/log
	$(GO) run ./lab/figures

runs: ## unpack the runs of docs/log/runs.zip into bin/runs, to look at them or to change them before make pack-runs
	mkdir -p bin && $(GO) run ./lab/figures unpack bin/runs

pack-runs: ## write docs/log/runs.zip anew from bin/runs, and the figures that follow from it
	$(GO) run ./lab/figures pack bin/runs && $(GO) run ./lab/figures

keep-runs: build ## keep the finished trials of STUDY/sweeps in docs/log/runs.zip without their weights, and draw their figures
	@set -e; t=$$(mktemp -d); trap "rm -r $$t" EXIT; $(GO) run ./lab/figures unpack $$t/runs; \
	cd $(or $(STUDY),$(error name the folder that holds sweeps/: make keep-runs STUDY=FOLDER)); \
	python3 $(CURDIR)/scripts/keep_runs.py $(CURDIR)/bin/vsetrain $$t/runs/$(BELOW) sweeps/*; \
	cd $(CURDIR); $(GO) run ./lab/figures pack $$t/runs; $(GO) run ./lab/figures

leaderboard: ## write the tables of docs/leaderboard.md and its log anew, after the finished trainings of STUDY/sweeps were kept, if STUDY is given
	$(if $(STUDY),$(MAKE) keep-runs BELOW=leaderboard,$(GO) run ./lab/figures)

pictures: build ## draw the pictures of docs/images anew: small trainings, then Chromium (some minutes)
	bash scripts/pictures.sh bin/vsetrain

kernels: ## compile the CUDA kernels to PTX anew (CLANG=clang-19)
	GO=$(GO) bash internal/compute/device/cuda/kernels/build.sh

REV ?= HEAD
PTX := internal/compute/device/cuda/kernels/ptx.zip
ptx-diff: ## show how the PTX differs from that of a commit: make ptx-diff REV=HEAD~1
	@t=$$(mktemp -d); trap "rm -r $$t" EXIT; git show $(REV):$(PTX) >$$t/ptx.zip && \
	$(GO) run ./lab/pack -unpack $$t/ptx.zip $$t/$(REV) && \
	$(GO) run ./lab/pack -unpack $(PTX) $$t/now && cd $$t && (git diff --no-index $(REV) now || true)

registers: ## write the registers of the kernels anew, and their table in docs (needs ptxas: scripts/install-test-tools.sh)
	$(GO) test -count=1 -run '^TestAssembler$$' ./internal/compute/device/cuda/kernels -update
	$(GO) run ./lab/figures

emulator: ## build the emulated CUDA driver into bin/ (needs g++)
	bash lab/emulator/src/build.sh internal/compute/device/cuda/kernels bin/libcuda_emulated.so

gpu-check-emulated: gpu-pack ## unpack what gpu-pack made into an empty folder and run it on the emulated driver: tiny, no times
	rm -rf bin/gpu-check && mkdir -p bin/gpu-check && tar xzf bin/gpu-check.tar.gz -C bin/gpu-check
	cd bin/gpu-check && scripts/gpu-check.sh --emulated

# With the emulated driver, where g++ is there to build it.
GPU_PACK := bin/vsetrain bin/models.test scripts/gpu-check.sh scripts/gpu-check-lib.sh scripts/gpu-check-steps.sh \
	scripts/torch_peer.py lab/peer testdata/torch/vseinf-bert/bert testdata/golden
gpu-pack: build ## pack what scripts/gpu-check.sh needs on a GPU machine into bin/gpu-check.tar.gz
	$(GO) test -c -trimpath -ldflags '-s -w' -o bin/models.test ./models
	@rm -f bin/libcuda_emulated.so; if command -v g++ >/dev/null; then $(MAKE) --no-print-directory emulator; fi
	tar czf bin/gpu-check.tar.gz --exclude=__pycache__ $(GPU_PACK) $$(ls bin/libcuda_emulated.so 2>/dev/null)

demo: build ## synthetic data, semantic vectors, training, recalls in bin/demo: under three minutes
	bash scripts/demo.sh bin/vsetrain

cross: ## build for every supported system into bin/, the static builds for Linux included
	@for t in $(TARGETS); do \
	  out=bin/vsetrain-$${t%/*}-$${t#*/}; case $$t in windows/*) out=$$out.exe;; esac; echo "$$out"; \
	  GOOS=$${t%/*} GOARCH=$${t#*/} $(BUILD) -o $$out ./cmd/vsetrain || exit 1; \
	  case $$t in linux/*) echo "$$out-static"; \
	    GOOS=$${t%/*} GOARCH=$${t#*/} $(BUILD) $(STATIC) -o $$out-static ./cmd/vsetrain || exit 1;; \
	  esac; \
	done

# What docs/requirements.txt pins, in an environment of its own.
docs: ## render README.md and docs/ to a static site in bin/site; a broken link ends it
	@test -x bin/mkdocs/bin/mkdocs || python3 -m venv bin/mkdocs
	bin/mkdocs/bin/pip install --quiet --disable-pip-version-check -r docs/requirements.txt
	rm -rf bin/pages && mkdir -p bin/pages && ln -s $(addprefix ../../,docs $(wildcard *.md) LICENSE CITATION.cff) bin/pages
	NO_MKDOCS_2_WARNING=1 bin/mkdocs/bin/mkdocs build # --quiet would not count warnings

# The time of everything in a release: that of the commit.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)
# Without a tag a release has the version that the program has then.
release: export RELEASE := $(or $(VERSION:v%=%),$(shell sed -n 's/^\tversion = "\(.*\)"/\1/p' internal/system/build/build.go))
release: export HOMEPAGE := $(or $(shell sed -n 's/^var Homepage = "\(.*\)"/\1/p' internal/system/build/build.go),$(BASE_URL))
release: export LDFLAGS := $(LDFLAGS)
release release-check: export SOURCE_DATE_EPOCH := $(SOURCE_DATE_EPOCH)
release: export MTIME = $(shell date -u -d @$(SOURCE_DATE_EPOCH) +%FT%TZ 2>/dev/null || date -u -r $(SOURCE_DATE_EPOCH) +%FT%TZ)
release: ## pack archives, wheels, bills of materials and checksums for every supported system into bin/release; SIGNING_KEY signs them
	rm -rf bin/dist bin/release bin/stage bin/wheels
	$(MAKE) --no-print-directory install DESTDIR=bin/stage PREFIX= SYSTEMS='linux darwin windows'
	$(GO) run $(GORELEASER) release --snapshot --skip=$(if $(BASE_URL),,homebrew,scoop,)publish
	mkdir bin/release && cd bin/dist && cp SHA256SUMS $$(cut -c67- SHA256SUMS | grep -v whl) ../wheels/*.whl ../release
	$(if $(BASE_URL),mkdir bin/release/recipes && cp bin/dist/homebrew/Casks/* bin/dist/scoop/* bin/release/recipes)
	$(if $(SIGNING_KEY),ssh-keygen -Y sign -f '$(SIGNING_KEY)' -n vsetrain-release bin/release/SHA256SUMS)

release-check: ## make the release twice, compare them byte by byte, and install the wheels; ONLY=host makes this system's wheel alone
	GO=$(GO) ONLY=$(ONLY) bash scripts/release-check.sh

PREFIX ?= /usr/local
install: build ## install the program, man pages, completions and licences into PREFIX (/usr/local) below DESTDIR
	GO=$(GO) SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) bash scripts/install.sh bin/vsetrain '$(DESTDIR)$(PREFIX)'

uninstall: ## remove what make install put into PREFIX
	cd '$(DESTDIR)$(PREFIX)' && rm -rf bin/vsetrain share/man/man1/vsetrain.1 share/man/man1/vsetrain-*.1 \
		share/bash-completion/completions/vsetrain share/zsh/site-functions/_vsetrain \
		share/fish/vendor_completions.d/vsetrain.fish share/doc/vsetrain

bench: build ## time the training step: make bench CONFIG=saf/f30k-lseh
	bin/vsetrain bench --config $(CONFIG)

bench-kernels: ## time the kernels into bin/kernels.txt, for make bench-compare
	@mkdir -p bin
	$(GO) test -run '^$$' -bench . -count 6 -timeout 60m ./internal/compute/gemm ./internal/compute/vec ./internal/compute/device/cpu | tee bin/kernels.txt

bench-table: build ## time the slowest steps and evaluations on this CPU: make bench-table OLD=BINARY PEER=--peer
	python3 scripts/bench_table.py --new bin/vsetrain $(if $(OLD),--old $(OLD)) $(PEER)

bench-compare: ## compare two results of bench-kernels: make bench-compare OLD=before.txt
	$(GO) run $(BENCHSTAT) $(OLD) bin/kernels.txt

clean: ## remove bin, where everything is that these targets make
	rm -rf bin
