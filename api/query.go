package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/httputil"

	"github.com/promwarp/promwarp/api/params"
	"github.com/promwarp/promwarp/api/resampled"
	"github.com/promwarp/promwarp/api/respond"
	"github.com/promwarp/promwarp/api/table"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/resample"
)

// withJSON reads a JSON body as the form that says the same, so that all behind it see a form.
func (a *API) withJSON(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var wrong *resample.Error
		switch err := resampled.Form(r, a.o.Limits.MostValues()); {
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

// query is promwarp's own door. It answers resample requests, and PromQL: for that it takes what
// Prometheus's query and query_range take, and start, end and step make it a range query. JSON is
// written by Prometheus's API, tables of PromQL answers by queryTable.
func (a *API) query(w http.ResponseWriter, r *http.Request) {
	if resample.Asked(r.Form) {
		a.compressed(a.cors(http.HandlerFunc(a.resampled.Answer))).ServeHTTP(w, r)
		return
	}
	asked, err := table.Ask(r.Header, r.Form)
	var p params.Evaluation
	if err == nil {
		if p, err = params.Parse(r, time.Now()); err != nil {
			err = wrong(err)
		}
	}
	switch {
	case err != nil:
		httputil.SetCORS(w, a.o.CORSOrigin, r)
		a.resampled.Failed(w, err)
		return
	case !asked.IsJSON():
		a.compressed(a.cors(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if err := a.queryTable(w, r, p, asked); err != nil {
				a.resampled.Failed(w, err)
			}
		}))).ServeHTTP(w, r)
		return
	}
	path := prefix + "/query"
	if params.IsRange(r.Form) {
		path += "_range"
	}
	in := r.Clone(r.Context())
	in.URL.Path, in.URL.RawPath = path, ""
	a.queries.ServeHTTP(w, in)
}

// queryTable evaluates a PromQL query and answers with a table. An error comes before anything is
// written.
func (a *API) queryTable(w http.ResponseWriter, r *http.Request, p params.Evaluation, asked table.Asked) error {
	limit := 0
	if text := r.FormValue("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 {
			return &resample.Error{Code: resample.CodeInvalidValue, Field: "limit", Text: fmt.Sprintf("%.100q is no number of series", text)}
		}
	}
	ctx := r.Context()
	if p.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.Timeout)
		defer cancel()
	}
	opts := promql.NewPrometheusQueryOpts(false, p.Lookback)
	var q promql.Query
	var err error
	if params.IsRange(r.Form) {
		q, err = a.o.Engine.NewRangeQuery(ctx, a.o.Queryable, opts, p.Query, p.Start, p.End, p.Step)
	} else {
		q, err = a.o.Engine.NewInstantQuery(ctx, a.o.Queryable, opts, p.Query, p.Start)
	}
	if err != nil {
		if _, typ := respond.Classify(err); typ == respond.BadData || typ == respond.Execution {
			return &resample.Error{Code: resample.CodeInvalidValue, Field: "query", Text: err.Error()}
		}
		return err
	}
	defer q.Close()
	result := a.evaluate(ctx, q, true)
	if result.Err != nil {
		return result.Err
	}
	cut(result, limit)
	t, err := table.Of(ctx, result.Value)
	if err != nil {
		return err
	}
	warnings, infos := result.Warnings.AsStrings(p.Query, 10, 10)
	t.Warnings = append(warnings, infos...)
	_, span := tracing.Start(ctx, "encode")
	err = asked.Answer(ctx, w, t, a.o.Memory)
	tracing.End(span, err)
	return err
}

// wrong is the error of a parameter as one that has a code.
func wrong(err error) error {
	e := &resample.Error{Code: resample.CodeInvalidValue, Text: err.Error()}
	var of *params.Error
	if errors.As(err, &of) {
		e.Field, e.Text = of.Parameter, of.Err.Error()
	}
	return e
}
