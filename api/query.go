package api

import (
	"errors"
	"net/http"

	"github.com/prometheus/prometheus/util/httputil"

	"github.com/promwarp/promwarp/api/params"
	"github.com/promwarp/promwarp/api/resampled"
	"github.com/promwarp/promwarp/api/respond"
	"github.com/promwarp/promwarp/resample"
)

// withJSON reads a JSON body as the form that says the same, so that all behind it see a form.
func (a *API) withJSON(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var wrong *resample.Error
		switch err := resampled.Form(r); {
		case err == nil:
			h.ServeHTTP(w, r)
		case errors.As(err, &wrong):
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			a.resampled.Failed(w, err)
		default:
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			params.FormError(w, err)
		}
	})
}

// query is promwarp's own door. It answers resample requests, and PromQL: for that it takes what Prometheus's query and
// query_range take: start, end and step make it a range query. format=csv, or
// an Accept header that prefers text/csv, gives CSV.
func (a *API) query(w http.ResponseWriter, r *http.Request) {
	if resample.Asked(r.Form) {
		httputil.SetCORS(w, a.o.CORSOrigin, r)
		httputil.CompressionHandler{Handler: http.HandlerFunc(a.resampled.Answer)}.ServeHTTP(w, r)
		return
	}
	path := prefix + "/query"
	if params.IsRange(r.Form) {
		path += "_range"
	}
	in := r.Clone(r.Context())
	in.URL.Path, in.URL.RawPath = path, ""
	switch f := r.FormValue("format"); f {
	case "":
	case "json":
		in.Header.Set("Accept", "application/json")
	case "csv":
		in.Header.Set("Accept", "text/csv")
	default:
		respond.Error(w, http.StatusBadRequest, respond.BadData, `invalid parameter "format": use json or csv`)
		return
	}
	a.queries.ServeHTTP(w, in)
}
