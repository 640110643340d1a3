# promwarp: CI runs `make test` and `make check-chart`, the main job is `make demo`.

GO      ?= go
ARGS    ?=
TAGS    ?=
BUILD   := .build
VERSION := $(shell cat VERSION 2>/dev/null)
PKG     := github.com/prometheus/common/version
LDFLAGS := -s -w -X $(PKG).Version=$(VERSION)

# What a fork changes, here or in the environment: what its image is called, also in the chart of a
# release, and who maintains its packages. deploy/helm/promwarp/values.yaml repeats the image.
IMAGE      := $(or $(IMAGE),promwarp/promwarp)
MAINTAINER := $(or $(MAINTAINER),promwarp <promwarp@users.noreply.github.com>)

# stdmethods wants io.Seeker's signature of every method named Seek; a
# chunkenc.Iterator has another.
VET     := -stdmethods=false
# Packages with goroutines of their own.
RACE    := ./resample ./selection ./cache ./cache/disk ./cache/fanout ./cache/results ./remoteread ./remoteread/reduce ./remoteread/serve ./remoteread/tsdbdir ./remoteread/upstream ./cpuexec ./cpuexec/operator ./api/admit ./api/encode ./api/compress ./gpuexec/cuda ./gpuexec/device ./planner/placement ./internal/memory ./internal/parallel ./internal/queue ./internal/refcount
# Long tests of theirs that one goroutine runs, and the cache's histories: make soak is their
# like under the race detector.
ALONE   := ^(TestAgainstPrometheus|TestAgainstTSDB|TestRoundTrip|TestExtend|TestMergeRandomly|TestCompact|TestMovingDashboard|TestSubsumedIsTheUpstreams|TestDivisionIsComplete|TestWorthsOfMoments|TestManyOverlapsEndInTime|TestFullWords|TestMathOfOurOwn|TestRankerHeaps|TestOddTimes|TestChainsLetGo|TestUnderLoad|TestManyGroups)$$
# A test that fails is run again, twice at most, and named as one that did: a machine that
# others share stalls now and then. Data races and panics fail at once, and so do many failures.
GOTESTSUM := gotest.tools/gotestsum@v1.13.0
AGAIN     := --format pkgname-and-test-fails --hide-summary skipped --rerun-fails=2 --rerun-fails-max-failures=4 --rerun-fails-abort-on-data-race
# make vet vets all that is tested; go test would do so again for each way that it compiles in. Tables
# for debuggers take a third of linking. What compiles and links collects its garbage less often, and each
# process has one core, which takes a twelfth less of processors' time; tests have all of them.
# Where others use the machine, engine takes longer than the ten minutes that go test allows a package.
COMPILED  := vet staticcheck unit race asan deploy e2e test-page
$(COMPILED): export GOGC = 400
$(COMPILED): export GOMAXPROCS = 1
$(COMPILED): export GOFLAGS += -p=$(shell nproc)
AS_USERS  := env -u GOGC -u GOMAXPROCS
UNVETTED  := -vet=off -ldflags=-w -exec '$(AS_USERS)' -timeout 20m
TEST      = $(GO) run $(GOTESTSUM) $(AGAIN) --packages
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: all build deploy browser packagers check-chart check-dashboard check-deploy release demo test compiler unit race random soak fuzz e2e footprint attack raceload vuln licences clients thanos prometheus leafbench proto test-answers bench bench-program readme-figures gpubench kernels test-arm64 hostdriver asan lint vet staticcheck fmt clean help node page check-page test-page pictures

all: build

help:           ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

build:          ## build bin/promwarp, one binary that needs no more than glibc; TAGS=nogpu for a static one without the GPU's part
	CGO_ENABLED=0 $(GO) build -buildvcs=auto -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/promwarp ./cmd/promwarp

demo:           ## fill a Prometheus with a day of data and compare; ARGS=--once to end after that
	$(GO) run ./cmd/promwarp demo $(ARGS)

PAGE := api/page
# The page's sources are TypeScript; what is built from them is committed, so that building promwarp
# takes no node.
node:
	@command -v npm >/dev/null || { echo "the page is built with node and npm, which are not here: install nodejs 20.19 or later with npm, https://nodejs.org"; exit 1; }
	@cd $(PAGE) && { cmp -s package-lock.json node_modules/.lock || { npm ci --no-audit --no-fund && cp package-lock.json node_modules/.lock; }; }

page: node      ## build the page, which is committed, from api/page/src
	cd $(PAGE) && npm run -s types && npm run -s build

check-page: node ## check that the page which is committed is built from its sources
	@rm -rf $(BUILD)/page && cd $(PAGE) && npm run -s types && PAGE_OUT=$(CURDIR)/$(BUILD)/page npm run -s build
	diff -r $(BUILD)/page $(PAGE)/dist || { echo "the page is not built from its sources: run make page"; exit 1; }

# Chromium without its own windows and menus takes half the time of the one with them.
CHROMIUM ?= chromium-headless-shell
browser:
	@command -v $(CHROMIUM) >/dev/null || { apt-get update -qq && apt-get install -qqy chromium-headless-shell; } || \
		{ echo "the page is tested in Chromium: there is no $(CHROMIUM); install chromium-headless-shell, or chromium with CHROMIUM=chromium"; exit 1; }

test-page: browser check-page $(BUILD)/libcuda-host.so ## the page in a headless Chromium, in front of real servers; SHOTS=DIR keeps pictures of all views
	$(GO) build -ldflags=-w -o $(BUILD)/promwarp-page ./cmd/promwarp
	cd $(PAGE) && $(AS_USERS) PROMWARP=$(CURDIR)/$(BUILD)/promwarp-page CUDA=$(CURDIR)/$(BUILD)/libcuda-host.so CHROMIUM=$$(command -v $(CHROMIUM)) SHOTS=$(SHOTS) npm test

pictures: browser node $(BUILD)/libcuda-host.so ## take the pictures of the page that documents show, of the demonstration
	$(GO) build -o $(BUILD)/promwarp-page ./cmd/promwarp
	cd $(PAGE) && PROMWARP=$(CURDIR)/$(BUILD)/promwarp-page CUDA=$(CURDIR)/$(BUILD)/libcuda-host.so CHROMIUM=$$(command -v $(CHROMIUM)) node test/pictures.mjs $(CURDIR)/docs/pictures

# While vet compiles, what is missing is installed. Then two steps run at once: end-to-end tests wait for
# servers, the page for its browser, and the unit tests, which wait for nothing, come last. What they leave of
# the cores is staticcheck's.
test:           ## everything CI runs, but for make check-chart
	@$(MAKE) -j1 compiler $(BUILD)/libcuda-host-asan.so browser packagers node & i=$$!; $(MAKE) vet && wait $$i || { kill $$i 2>/dev/null; false; }
	@nice -n 10 $(MAKE) staticcheck & s=$$!; $(MAKE) -j2 --output-sync=line e2e asan test-page race deploy unit && wait $$s || { kill $$s 2>/dev/null; false; }

# The GPU's kernels are tested on the host, which takes a C++ compiler.
compiler:
	@command -v $(CXX) >/dev/null || { apt-get update -qq && apt-get install -qqy g++; } || \
		{ echo "the tests need a C++ compiler: there is no $(CXX); install g++ or set CXX"; exit 1; }

unit:           ## unit tests, Prometheus's own suite, random queries
	$(TEST) ./... -- $(UNVETTED)
	cd bench && $(TEST) ./... -- $(UNVETTED) -short

ARM64 := GOOS=linux GOARCH=arm64 CGO_ENABLED=0
QEMU  ?= qemu-aarch64-static -L /usr/aarch64-linux-gnu
# Prometheus's products are rounded before they are added, as on amd64; the compiler lists where.
UNFUSED := -gcflags=github.com/prometheus/...=-d=fmahash=n
test-arm64:     ## the executor's tests and random queries as arm64's code, under qemu, about five minutes
	@command -v $(firstword $(QEMU)) >/dev/null && test -d $(lastword $(QEMU)) || { apt-get update -qq && apt-get install -qqy qemu-user-static libc6-arm64-cross; } || \
		{ echo "arm64's code is run by qemu: there is no $(firstword $(QEMU)), or no C library at $(lastword $(QEMU)); install qemu-user-static and libc6-arm64-cross"; exit 1; }
	$(ARM64) $(GO) build ./... && GOOS=darwin GOARCH=arm64 $(GO) build ./...
	$(ARM64) GSHS_LOGFILE=/dev/null $(GO) test -exec '$(QEMU)' $(UNFUSED) -short ./cpuexec/...
	$(ARM64) GSHS_LOGFILE=/dev/null PROMWARP_RANDOM=1000 $(GO) test -exec '$(QEMU)' $(UNFUSED) -run '^(TestRandomQueries|TestSmith)$$' ./engine

race:           ## the concurrent parts under the race detector
	CGO_ENABLED=1 $(TEST) '$(RACE)' -- $(UNVETTED) -race -short -skip '$(ALONE)'
	CGO_ENABLED=1 $(GO) test $(UNVETTED) -race -run 'TestAnyNumberOfCores|TestTimeoutAndCancel|TestGPUConcurrently' ./engine

# How often each random test of make random asks, where it asks 50 to 5000 times in make test.
RANDOM ?= 20000
random:         ## RANDOM (20000) random queries a test, and other random cases in proportion; takes long, not in CI
	PROMWARP_RANDOM=$(RANDOM) $(GO) test -count=1 -timeout 3h -run 'Random|Smith|Fanout|Extended|Reduced' ./engine
	PROMWARP_RANDOM=$(RANDOM) $(GO) test -count=1 -timeout 3h ./api/encode
	$(GO) test -count=1 -timeout 3h ./gpuexec -run TestRandom -resampling.rounds=$$(($(RANDOM) / 40))
	PROMWARP_MODEL=$$(($(RANDOM) / 200)) $(GO) test -count=1 -timeout 3h -run 'TestAgainstPrometheus|TestMovedQueries' ./cache ./engine
	cd e2e && E2E_WRITTEN=$$(($(RANDOM) / 100)) E2E_RANDOM=$$(($(RANDOM) / 60)) $(GO) test -count=1 -timeout 3h -run TestSettingsMatrix .

SOAK ?= 10m
soak:           ## have the cache work for SOAK (10m) under the race detector: memory, goroutines and mapped files must not grow
	CGO_ENABLED=1 PROMWARP_SOAK=$(SOAK) $(GO) test -race -count=1 -timeout 1h -v -run TestSoak ./cache

FUZZ ?= 10s
fuzz:           ## have every fuzzer of foreign bytes work for FUZZ (10s) each
	@set -e; for d in $$(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n1 dirname | sort -u); do \
		for f in $$(grep -ho '^func Fuzz[A-Za-z0-9]*' $$d/*_test.go | cut -d' ' -f2); do \
			echo "$$d $$f"; $(GO) test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZ) $$d; \
		done; \
	done

packagers:
	@command -v systemd-analyze >/dev/null && command -v dpkg-deb >/dev/null && command -v groff >/dev/null || { apt-get update -qq && apt-get install -qqy systemd dpkg groff; } || \
		{ echo "units, packages and the man page are checked by systemd-analyze, dpkg-deb and groff, which are not all here: install systemd, dpkg and groff"; exit 1; }

deploy: packagers check-dashboard ## render and check what installs and watches promwarp, but for the chart: the mixin, units, packages
	cd deploy && $(TEST) ./... -- $(UNVETTED)
	@echo "deploy: the Helm chart is not among it; make check-chart renders and checks that"

check-dashboard: ## hold the mixin's dashboard against Grafana's types; needs node and npm
	@mkdir -p $(BUILD)/grafana && cp deploy/mixin/schema/package.json $(BUILD)/grafana/
	npm install --prefix $(BUILD)/grafana --no-audit --no-fund --ignore-scripts
	cat deploy/mixin/schema/dashboard.ts deploy/mixin/rendered/promwarp.json > $(BUILD)/grafana/dashboard.ts
	cd $(BUILD)/grafana && node_modules/.bin/tsc --noEmit --strict --skipLibCheck --module esnext --moduleResolution bundler dashboard.ts

check-chart:    ## render the Helm chart for three versions of Kubernetes and hold it against its types, which take minutes to compile once; CHART=FILE for an archive
	cd deploy/helm && $(GO) vet ./... && CHART=$(CHART) $(GO) test -count=1 ./...

NAMES := -image '$(IMAGE)' -maintainer '$(MAINTAINER)'
release:        ## build a release into .build/release, with all that a project page offers; VERSION=0.1.0, ARGS=-platforms=linux/amd64
	cd deploy && $(GO) run ./release $(NAMES) -version '$(VERSION)' -out $(CURDIR)/$(BUILD)/release $(ARGS)

# The second build has a folder and a cache of Go's of its own.
AGAIN_DIR := $(CURDIR)/$(BUILD)/again
check-deploy: release ## build the release once more, elsewhere and from nothing, compare all bytes, and check its chart; some minutes, not in CI
	@rm -rf $(AGAIN_DIR) && mkdir -p $(AGAIN_DIR)/src && git ls-files -z | xargs -0 cp --parents -t $(AGAIN_DIR)/src
	cd $(AGAIN_DIR)/src/deploy && SOURCE_DATE_EPOCH=$$(git -C $(CURDIR) log -1 --format=%ct) GOCACHE=$(AGAIN_DIR)/cache $(GO) run ./release $(NAMES) \
		-version '$(VERSION)' -revision $$(git -C $(CURDIR) describe --always --abbrev=40 --exclude='*' --dirty) -out $(AGAIN_DIR)/release $(ARGS)
	diff -r $(BUILD)/release $(AGAIN_DIR)/release && rm -rf $(AGAIN_DIR)
	cd $(BUILD)/release && sha256sum --quiet -c SHA256SUMS
	$(MAKE) check-chart CHART=$(CURDIR)/$(BUILD)/release/promwarp-chart-$(VERSION).tgz

e2e:            ## real Prometheus binaries against the real promwarp
	cd e2e && $(TEST) ./... -- $(UNVETTED) -count=1

footprint:      ## how many functions, files and packages of promwarp a cold request runs, and how deep; ARGS=-list names them
	cd e2e && $(GO) run ./footprint $(ARGS)

ATTACK ?= 3m
attack: build   ## ask a freshly started promwarp for everything that may kill it, all at once for ATTACK (3m); ARGS are the attack's
	cd e2e && $(GO) run ./attack -for $(ATTACK) $(ARGS)

RACELOAD ?= 1m
raceload:       ## the attack's load, everything at once for RACELOAD (1m), on a promwarp under the race detector; any report fails
	CGO_ENABLED=1 $(GO) build -race -o $(BUILD)/promwarp-race ./cmd/promwarp
	cd e2e && $(GO) run ./attack -promwarp-bin ../$(BUILD)/promwarp-race -series 680 -bars=false -patience 10 -for $(RACELOAD) $(ARGS)

GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.8.0
vuln:           ## known vulnerabilities in what promwarp is made of; GOVULNDB names a mirror of https://vuln.go.dev
	@curl -fsS -m 20 -o /dev/null $${GOVULNDB:-https://vuln.go.dev}/index/db.json || \
		{ echo "NOT CHECKED: the database of vulnerabilities cannot be reached; name a mirror in GOVULNDB"; exit 1; }
	$(GO) run $(GOVULNCHECK) ./cmd/promwarp

licences:       ## the licences of all modules that are linked into promwarp
	cd e2e && $(GO) test -count=1 ./licences

clients:        ## clients that take some minutes to build, once: Thanos and vmctl read through promwarp, Thanos has it evaluate, and rulers ask it; CONNECTOR=FILE for the community's connector, too
	cd e2e && $(GO) test -count=1 -tags clients -timeout 30m -run 'TestThanos|TestVmctl|TestLeaf|TestStores|TestPair|TestRulers' .

# Thanos is built in its module's own folder, as its go.mod replaces some of its dependencies.
THANOS := $(shell sed -n 's/^const thanosVersion = "\(.*\)"/\1/p' e2e/heavyclients_test.go)
thanos: $(BUILD)/thanos-$(THANOS) ## build Thanos into .build, once, from the Go module proxy; some minutes

$(BUILD)/thanos-$(THANOS):
	@mkdir -p $(BUILD)
	cd "$$(cd / && $(GO) mod download -json github.com/thanos-io/thanos@$(THANOS) | sed -n 's/.*"Dir": "\(.*\)".*/\1/p')" && \
		$(GO) build -mod=readonly -trimpath -tags slicelabels -o $(CURDIR)/$@.$$$$ ./cmd/thanos && mv $(CURDIR)/$@.$$$$ $(CURDIR)/$@

# Where end-to-end tests keep it, which build it before they run: here none does.
prometheus:     ## build Prometheus into .build, once, from the Go module proxy; some minutes
	cd e2e && E2E_PROMWARP=- $(GO) test -count=1 -run '^$$' .

SERIES ?= 10000
leafbench:      ## 20 queries of dashboards over 24 h and SERIES (10000) series through Thanos: three leaves against three sidecars
	cd e2e && E2E_SPEED=$(SERIES) $(GO) test -count=1 -timeout 1h -tags clients -v -run TestLeafSpeed . | grep -v 'ts=\|time='

ANSWERS := $(BUILD)/answers
test-answers:   ## DuckDB, Arrow for JavaScript and pandas read answers; needs node, npm and python3 with pandas
	@command -v npm >/dev/null || { echo "Arrow for JavaScript and DuckDB come from npm, which is not here: install nodejs and npm"; exit 1; }
	@python3 -c 'import pandas' 2>/dev/null || { echo "python3 has no pandas: apt-get install python3-pandas, and have PATH begin with the folder of that python3"; exit 1; }
	@mkdir -p $(ANSWERS) && cp examples/answers/* $(ANSWERS)/
	npm install --prefix $(ANSWERS) --no-audit --no-fund
	cd e2e && ANSWERS=$(CURDIR)/$(ANSWERS) $(GO) test -count=1 -tags answers -run TestAnswerClients .

bench:          ## compare with Prometheus and VictoriaMetrics over HTTP, about five minutes; ARGS=-smoke for a quick look, ARGS='-stages first,cores' for others, ARGS=-help lists them
	cd bench && $(GO) run . $(ARGS)

# What the dashboards over 30 days read, and where the data lies: new each time, as some queries read up to now.
MONTH   ?= -series 3000 -interval 30s
FIGURES := $(CURDIR)/$(BUILD)/figures
readme-figures: ## measure the table in README.md, with its commit and machine, on a quiet machine with 20 GB of disk; MONTH='-series 500 -interval 1m' for a quick look, FROM=FILE for what bin/bench wrote with -json elsewhere
ifdef FROM
	cd bench && $(GO) run . -from $(abspath $(FROM)) -readme ../README.md
else
	rm -rf $(FIGURES)
	cd bench && $(GO) run . -dir $(FIGURES) -stages dashboards $(ARGS)
	cd bench && $(GO) run . -dir $(FIGURES) -stages exporters $(MONTH) -readme ../README.md $(ARGS)
	rm -rf $(FIGURES)
endif

bench-program:  ## build bin/bench, one binary that measures where there is no checkout: bench/doc.go says how
	cd bench && CGO_ENABLED=0 $(GO) build -o ../bin/bench .

gpubench:       ## build bin/gpubench, one binary that measures a machine's GPU; see it with -help
	cd bench && CGO_ENABLED=0 $(GO) build -ldflags '-s -w -X $(PKG).Revision=$(shell git rev-parse --short HEAD)' -o ../bin/gpubench ./gpu

GOGOFASTER := github.com/gogo/protobuf/protoc-gen-gogofaster
proto:          ## generate internal/leafpb, which is committed, from its .proto files; needs protoc
	@command -v protoc >/dev/null || { apt-get update -qq && apt-get install -qqy protobuf-compiler; } || { echo "there is no protoc: install protobuf-compiler"; exit 1; }
	$(GO) build -o $(BUILD)/protoc-gen-gogofaster $(GOGOFASTER)
	cd internal/leafpb && protoc -I. -I$$($(GO) list -m -f '{{.Dir}}' github.com/gogo/protobuf) -I$$($(GO) list -m -f '{{.Dir}}' github.com/prometheus/prometheus)/prompb \
		--plugin=$(CURDIR)/$(BUILD)/protoc-gen-gogofaster --gogofaster_out=plugins=grpc,Mtypes.proto=github.com/prometheus/prometheus/prompb,paths=source_relative:. *.proto

kernels:        ## build the GPU kernels' PTX, which is committed, with clang-19
	$(GO) run ./kernels/build

# The host driver stands in for the CUDA driver in tests.
HOST_SOURCES := $(sort $(wildcard kernels/host/*.cpp))
HOST_SPEED   := -O2 -g1
HOST_FLAGS   := -std=c++17 $(HOST_SPEED) -fPIC -shared -fvisibility=hidden -ffp-contract=off -Wall -Wextra -Werror
ASAN_FLAGS   := -O1 -fsanitize=address -fno-omit-frame-pointer

hostdriver: $(BUILD)/libcuda-host.so ## build the kernels for the host, behind the CUDA driver's interface

$(BUILD)/libcuda-host.so $(BUILD)/libcuda-host-asan.so: $(HOST_SOURCES) $(wildcard kernels/*/*.h kernels/*/*.cu) Makefile
	@mkdir -p $(BUILD)
	@command -v $(CXX) >/dev/null || { echo "the tests of the GPU kernels need a C++ compiler: there is no $(CXX); install g++ or set CXX"; exit 1; }
	$(CXX) $(HOST_FLAGS) $(if $(findstring asan,$@),$(ASAN_FLAGS)) $(HOST_SOURCES) -o $@.$$$$ && mv $@.$$$$ $@

# gpuexec/device opens and closes devices, and runs no kernels that others do not.
# UNSEEN are long tests of what the host does around kernels that others run as well: parts of leaves
# and of requests, where rows and chunks are kept, bits, and what a compiler says.
UNSEEN := ^(TestRows(Stay|FromBoth|GivenBack)|TestSplit(Requests)?|TestResident|TestStatisticBits|TestCompiles)$$
asan: $(BUILD)/libcuda-host-asan.so ## run the kernels on the host under AddressSanitizer
	PROMWARP_CUDA_LIBRARY=$(CURDIR)/$< ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$$($(CXX) -print-file-name=libasan.so) \
		$(GO) test $(UNVETTED) -count=1 -short -skip '$(UNSEEN)' $$($(GO) list ./gpuexec/... | grep -v gpuexec/device)

lint: vet staticcheck ## formatting, vet and staticcheck

vet:
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt would change: $$out"; exit 1; }
	$(GO) vet $(VET) ./...
	cd e2e && $(GO) vet $(VET) -tags clients,answers ./...
	cd bench && $(GO) vet $(VET) ./...
	cd deploy && $(GO) vet $(VET) ./...
	@for d in e2e bench; do (cd $$d && $(GO) list -deps tool >/dev/null) || { echo "$$d/go.sum lacks what its tools need: run go mod tidy there"; exit 1; }; done

staticcheck:
	$(GO) run -exec 'env -u GOMAXPROCS' $(STATICCHECK) ./...

fmt:            ## format
	gofmt -w $$(git ls-files '*.go')

clean:          ## remove what was built
	rm -rf bin $(BUILD)
