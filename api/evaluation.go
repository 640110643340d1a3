package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/api/admit"
	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/api/resampled"
	"github.com/promwarp/promwarp/cache/fanout"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/selection"
)

// turn is a request's that is evaluated.
type turn struct {
	*admit.Turn
	api     *API
	client  string         // its remote address
	request engine.Request // what it says besides its query, if it is PromQL
	whole   bool           // it refuses an answer without an upstream that failed, as Thanos's clients do
}

// evaluation has answer answer requests whose form was read, once it is their turn, and lists them
// until they are answered. A door of promwarp's own takes forms as JSON, too.
func (a *API) evaluation(door string, own bool, answer func(http.ResponseWriter, *http.Request, *turn)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		request, err := a.readAsked(r, own)
		if r.MultipartForm != nil {
			defer r.MultipartForm.RemoveAll() // net/http does so of its own request only
		}
		if err != nil {
			a.wrongForm(w, err)
			return
		}
		t, r, err := a.gate.Query(w, r, door)
		if err != nil {
			promapi.Failed(w, err)
			return
		}
		defer t.End()
		request.Storage = selection.For(a.o.Queryable, selection.Request{Stats: &t.Stats, Progress: &t.Progress})
		request.Progress = &t.Progress
		answer(w, r, &turn{t, a, r.RemoteAddr, request, r.FormValue("partial_response") == "false"})
	}
}

// readAsked reads the request's form, and of that which executor evaluates the query (executor,
// strict), how exactly, and whether with statistics.
func (a *API) readAsked(r *http.Request, own bool) (asked engine.Request, err error) {
	if own {
		if err := resampled.Form(r, a.o.Limits.MostValues()); err != nil {
			return asked, err
		}
	}
	if err := promapi.ReadForm(r, a.o.MaxBodyBytes); err != nil {
		return asked, err
	}
	// promapi.Bounded has read forms in one part; the others come as JSON or in several parts.
	if r.MultipartForm != nil || r.Method == http.MethodPost && len(r.PostForm) == 0 {
		if name, err := promapi.CheckForm(a.o.Limits, r.Form); err != nil {
			return asked, promapi.WrongParameter(name, err)
		}
	}
	if asked.Mode, err = engine.ParseMode(r.FormValue("executor")); err != nil {
		return asked, promapi.WrongParameter("executor", err)
	}
	if asked.Strict, err = promapi.Bool(r, "strict"); err != nil {
		return asked, err
	}
	if err := asked.Exact.UnmarshalText([]byte(r.FormValue("exact"))); err != nil {
		return asked, promapi.WrongParameter("exact", err)
	}
	asked.Statistics, asked.Plan = r.FormValue("stats") != "", a.o.SlowQueries > 0 || r.FormValue("explain") == "true"
	return asked, nil
}

// wrongForm answers a request whose form cannot be read, or says nothing that can be evaluated.
func (a *API) wrongForm(w http.ResponseWriter, err error) {
	var wrong *resample.Error
	var of *promapi.ParameterError
	switch {
	case errors.As(err, &wrong):
		a.resampled.Failed(w, err)
	case errors.As(err, &of) && errors.As(err, new(*planner.LimitError)):
		promapi.BeyondLimits(w, of.Parameter, of.Err)
	case errors.As(err, &of):
		promapi.Error(w, http.StatusBadRequest, promapi.BadData, err.Error())
	default:
		promapi.FormError(w, err)
	}
}

// of is the turn's request for a query.
func (t *turn) of(p promapi.Evaluation, perStep bool) engine.Request {
	r := t.request
	r.Options = promql.NewPrometheusQueryOpts(perStep, p.Lookback)
	r.Query, r.Start, r.End, r.Step = p.Query, p.Start, p.End, p.Step
	r.MaxSeries, r.MaxSamples = p.MaxSeries, p.MaxSamples
	return r
}

// evaluate evaluates a query and ends its turn. The result is cut to limit series, 0 for no limit.
func (a *API) evaluate(ctx context.Context, t *turn, q promql.Query, limit int) *promql.Result {
	r := a.execute(ctx, t, q)
	if a.o.Answered != nil && r.Err == nil {
		a.o.Answered(t.client, q)
	}
	t.Turn.Evaluated(r.Err)
	if limit > 0 {
		cut(r, limit)
	}
	return r
}

// execute evaluates a query of a turn. The result's value is the executor's own matrix where there is one.
func (a *API) execute(ctx context.Context, t *turn, q promql.Query) *promql.Result {
	exec := q.Exec
	if ours, ok := q.(*engine.Query); ok {
		exec = ours.ExecMatrix
	}
	began := time.Now()
	r := exec(ctx)
	if r.Err != nil {
		r.Err = promapi.Plain(t.tooLarge(r.Err))
	} else if t.whole {
		r.Err = missing(r.Warnings)
	}
	if a.o.LogQueries || a.o.SlowQueries > 0 {
		a.logQuery(ctx, t, q, time.Since(began), r.Err)
	}
	return r
}

// missing is an error where a warning says that the answer is without an upstream that failed.
func missing(warnings annotations.Annotations) error {
	for _, w := range warnings {
		if errors.As(w, new(*fanout.PartialWarning)) {
			return fmt.Errorf("%w; partial_response=false refuses such an answer", w)
		}
	}
	return nil
}

// evaluated ends an evaluation that is no query's, of which it returns the error.
func (t *turn) evaluated(err error) error {
	err = t.tooLarge(err)
	t.Turn.Evaluated(err)
	return err
}

// tooLarge returns the error of an evaluation, which is a *memory.TooLargeError where one that is
// alone found no memory. The same request is then refused for a while.
func (t *turn) tooLarge(err error) error {
	o := &t.api.o
	if !errors.As(err, new(*memory.BusyError)) || o.Read.Queue.Running() > 0 {
		return err
	}
	parts := o.Memory.Parts()
	least := max(o.Memory.Limit()/16, 1) // encoded and without tables it is a fraction of what it takes
	if !t.Mostly(least, parts[string(memory.Answers)]+parts[string(memory.Requests)]) {
		return err
	}
	return &memory.TooLargeError{Limit: o.Memory.Limit()}
}

// logQuery logs a query that was evaluated, if all are logged or it was slow. Its number is that of
// /api/v1/status/queries.
func (a *API) logQuery(ctx context.Context, t *turn, q promql.Query, took time.Duration, err error) {
	slow := a.o.SlowQueries > 0 && took >= a.o.SlowQueries
	if !slow && !a.o.LogQueries {
		return
	}
	fields := []any{"id", t.ID, "door", t.Door, "query", t.Query}
	if s, ok := q.Statement().(*parser.EvalStmt); ok {
		fields = append(fields, "start", s.Start.UTC(), "end", s.End.UTC(), "step", s.Interval)
	}
	ours, _ := q.(*engine.Query)
	if ours != nil {
		fields = append(fields, "executor", ours.Executors())
	}
	fields = append(fields, "took", took, "samples", q.Stats().Samples.TotalSamples)
	if trace := tracing.ID(ctx); trace != "" {
		fields = append(fields, "trace", trace)
	}
	if err != nil {
		fields = append(fields, "err", err)
	}
	switch {
	case !slow:
		a.logger.Info("query", fields...)
	case ours == nil:
		a.logger.Warn("slow query", fields...)
	default:
		a.logger.Warn("slow query", append(fields, "plan", ours.Plan())...)
	}
}

// cut cuts a result to limit series.
func cut(r *promql.Result, limit int) {
	truncated := false
	switch v := r.Value.(type) {
	case promql.Matrix:
		r.Value, truncated = truncate(v, limit)
	case promql.Vector:
		r.Value, truncated = truncate(v, limit)
	case *plan.Matrix:
		v.Rows, truncated = truncate(v.Rows, limit)
	}
	if truncated {
		r.Warnings.Add(errTruncated)
	}
}

// truncate returns the first rows, at most limit of them if that is not 0, and whether there
// are more.
func truncate[S ~[]E, E any](rows S, limit int) (S, bool) {
	if limit > 0 && len(rows) > limit {
		return rows[:limit], true
	}
	return rows, false
}
