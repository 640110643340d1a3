package api

import (
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/httputil"

	"github.com/promwarp/promwarp/api/compress"
	"github.com/promwarp/promwarp/api/forward"
	"github.com/promwarp/promwarp/api/page"
	"github.com/promwarp/promwarp/api/promapi"
	remoteserve "github.com/promwarp/promwarp/remoteread/serve"
)

// prefix is where Prometheus's API is mounted.
const prefix = forward.Prefix

var (
	get     = []string{http.MethodGet}
	getHead = []string{http.MethodGet, http.MethodHead}
	getPost = []string{http.MethodGet, http.MethodPost}

	getPostPut = []string{http.MethodGet, http.MethodPost, http.MethodPut}
	post       = []string{http.MethodPost}
	postPut    = []string{http.MethodPost, http.MethodPut}
)

// The doors of Prometheus's API, below prefix.
var (
	// upstreamOnly are kept by a running Prometheus alone.
	upstreamOnly = map[string][]string{
		"/openapi.yaml":                  get,
		"/status/tsdb":                   get,
		"/status/tsdb/blocks":            get,
		"/status/walreplay":              get,
		"/targets/relabel_steps":         get,
		"/scrape_pools/config":           get,
		"/search/{what:[a-z_]+(?:/.*)?}": getPost,
	}
	// refused are Prometheus's but not promwarp's.
	refused = map[string]refusal{
		"/write":                       {post, http.StatusNotFound, promapi.NotFound, "promwarp stores nothing, so it takes no remote write; send samples to the Prometheus behind it"},
		"/otlp/v1/metrics":             {post, http.StatusNotFound, promapi.NotFound, "promwarp stores nothing, so it takes no OTLP metrics; send them to the Prometheus behind it"},
		"/admin/tsdb/delete_series":    noAdmin,
		"/admin/tsdb/clean_tombstones": noAdmin,
		"/admin/tsdb/snapshot":         noAdmin,
	}
	// noAdmin has the status and type of a Prometheus whose admin API is off.
	noAdmin = refusal{postPut, http.StatusInternalServerError, promapi.Unavailable, "promwarp stores nothing to administer; ask the Prometheus behind it"}
)

// refusal is how a door is refused to all who use a method of Prometheus's.
type refusal struct {
	methods      []string
	code         int
	typ, message string
}

// routes builds the router of all doors. Those for remote read are given by their paths.
func (a *API) routes(read map[string]http.HandlerFunc) *mux.Router {
	f := &forward.Forwarder{
		Remotes:      a.o.Remotes,
		Parser:       a.o.Parser,
		MaxListBytes: a.o.MaxListBytes,
		Memory:       a.o.Memory,
		Timeout:      a.o.Timeout,
		Logger:       a.logger,
	}
	// Label names in a path may hold an escaped slash, and must arrive at the
	// upstream as they came.
	m := mux.NewRouter().UseEncodedPath().SkipClean(true)

	a.door(m, prefix+"/query", getPost, open, a.evaluation(prefix+"/query", false, a.prometheusQuery(false)))
	a.door(m, prefix+"/query_range", getPost, open, a.evaluation(prefix+"/query_range", false, a.prometheusQuery(true)))
	a.door(m, prefix+"/query_cost", getPost, open, a.evaluation(prefix+"/query_cost", false, a.cost(false)))
	a.door(m, prefix+"/query_range_cost", getPost, open, a.evaluation(prefix+"/query_range_cost", false, a.cost(true)))
	a.door(m, prefix+"/backtest", post, open, a.evaluation(prefix+"/backtest", true, a.backtest))
	a.door(m, prefix+"/format_query", getPost, open, a.says(a.printed(func(e parser.Expr) any { return e.Pretty(0) })))
	a.door(m, prefix+"/parse_query", getPost, open, a.says(a.printed(tree)))
	for path, h := range read {
		a.door(m, path, post, plain, h)
	}
	a.door(m, prefix+"/status/buildinfo", get, open, buildInfo)
	a.door(m, prefix+"/status/config", get, open, a.says(a.statusConfig))
	a.door(m, prefix+"/status/flags", get, open, a.says(constant(a.o.Flags)))
	a.door(m, prefix+"/status/runtimeinfo", get, open, a.says(state(a.o.RuntimeInfo)))
	a.door(m, prefix+"/status/self_metrics", get, open, a.says(a.selfMetrics))
	a.door(m, prefix+"/features", get, open, a.says(a.features))
	a.door(m, prefix+"/notifications", get, shared, a.says(constant([]string{})))
	a.door(m, prefix+"/notifications/live", get, shared, a.liveNotifications)
	a.listings(m, f)
	for path, r := range refused {
		a.door(m, prefix+path, r.methods, open, promapi.Always(r.code, r.typ, r.message))
	}

	a.door(m, prefix+"/admin/cache/drop", postPut, plain, a.drop)
	a.door(m, prefix+"/admin/queries/cancel", postPut, plain, a.cancel)
	a.door(m, prefix+"/status/queries", get, compressed, a.says(state(a.gate.Requests)))
	a.door(m, prefix+"/status/cache", get, compressed, a.says(a.cacheStatus))
	a.door(m, prefix+"/status/gpus", get, compressed, a.says(state(a.o.GPUs)))
	a.door(m, "/query", getPost, open, a.orPage(a.evaluation("/query", true, a.query)))
	a.door(m, openAPIPath, get, open, openAPI)
	a.door(m, "/explain", getPost, open, a.evaluation("/explain", true, a.explain))

	a.door(m, "/-/healthy", getHead, plain, a.healthy)
	a.door(m, "/-/ready", getHead, plain, a.ready)
	a.door(m, "/-/reload", getPostPut, plain, postOrPut(a.reload))
	a.door(m, "/-/quit", getPostPut, plain, postOrPut(a.quit))
	a.door(m, "/version", get, plain, a.version)
	a.door(m, "/federate", get, plain, a.federation(f))
	for _, path := range pages {
		a.door(m, path, get, plain, a.redirectPage)
	}
	a.door(m, "/metrics", getHead, plain, promhttp.HandlerFor(a.o.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}).ServeHTTP)
	a.door(m, "/", getHead, compressed, a.index)
	a.door(m, page.Assets+"{name}", getHead, compressed, page.Asset)
	if a.o.Pprof {
		a.door(m, "/debug/pprof/cmdline", get, plain, pprof.Cmdline)
		a.door(m, "/debug/pprof/profile", get, plain, pprof.Profile)
		a.door(m, "/debug/pprof/symbol", getPost, plain, pprof.Symbol)
		a.door(m, "/debug/pprof/trace", get, plain, pprof.Trace)
		a.door(m, "/debug/pprof/{profile:.*}", get, plain, pprof.Index)
	}
	m.NotFoundHandler = a.guard.Door("unknown", a.elsewhere(m))
	return m
}

// surround is what is around an endpoint's answers.
type surround int

const (
	compressed surround = 1 << iota // as the client prefers
	shared                          // pages of other origins may have them

	plain surround = 0
	open           = compressed | shared
)

// door opens path for the given methods, and OPTIONS. Endpoints that change something take PUT, and
// refuse what a browser sends for a page of another origin: otherwise any page that an operator
// visits could use them. Clients that are no browsers send neither Origin nor Sec-Fetch-Site.
func (a *API) door(m *mux.Router, path string, methods []string, around surround, answer http.HandlerFunc) {
	allowed := append(slices.Clone(methods), http.MethodOptions)
	slices.Sort(allowed)
	allow := strings.Join(allowed, ", ")
	name, _, pattern := strings.Cut(path, ":")
	if pattern {
		name += "}"
	}
	if slices.Contains(methods, http.MethodPut) {
		answer = http.NewCrossOriginProtection().Handler(answer).ServeHTTP
	}
	if around&shared != 0 {
		answer = a.cors(answer)
	}
	if around&compressed != 0 {
		answer = compress.Handler(answer, a.o.Memory)
	}
	crossOrigin := strings.HasPrefix(path, prefix+"/") || path == "/query" || path == "/explain" || path == openAPIPath
	m.Handle(path, a.guard.Door(name, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodOptions && crossOrigin:
			a.options(w, r)
		case r.Method == http.MethodOptions:
			w.Header().Set("Allow", allow)
		case !slices.Contains(methods, r.Method):
			w.Header().Set("Allow", allow)
			http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		case promapi.Bounded(a.o.Limits, w, r):
			answer(w, r)
		}
	}))
}

// cors lets pages of other origins have an answer.
func (a *API) cors(answer http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		httputil.SetCORS(w, a.o.CORSOrigin, r)
		answer(w, r)
	}
}

// newRead returns the doors for remote read by their paths.
func (a *API) newRead() map[string]http.HandlerFunc {
	o := a.o.Read
	o.Queryable, o.ExternalLabels = a.wholly(), a.o.ExternalLabels
	o.Limits, o.Memory, o.TooLarge, o.Timeout = a.o.Limits, a.o.Memory, a.o.TooLarge, a.o.Timeout
	o.Logger, o.Registerer = a.logger, a.o.Registerer
	o.Client = a.gate.Client
	o.Alone = func() bool { return o.Queue.Running() == 1 && len(a.gate.Requests()) == 0 }
	plain := remoteserve.New(o)
	doors := map[string]http.HandlerFunc{prefix + "/read": plain.ServeHTTP}
	for name, reduce := range a.o.ReadReductions {
		doors[prefix+"/read/"+name] = plain.Reducing(reduce).ServeHTTP
	}
	return doors
}
