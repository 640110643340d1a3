package api

import (
	"fmt"
	"net/http"

	"github.com/promwarp/promwarp/api/page"
	"github.com/promwarp/promwarp/api/promapi"
)

// healthy answers as long as the program runs.
func (a *API) healthy(w http.ResponseWriter, _ *http.Request) {
	promapi.Text(w, http.StatusOK, "promwarp is healthy.\n")
}

// ready says whether requests should be sent here.
func (a *API) ready(w http.ResponseWriter, _ *http.Request) {
	notes, err := a.o.Ready()
	code, text := http.StatusOK, "promwarp is ready.\n"
	if err != nil {
		code, text = http.StatusServiceUnavailable, fmt.Sprintf("promwarp is not ready: %v\n", err)
	}
	for _, line := range append(notes, a.o.Known()...) {
		text += line + "\n"
	}
	promapi.Text(w, code, text)
}

// reload reads the configuration again.
func (a *API) reload(w http.ResponseWriter, _ *http.Request) {
	if !a.o.Lifecycle {
		a.quit(w, nil)
		return
	}
	if a.o.Reload == nil {
		promapi.Text(w, http.StatusNotFound, "there is no configuration to reload\n")
		return
	}
	if err := a.o.Reload(); err != nil {
		promapi.Text(w, http.StatusInternalServerError, fmt.Sprintf("failed to reload the configuration: %v\n", err))
		return
	}
	promapi.Text(w, http.StatusOK, "")
}

// quit refuses to end the program, in the words of a Prometheus whose lifecycle API is off.
func (a *API) quit(w http.ResponseWriter, _ *http.Request) {
	promapi.Text(w, http.StatusForbidden, "Lifecycle API is not enabled.")
}

// postOrPut has h answer POST and PUT, and says to those who use GET that it takes
// nothing else, in Prometheus's words.
func postOrPut(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			w.Header().Set("Allow", "OPTIONS, POST, PUT")
			promapi.Text(w, http.StatusMethodNotAllowed, "Only POST or PUT requests allowed")
			return
		}
		h.ServeHTTP(w, r)
	})
}

// index answers a browser with promwarp's page, and names the doors to all others.
func (a *API) index(w http.ResponseWriter, r *http.Request) {
	w.Header().Add("Vary", "Accept")
	if page.Wanted(r) {
		page.Index(w, r, a.o.Examples)
		return
	}
	promapi.Text(w, http.StatusOK, `promwarp: fast PromQL in front of Prometheus

/                     in a browser: promwarp's page
/api/v1/query         Prometheus's HTTP API: point a Grafana Prometheus data
/api/v1/query_range   source at this server's base URL
/api/v1/...
/api/v1/read          Prometheus remote read: list it under remote_read
/query                PromQL; start, end and step make it a range; resample
                      requests; format=json|csv|ndjson|arrow|parquet
/explain              how a query is evaluated; analyze=true runs it; format=json|text
/openapi.json         describes /query, /explain and those below
/federate             the newest samples of series, for a Prometheus to scrape
/graph                leads a browser to the upstream's page
/metrics              promwarp's own metrics
/version              whose engine it runs
/-/healthy  /-/ready  for probes
/-/reload             POST: read the configuration file again
/api/v1/admin/cache/drop  POST: forget cached samples (--web.enable-admin-api)
/api/v1/admin/queries/cancel  POST: cancel a query (--web.enable-admin-api)
/api/v1/status/queries, cache, gpus  what is under way, kept, and measured

executor=auto|cpu|gpu|prometheus and strict=true on a query choose who evaluates it, exact=bits asks for Prometheus's bits.
`)
}
