package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/stats"

	"github.com/promwarp/promwarp/api/encode"
	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/api/table"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/resample"
)

// prometheusQuery is the door of Prometheus's API for instant queries, and ranged that for range
// queries.
func (a *API) prometheusQuery(ranged bool) func(http.ResponseWriter, *http.Request, *turn) {
	return func(w http.ResponseWriter, r *http.Request, t *turn) {
		p, err := promapi.ParseAs(ranged, r, time.Now())
		if err != nil {
			promapi.Error(w, http.StatusBadRequest, promapi.BadData, err.Error())
			return
		}
		a.answerQuery(w, r, t, p)
	}
}

// query is promwarp's own door. It answers resample requests, and PromQL: for that it takes what
// Prometheus's query and query_range take, and start, end and step make it a range query.
func (a *API) query(w http.ResponseWriter, r *http.Request, t *turn) {
	if resample.Asked(r.Form) {
		a.resampled.Answer(w, r, t.request.Storage, t.evaluated)
		return
	}
	asked, err := table.Ask(r.Header, r.Form)
	if err != nil {
		a.resampled.Failed(w, err)
		return
	}
	p, err := promapi.Parse(r, time.Now())
	if err != nil {
		e := &resample.Error{Code: resample.CodeInvalidValue, Text: err.Error()}
		if of, ok := errors.AsType[*promapi.ParameterError](err); ok {
			e.Field, e.Text = of.Parameter, of.Err.Error()
		}
		a.resampled.Failed(w, e)
		return
	}
	if asked.IsJSON() {
		a.answerQuery(w, r, t, p)
	} else if err := a.queryTable(w, r, t, p, asked); err != nil {
		a.resampled.Failed(w, err)
	}
}

// answerQuery evaluates a PromQL query and answers as Prometheus's API does, byte for byte. A large
// answer is encoded as it is written.
func (a *API) answerQuery(w http.ResponseWriter, r *http.Request, t *turn, p promapi.Evaluation) {
	ctx := r.Context()
	if r.FormValue("timeout") != "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, p.Timeout)
		defer cancel()
	}
	statistics := r.FormValue("stats")
	q, ok := a.newQuery(ctx, w, t, p, statistics == "all")
	if !ok {
		return
	}
	defer q.Close()
	result := a.evaluate(ctx, t, q, p.Limit)
	if result.Err != nil {
		a.failed(w, result.Err)
		return
	}
	said := encode.Result{Value: result.Value}
	if ours, ok := q.(*engine.Query); ok && r.FormValue("explain") == "true" {
		e, err := ours.Explanation(ctx)
		if err != nil {
			a.failed(w, promapi.Plain(err))
			return
		}
		t.complete(e)
		began := time.Now()
		said.Explanation = func() any {
			e.Encoded = time.Since(began).Microseconds()
			return e
		}
	}
	switch statistics {
	case "", "true", "all":
	default:
		result.Warnings.Add(fmt.Errorf(`value %q for parameter "stats" is deprecated and will be rejected in the next major release, use "true" or "all"`, statistics))
	}
	if statistics != "" {
		said.Stats = stats.NewQueryStats(q.Stats())
	}
	if len(result.Warnings) > 0 {
		said.Warnings, said.Infos = result.Warnings.AsStrings(p.Query, mostAnnotations, mostAnnotations)
	}
	_, span := tracing.Start(ctx, "encode")
	answer, err := encode.New(said)
	if err != nil {
		tracing.End(span, err)
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	begin, all := answer.Begin()
	tracing.End(span, nil)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusOK)
	if _, err := w.Write(begin); err != nil || all {
		return // an error is the client's, which has gone
	}
	_, span = tracing.Start(ctx, "stream")
	err = answer.WriteRest(w)
	tracing.End(span, err)
}

// newQuery makes a turn's query, or answers why there is none.
func (a *API) newQuery(ctx context.Context, w http.ResponseWriter, t *turn, p promapi.Evaluation, perStep bool) (promql.Query, bool) {
	q, err := a.o.Engine.NewQuery(ctx, t.of(p, perStep))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		a.failed(w, promql.ErrQueryTimeout("the queue"))
	case errors.Is(err, context.Canceled):
		a.failed(w, promql.ErrQueryCanceled("the queue"))
	case err != nil:
		promapi.Invalid(w, "query", err)
	}
	return q, err == nil
}

// mostAnnotations is how many warnings, and how many infos, an answer has; what is left out is counted.
const mostAnnotations = 10

// failed answers a query whose evaluation has failed, in Prometheus's words where it has some.
func (a *API) failed(w http.ResponseWriter, err error) {
	code, typ := promapi.Classify(err)
	text := err.Error()
	switch typ {
	case promapi.Timeout:
		if !errors.As(err, new(promql.ErrQueryTimeout)) {
			text = promql.ErrQueryTimeout("fetching: " + text).Error()
		}
	case promapi.Internal:
		a.guard.NotePanic(err)
	case promapi.Unavailable:
		if memory.Exhausted(err) {
			w.Header().Set("Retry-After", promapi.RetryAfter(nil))
		}
	case promapi.BadData:
		code, typ = http.StatusUnprocessableEntity, promapi.Execution
	}
	promapi.Error(w, code, typ, text)
}

var errTruncated = errors.New("results truncated due to limit")

// queryTable evaluates a PromQL query and answers with a table. An error comes before anything is
// written.
func (a *API) queryTable(w http.ResponseWriter, r *http.Request, t *turn, p promapi.Evaluation, asked table.Asked) error {
	ctx := r.Context()
	q, err := a.o.Engine.NewQuery(ctx, t.of(p, false))
	if err != nil {
		if _, typ := promapi.Classify(err); typ == promapi.BadData || typ == promapi.Execution {
			return &resample.Error{Code: resample.CodeInvalidValue, Field: "query", Text: err.Error()}
		}
		return err
	}
	defer q.Close()
	result := a.evaluate(ctx, t, q, p.Limit)
	if result.Err != nil {
		return result.Err
	}
	of, err := table.Of(ctx, result.Value)
	if err != nil {
		return err
	}
	warnings, infos := result.Warnings.AsStrings(p.Query, mostAnnotations, mostAnnotations)
	of.Warnings = append(warnings, infos...)
	_, span := tracing.Start(ctx, "encode")
	err = asked.Answer(ctx, w, of, a.o.Memory)
	tracing.End(span, err)
	return err
}
