// Package api holds promwarp's HTTP doors: Prometheus's own API, remote read
// included, promwarp's /query and /explain, and those for operating it.
//
// Queries are answered by query.go, in the bytes of Prometheus's API; remote read by
// remoteread/serve.
// What remote read cannot answer (labels, series, metadata, rules, targets) is
// forwarded to the upstream's HTTP API, or answered from the queryable when
// there is no upstream. Everything else is refused with an error that says
// where to ask instead.
package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/gorilla/mux"
	"github.com/grafana/regexp"
	"github.com/prometheus/client_golang/prometheus"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/api/admit"
	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/api/guard"
	"github.com/promwarp/promwarp/api/resampled"
	"github.com/promwarp/promwarp/cache"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/engine/backtest"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/queue"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/planner/placement"
	remoteserve "github.com/promwarp/promwarp/remoteread/serve"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/resample/aggregate"
)

// Engine evaluates queries and explains how.
type Engine interface {
	NewQuery(ctx context.Context, r engine.Request) (promql.Query, error)
	Explain(ctx context.Context, r engine.Request, analyze bool) (*plan.Explanation, error)
	Cost(ctx context.Context, r engine.Request) (*plan.Cost, error)
}

// Options are what the doors are made from. All are required, unless one says otherwise.
type Options struct {
	Engine    Engine
	Queryable storage.SampleAndChunkQueryable
	// Resample answers resample requests.
	Resample *resample.Executor
	// Aggregates are what resample requests may name. With DefineAggregates they may define more.
	Aggregates       aggregate.Library
	DefineAggregates bool
	// Parser is the engine's.
	Parser parser.Parser
	// Limits bound the text of queries and selectors; the zero value has the defaults.
	Limits planner.Limits

	// Remotes are the servers that samples come from; none when they come from
	// here.
	Remotes []*forward.Remote

	// Config, Flags and RuntimeInfo are what the status doors say.
	Config      func() promconfig.Config
	Flags       map[string]string
	RuntimeInfo func() RuntimeInfo
	// Features are those of the engine and its parser, by category, for
	// /api/v1/features.
	Features func() map[string]map[string]bool

	// LookbackDelta is how old the samples may be that /federate gives.
	LookbackDelta time.Duration
	// PagesURL is where browsers find the upstream's pages; nil is the Base of the
	// only one of Remotes.
	PagesURL *url.URL

	// Known says how the upstreams are set, as far as answers depend on it, and what is
	// not known of that, a line each.
	Known func() []string

	// Ready says why the server is not ready, or nil, and what is to be known although it is, a line
	// each.
	Ready func() (notes []string, err error)
	// Lifecycle opens /-/reload.
	Lifecycle bool
	// Reload reads the configuration again. nil when there is none.
	Reload func() error

	// Dropper is what /api/v1/admin/cache/drop asks. nil when that is disabled.
	Dropper Dropper
	// Examples are queries that the page offers.
	Examples []string
	// Cancel lets /api/v1/admin/queries/cancel cancel queries.
	Cancel bool
	// Caches are what the caches have, at most the given number of selectors of each.
	Caches func(selectors int) []cache.Contents
	// GPUs are what is known of them.
	GPUs func() placement.Report

	// CORSOrigin is what a browser's origin must match.
	CORSOrigin *regexp.Regexp
	// MaxListBytes is the most bytes of labels, series or metadata that upstreams may answer
	// one request with where promwarp puts the answer together.
	MaxListBytes int64
	// Pprof opens /debug/pprof.
	Pprof bool
	// Memory is the process's memory, of which the bodies of requests take leases; nil is
	// without limit.
	Memory *memory.Pool
	// MaxBodyBytes bounds a request's body.
	MaxBodyBytes int64
	// BodyTimeout is the longest that a body may take to arrive, and WriteTimeout the longest
	// that a client may read nothing of its answer.
	BodyTimeout, WriteTimeout time.Duration
	// Timeout bounds a query with its time in the queue, a forwarded request and one of
	// remote read.
	Timeout time.Duration

	// Queue bounds how many queries are evaluated at once, and how many wait; nil does not.
	Queue *queue.Queue
	// TooLarge are requests that needed more memory than there is, and are refused for a while; nil
	// are none.
	TooLarge *memory.TooLarge
	// ListQueue is the same for requests for labels, series and metadata, which servers answer
	// that samples are read from. A slot is given back when the server begins to answer.
	ListQueue *queue.Queue
	// TenantHeader is the header that says whose a request is, for whose turn it is in the
	// queues. Requests without it, and all if it is empty, are the remote address's.
	TenantHeader string

	// Read bounds remote read, with its queue. The rest of it comes from these options.
	Read remoteserve.Options
	// ReadReductions are further doors for remote read, /api/v1/read/NAME by their names, each
	// of which sends readers what its function makes of what they asked for.
	ReadReductions map[string]remoteserve.Reduce
	// ExternalLabels are the labels that remote read and /federate add to series, as a
	// Prometheus does with its external_labels.
	ExternalLabels func() labels.Labels

	Logger *slog.Logger
	// Answered, when set, is told of each query that was evaluated without an error, before it is
	// closed, and of the remote address that it was asked from.
	Answered func(client string, q promql.Query)
	// LogQueries has each query logged that is evaluated; one that takes SlowQueries or longer, if
	// that is not 0, is logged with its plan.
	LogQueries  bool
	SlowQueries time.Duration
	// Metrics are shared by all APIs of one program.
	Metrics *guard.Metrics
	// Registerer takes the metrics of this API alone; may be nil.
	Registerer prometheus.Registerer
	// Gatherer is what /metrics exposes.
	Gatherer prometheus.Gatherer
}

// MaxListBytes is the most that Options.MaxListBytes is good for.
const MaxListBytes = 512 << 20

// API is the http.Handler of all doors.
type API struct {
	o         Options
	logger    *slog.Logger
	guard     *guard.Guard
	gate      *admit.Gate
	resampled *resampled.Door
	tried     *backtest.Retained
	doors     *mux.Router
}

// New returns the doors.
func New(o Options) *API {
	o.Parser = o.Limits.Parser(o.Parser)
	a := &API{o: o, logger: o.Logger, tried: backtest.NewRetained(o.Memory)}
	a.guard = &guard.Guard{
		Metrics: o.Metrics, Logger: o.Logger, Memory: o.Memory, MaxBodyBytes: o.MaxBodyBytes,
		BodyTimeout: o.BodyTimeout, WriteTimeout: o.WriteTimeout,
	}
	a.gate = &admit.Gate{Queries: o.Queue, Lists: o.ListQueue, Timeout: o.Timeout, TenantHeader: o.TenantHeader, TooLarge: o.TooLarge, Memory: o.Memory}
	a.resampled = &resampled.Door{
		Executor: o.Resample, Memory: o.Memory, NotePanic: a.guard.NotePanic,
		Known: resample.Known{Parser: o.Parser, Aggregates: o.Aggregates, Define: o.DefineAggregates},
	}
	a.doors = a.routes(a.newRead())
	return a
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !a.guard.Arrived(w, r) {
		return
	}
	if r, ok := usualPath(w, r); ok {
		a.doors.ServeHTTP(w, r)
	}
}
