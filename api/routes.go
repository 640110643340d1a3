package api

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/prometheus/util/httputil"

	"github.com/promwarp/promwarp/fanout"
)

// prefix is where Prometheus's API is mounted.
const prefix = "/api/v1"

var (
	get     = []string{http.MethodGet}
	getHead = []string{http.MethodGet, http.MethodHead}
	getPost = []string{http.MethodGet, http.MethodPost}
	post    = []string{http.MethodPost}
)

// The doors of Prometheus's API, below prefix.
var (
	// evaluated are answered by the engine.
	evaluated = map[string][]string{
		"/query":       getPost,
		"/query_range": getPost,
	}
	// here are answered by Prometheus's API from what it was given.
	here = map[string][]string{
		"/format_query":        getPost,
		"/parse_query":         getPost,
		"/status/config":       get,
		"/status/flags":        get,
		"/status/runtimeinfo":  get,
		"/status/self_metrics": get,
	}
	// listed are what remote read cannot answer: forwarded to an upstream, or
	// answered from the queryable where there is none.
	listed = map[string][]string{
		"/labels":              getPost,
		"/label/{name}/values": get,
		"/series":              getPost,
		"/query_exemplars":     getPost,
		"/metadata":            get,
		"/targets":             get,
		"/targets/metadata":    get,
		"/scrape_pools":        get,
		"/rules":               get,
		"/alerts":              get,
		"/alertmanagers":       get,
	}
	// upstreamOnly are kept by a running Prometheus alone.
	upstreamOnly = map[string][]string{
		"/status/tsdb": get,
	}
	// refused are Prometheus's but not promwarp's, and why.
	refused = map[string]string{
		"/write":                         "promwarp stores nothing, so it takes no remote write; send samples to the Prometheus behind it",
		"/otlp/v1/metrics":               "promwarp stores nothing, so it takes no OTLP metrics; send them to the Prometheus behind it",
		"/admin/tsdb/delete_series":      "promwarp stores nothing to administer; ask the Prometheus behind it",
		"/admin/tsdb/clean_tombstones":   "promwarp stores nothing to administer; ask the Prometheus behind it",
		"/admin/tsdb/snapshot":           "promwarp stores nothing to administer; ask the Prometheus behind it",
		"/notifications":                 "promwarp sends no notifications; ask the Prometheus behind it",
		"/notifications/live":            "promwarp sends no notifications; ask the Prometheus behind it",
		"/features":                      "promwarp has no feature registry; /api/v1/status/buildinfo says whose engine it runs",
		"/status/walreplay":              "promwarp has no write-ahead log; ask the Prometheus behind it",
		"/status/tsdb/blocks":            "promwarp has no blocks of its own; ask the Prometheus behind it",
		"/openapi.yaml":                  "promwarp publishes no OpenAPI description; Prometheus's holds for the doors that promwarp offers",
		"/targets/relabel_steps":         "promwarp scrapes nothing; ask the Prometheus behind it",
		"/scrape_pools/config":           "promwarp scrapes nothing; ask the Prometheus behind it",
		"/search/{what:[a-z_]+(?:/.*)?}": "promwarp has no search; ask the Prometheus behind it",
	}
)

// routes builds the router of all doors.
func (a *API) routes() *mux.Router {
	// Label names in a path may hold an escaped slash, and must arrive at the
	// upstream as they came.
	m := mux.NewRouter().UseEncodedPath().SkipClean(true)

	for path, methods := range evaluated {
		a.door(m, prefix+path, methods, a.withExecutor(a.queries))
	}
	for path, methods := range here {
		a.door(m, prefix+path, methods, a.v1)
	}
	a.door(m, prefix+"/read", post, whole(a.v1))
	a.door(m, prefix+"/status/buildinfo", get, http.HandlerFunc(a.buildInfo))
	list, only := a.listing()
	for path, methods := range listed {
		a.door(m, prefix+path, methods, list)
	}
	for path, methods := range upstreamOnly {
		a.door(m, prefix+path, methods, only)
	}
	for path, why := range refused {
		a.door(m, prefix+path, nil, respondWith(http.StatusNotFound, typeNotFound, why))
	}

	a.door(m, prefix+"/admin/cache/drop", []string{http.MethodPost, http.MethodPut}, http.HandlerFunc(a.drop))
	a.door(m, "/query", getPost, a.withExecutor(http.HandlerFunc(a.query)))
	a.door(m, "/explain", getPost, a.withExecutor(http.HandlerFunc(a.explain)))

	a.door(m, "/-/healthy", getHead, http.HandlerFunc(a.healthy))
	a.door(m, "/-/ready", getHead, http.HandlerFunc(a.ready))
	a.door(m, "/-/reload", []string{http.MethodPost, http.MethodPut}, http.HandlerFunc(a.reload))
	a.door(m, "/metrics", getHead, promhttp.HandlerFor(a.o.Gatherer, promhttp.HandlerOpts{EnableOpenMetrics: true}))
	a.door(m, "/", getHead, http.HandlerFunc(a.index))
	if a.o.Pprof {
		a.door(m, "/debug/pprof/cmdline", get, http.HandlerFunc(pprof.Cmdline))
		a.door(m, "/debug/pprof/profile", get, http.HandlerFunc(pprof.Profile))
		a.door(m, "/debug/pprof/symbol", getPost, http.HandlerFunc(pprof.Symbol))
		a.door(m, "/debug/pprof/trace", get, http.HandlerFunc(pprof.Trace))
		a.door(m, "/debug/pprof/{profile:.*}", get, http.HandlerFunc(pprof.Index))
	}
	m.NotFoundHandler = a.instrument("unknown", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		respondError(w, http.StatusNotFound, typeNotFound, fmt.Sprintf("promwarp has no %s; / lists what it has", r.URL.Path))
	}))
	return m
}

// door opens path for the given methods, all when nil, and OPTIONS.
func (a *API) door(m *mux.Router, path string, methods []string, h http.Handler) {
	allow := strings.Join(append(slices.Clone(methods), http.MethodOptions), ", ")
	name, _, pattern := strings.Cut(path, ":")
	if pattern {
		name += "}"
	}
	m.Handle(path, a.instrument(name, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodOptions:
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			w.Header().Set("Allow", allow)
			w.WriteHeader(http.StatusNoContent)
		case methods != nil && !slices.Contains(methods, r.Method):
			w.Header().Set("Allow", allow)
			respondError(w, http.StatusMethodNotAllowed, typeBadData, fmt.Sprintf("%s does not take %s; use %s", path, r.Method, strings.Join(methods, " or ")))
		default:
			h.ServeHTTP(w, r)
		}
	})))
}

// whole has h answer with all upstreams or with an error: its answers cannot carry
// the warning that one is missing, and whoever reads them may keep them as whole.
func whole(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(fanout.Whole(r.Context())))
	})
}

// respondWith is a door that always gives the same error.
func respondWith(code int, typ, message string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { respondError(w, code, typ, message) })
}
