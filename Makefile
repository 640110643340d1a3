# promwarp: everything CI runs is `make test`, the main job is `make demo`.

GO      ?= go
ARGS    ?=
BUILD   := .build
VERSION := $(shell cat VERSION 2>/dev/null)
PKG     := github.com/prometheus/common/version
LDFLAGS := -s -w -X $(PKG).Version=$(VERSION)

# stdmethods wants io.Seeker's signature of every method named Seek; a
# chunkenc.Iterator has another.
VET     := -stdmethods=false
# Packages with goroutines of their own.
RACE    := ./selection ./cache ./remoteread ./cpuexec ./tsdbdir ./jsonout ./refcount
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: all build demo test unit race e2e bench lint fmt clean help

all: build

help:           ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

build:          ## build bin/promwarp, one static binary
	CGO_ENABLED=0 $(GO) build -ldflags '$(LDFLAGS)' -o bin/promwarp ./cmd/promwarp

demo:           ## fill a Prometheus with a day of data and compare; ARGS=--once to end after that
	$(GO) run ./cmd/promwarp demo $(ARGS)

test: lint unit race e2e ## everything CI runs

unit:           ## unit tests, Prometheus's own suite, random queries
	$(GO) test ./...
	cd bench && $(GO) test -short ./...

race:           ## the concurrent parts under the race detector
	CGO_ENABLED=1 $(GO) test -race -short $(RACE)
	CGO_ENABLED=1 $(GO) test -race -run 'TestAnyNumberOfCores|TestTimeoutAndCancel' ./engine

e2e:            ## real Prometheus binaries against the real promwarp
	cd e2e && $(GO) test -count=1 ./...

bench:          ## compare with Prometheus and VictoriaMetrics over HTTP, about five minutes; ARGS=-smoke for a quick look
	cd bench && $(GO) run . $(ARGS)

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
