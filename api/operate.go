package api

import (
	"fmt"
	"io"
	"net/http"
)

// healthy answers as long as the program runs.
func (a *API) healthy(w http.ResponseWriter, _ *http.Request) {
	respondText(w, http.StatusOK, "promwarp is healthy.\n")
}

// ready says whether requests should be sent here.
func (a *API) ready(w http.ResponseWriter, _ *http.Request) {
	if err := a.o.Ready(); err != nil {
		respondText(w, http.StatusServiceUnavailable, fmt.Sprintf("promwarp is not ready: %v\n", err))
		return
	}
	respondText(w, http.StatusOK, "promwarp is ready.\n")
}

// reload reads the configuration again.
func (a *API) reload(w http.ResponseWriter, _ *http.Request) {
	if a.o.Reload == nil {
		respondText(w, http.StatusNotFound, "there is no configuration to reload\n")
		return
	}
	if err := a.o.Reload(); err != nil {
		respondText(w, http.StatusInternalServerError, fmt.Sprintf("failed to reload the configuration: %v\n", err))
		return
	}
	respondText(w, http.StatusOK, "")
}

// index names the doors.
func (a *API) index(w http.ResponseWriter, _ *http.Request) {
	respondText(w, http.StatusOK, `promwarp: fast PromQL in front of Prometheus

/api/v1/query         Prometheus's HTTP API: point a Grafana Prometheus data
/api/v1/query_range   source at this server's base URL
/api/v1/...
/api/v1/read          Prometheus remote read: list it under remote_read
/query                PromQL; start, end and step make it a range; format=json|csv
/explain              how a query is evaluated; analyze=true runs it; format=json|text
/metrics              promwarp's own metrics
/-/healthy  /-/ready  for probes
/-/reload             POST: read the configuration file again
/api/v1/admin/cache/drop  POST: forget cached samples (--web.enable-admin-api)

executor=auto|cpu|gpu|prometheus and strict=true on a query choose who evaluates it.
`)
}

func respondText(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text)
}
