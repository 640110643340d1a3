// Package api holds promwarp's HTTP doors: Prometheus's own API, remote read
// included, promwarp's /query and /explain, and those for operating it.
//
// Prometheus's web/api/v1 is mounted for everything that is evaluated here.
// What remote read cannot answer (labels, series, metadata, rules, targets) is
// forwarded to the upstream's HTTP API, or answered from the queryable when
// there is no upstream. Everything else is refused with an error that says
// where to ask instead.
package api

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/gorilla/mux"
	"github.com/grafana/regexp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/plan"
)

// Engine evaluates queries and explains how.
type Engine interface {
	promql.QueryEngine
	Explain(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration, analyze bool) (*plan.Explanation, error)
}

// Options are what the doors are made from. Only Engine and Queryable are
// required.
type Options struct {
	Engine    Engine
	Queryable storage.SampleAndChunkQueryable
	// Parser is the engine's; nil is Prometheus's default.
	Parser parser.Parser

	// Remotes are the servers that samples come from; none when they come from
	// here.
	Remotes []*Remote

	// Config, Flags and RuntimeInfo are what the status doors say.
	Config      func() promconfig.Config
	Flags       map[string]string
	RuntimeInfo func() (v1.RuntimeInfo, error)
	// ListenAddress is the server's, host:port.
	ListenAddress string

	// Ready says why the server is not ready, or nil. A nil Ready is always
	// ready.
	Ready func() error
	// Reload reads the configuration again. nil when there is none.
	Reload func() error

	// Dropper is what /api/v1/admin/cache/drop asks. nil when that is disabled.
	Dropper Dropper

	// CORSOrigin is what a browser's origin must match; nil is any.
	CORSOrigin *regexp.Regexp
	// Pprof opens /debug/pprof.
	Pprof bool
	// MaxBodyBytes bounds a request's body; 0 is 10 MiB.
	MaxBodyBytes int64
	// Timeout bounds a forwarded request; 0 is two minutes.
	Timeout time.Duration

	// ReadSamples, ReadConcurrency and ReadFrameBytes bound remote read as
	// Prometheus's --storage.remote.read-* flags do; 0 is Prometheus's default.
	ReadSamples     int
	ReadConcurrency int
	ReadFrameBytes  int

	Logger *slog.Logger
	// Metrics are shared by all APIs of one program; nil measures nothing.
	Metrics *Metrics
	// Registerer takes the metrics of this API alone; may be nil.
	Registerer prometheus.Registerer
	// Gatherer is what /metrics exposes; nil is nothing.
	Gatherer prometheus.Gatherer
}

// The defaults of Options, Prometheus's where it has one.
const (
	defaultMaxBodyBytes    = 10 << 20
	defaultTimeout         = 2 * time.Minute
	defaultReadSamples     = 50_000_000
	defaultReadConcurrency = 10
	defaultReadFrameBytes  = 1 << 20
)

var anyOrigin = regexp.MustCompile("^(?:.*)$")

// API is the http.Handler of all doors.
type API struct {
	o       Options
	logger  *slog.Logger
	v1      http.Handler // Prometheus's own, paths from /api/v1
	queries http.Handler // v1 for the doors that evaluate; large answers are streamed
	router  *mux.Router
}

// New returns the doors.
func New(o Options) (*API, error) {
	if o.Engine == nil || o.Queryable == nil {
		return nil, errors.New("api: Engine and Queryable must be set")
	}
	if o.Logger == nil {
		o.Logger = promslog.NewNopLogger()
	}
	if o.Parser == nil {
		o.Parser = parser.NewParser(parser.Options{ExperimentalDurationExpr: true})
	}
	if o.Config == nil {
		o.Config = func() promconfig.Config { return promconfig.DefaultConfig }
	}
	if o.RuntimeInfo == nil {
		start := time.Now()
		o.RuntimeInfo = func() (v1.RuntimeInfo, error) { return RuntimeInfo(start), nil }
	}
	if o.Ready == nil {
		o.Ready = func() error { return nil }
	}
	if o.CORSOrigin == nil || o.CORSOrigin.String() == "^(?s:.*)$" {
		o.CORSOrigin = anyOrigin
	}
	if o.Gatherer == nil {
		o.Gatherer = prometheus.NewRegistry()
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
	if o.Flags == nil {
		o.Flags = map[string]string{}
	}
	setDefault(&o.MaxBodyBytes, defaultMaxBodyBytes)
	setDefault(&o.Timeout, defaultTimeout)
	setDefault(&o.ReadSamples, defaultReadSamples)
	setDefault(&o.ReadConcurrency, defaultReadConcurrency)
	setDefault(&o.ReadFrameBytes, defaultReadFrameBytes)

	a := &API{o: o, logger: o.Logger}
	ss := newStreams()
	a.v1 = a.newV1(ss)
	a.queries = ss.handler(a.v1)
	a.router = a.routes()
	return a, nil
}

func setDefault[T int | int64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.router.ServeHTTP(w, r) }
