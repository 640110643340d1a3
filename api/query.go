package api

import (
	"net/http"

	"github.com/promwarp/promwarp/api/params"
	"github.com/promwarp/promwarp/api/respond"
)

// query is promwarp's own door. It takes what Prometheus's query and
// query_range take: start, end and step make it a range query. format=csv, or
// an Accept header that prefers text/csv, gives CSV.
func (a *API) query(w http.ResponseWriter, r *http.Request) {
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
