# promwarp: everything CI runs is `make test`, the main job is `make demo`.

GO      ?= go
ARGS    ?=
TAGS    ?=
BUILD   := .build
VERSION := $(shell cat VERSION 2>/dev/null)
PKG     := github.com/prometheus/common/version
LDFLAGS := -s -w -X $(PKG).Version=$(VERSION)

# stdmethods wants io.Seeker's signature of every method named Seek; a
# chunkenc.Iterator has another.
VET     := -stdmethods=false
# Packages with goroutines of their own.
RACE    := ./selection ./cache/... ./remoteread ./cpuexec ./tsdbdir ./jsonout ./refcount ./gpuexec/cuda ./fleet ./cost
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: all build demo test compiler unit race soak e2e bench gpubench kernels hostdriver asan lint fmt clean help

all: build

help:           ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

build:          ## build bin/promwarp, one binary that needs no more than glibc; TAGS=nogpu for a static one without the GPU's part
	CGO_ENABLED=0 $(GO) build -tags '$(TAGS)' -ldflags '$(LDFLAGS)' -o bin/promwarp ./cmd/promwarp

demo:           ## fill a Prometheus with a day of data and compare; ARGS=--once to end after that
	$(GO) run ./cmd/promwarp demo $(ARGS)

test: lint compiler unit race asan e2e ## everything CI runs

# The GPU's kernels are tested on the host, which takes a C++ compiler.
compiler:
	@command -v $(CXX) >/dev/null || { apt-get update -qq && apt-get install -qqy g++; } || \
		{ echo "the tests need a C++ compiler: there is no $(CXX); install g++ or set CXX"; exit 1; }

unit:           ## unit tests, Prometheus's own suite, random queries
	$(GO) test ./...
	cd bench && $(GO) test -short ./...

race:           ## the concurrent parts under the race detector
	CGO_ENABLED=1 $(GO) test -race -short $(RACE)
	CGO_ENABLED=1 $(GO) test -race -run 'TestAnyNumberOfCores|TestTimeoutAndCancel|TestGPUConcurrently' ./engine

SOAK ?= 10m
soak:           ## have the cache work for SOAK (10m) under the race detector: memory, goroutines and mapped files must not grow
	CGO_ENABLED=1 PROMWARP_SOAK=$(SOAK) $(GO) test -race -count=1 -timeout 1h -v -run TestSoak ./cache

e2e:            ## real Prometheus binaries against the real promwarp
	cd e2e && $(GO) test -count=1 ./...

bench:          ## compare with Prometheus and VictoriaMetrics over HTTP, about five minutes, and write docs/performance.md's tables; ARGS=-smoke for a quick look
	cd bench && $(GO) run . -docs ../docs/performance.md $(ARGS)

gpubench:       ## build bin/gpubench, one binary that measures a machine's GPU; see it with -help
	cd bench && CGO_ENABLED=0 $(GO) build -ldflags '-s -w -X $(PKG).Revision=$(shell git rev-parse --short HEAD)' -o ../bin/gpubench ./gpu

kernels:        ## build the GPU kernels' PTX, which is committed, with clang-19
	$(GO) run ./kernels/build

# The host driver stands in for the CUDA driver in tests.
HOST_SOURCES := $(sort $(wildcard kernels/host/*.cpp))
HOST_FLAGS   := -std=c++17 -O2 -g -fPIC -shared -fvisibility=hidden -ffp-contract=off -Wall -Wextra -Werror
ASAN_FLAGS   := -O1 -fsanitize=address -fno-omit-frame-pointer

hostdriver: $(BUILD)/libcuda-host.so ## build the kernels for the host, behind the CUDA driver's interface

$(BUILD)/libcuda-host.so $(BUILD)/libcuda-host-asan.so: $(HOST_SOURCES) $(wildcard kernels/host/*.h kernels/*.h kernels/*.cu kernels/historic/*) Makefile
	@mkdir -p $(BUILD)
	@command -v $(CXX) >/dev/null || { echo "the tests of the GPU kernels need a C++ compiler: there is no $(CXX); install g++ or set CXX"; exit 1; }
	$(CXX) $(HOST_FLAGS) $(if $(findstring asan,$@),$(ASAN_FLAGS)) $(HOST_SOURCES) -o $@.$$$$ && mv $@.$$$$ $@

asan: $(BUILD)/libcuda-host-asan.so ## run the kernels on the host under AddressSanitizer
	PROMWARP_CUDA_LIBRARY=$(CURDIR)/$< ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD=$$($(CXX) -print-file-name=libasan.so) \
		$(GO) test -count=1 -short ./gpuexec/...

lint:           ## formatting, vet and staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); test -z "$$out" || { echo "gofmt would change: $$out"; exit 1; }
	$(GO) vet $(VET) ./...
	cd e2e && $(GO) vet $(VET) ./...
	cd bench && $(GO) vet $(VET) ./...
	$(GO) run $(STATICCHECK) ./...

fmt:            ## format
	gofmt -w $$(git ls-files '*.go')

clean:          ## remove what was built
	rm -rf bin $(BUILD)
