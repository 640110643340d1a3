package api

import (
	"net/http"
	"net/url"
)

// query is promwarp's own door. It takes what Prometheus's query and
// query_range take: start, end and step make it a range query. format=csv, or
// an Accept header that prefers text/csv, gives CSV.
func (a *API) query(w http.ResponseWriter, r *http.Request) {
	path := prefix + "/query"
	if isRange(r.Form) {
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
		respondError(w, http.StatusBadRequest, typeBadData, `invalid parameter "format": use json or csv`)
		return
	}
	a.queries.ServeHTTP(w, in)
}

// isRange reports whether a form asks for a range query.
func isRange(f url.Values) bool {
	return f.Get("start") != "" || f.Get("end") != "" || f.Get("step") != ""
}
