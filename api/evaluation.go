package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/httputil"

	"github.com/promwarp/promwarp/api/admit"
	"github.com/promwarp/promwarp/api/params"
	"github.com/promwarp/promwarp/api/resampled"
	"github.com/promwarp/promwarp/api/respond"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
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
}

// evaluation has answer answer requests whose form was read, once it is their turn, and lists them
// until they are answered. A door of promwarp's own takes forms as JSON, too.
func (a *API) evaluation(door string, own bool, answer func(http.ResponseWriter, *http.Request, *turn)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := a.readAsked(r, own)
		if r.MultipartForm != nil {
			defer r.MultipartForm.RemoveAll() // net/http does so of its own request only
		}
		if err != nil {
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			a.wrongForm(w, err)
			return
		}
		err = a.gate.Query(w, r, door, func(r *http.Request, t *admit.Turn) { answer(w, r, &turn{t, a, r.RemoteAddr, request}) })
		if err != nil {
			a.respondNotAdmitted(w, r, err)
		}
	})
}

// readAsked reads the request's form, and of that which executor evaluates the query (executor,
// strict), how exactly, and whether with statistics.
func (a *API) readAsked(r *http.Request, own bool) (asked engine.Request, err error) {
	if own {
		if err := resampled.Form(r, a.o.Limits.MostValues()); err != nil {
			return asked, err
		}
	}
	if err := params.ReadForm(r, a.o.MaxBodyBytes); err != nil {
		return asked, err
	}
	// params.Bounded has read forms in one part; the others come as JSON or in several parts.
	if r.MultipartForm != nil || r.Method == http.MethodPost && len(r.PostForm) == 0 {
		if name, err := params.CheckForm(a.o.Limits, r.Form); err != nil {
			return asked, params.Invalid(name, err)
		}
	}
	if name, err := params.Long(r.Form); err != nil {
		return asked, params.Invalid(name, err)
	}
	if asked.Mode, err = engine.ParseMode(r.FormValue("executor")); err != nil {
		return asked, params.Invalid("executor", err)
	}
	if s := r.FormValue("strict"); s != "" {
		if asked.Strict, err = strconv.ParseBool(s); err != nil {
			return asked, params.Invalid("strict", fmt.Errorf("cannot parse %.100q: use true or false", s))
		}
	}
	if err := asked.Exact.UnmarshalText([]byte(r.FormValue("exact"))); err != nil {
		return asked, params.Invalid("exact", err)
	}
	asked.Statistics, asked.Plan = r.FormValue("stats") != "", a.o.SlowQueries > 0
	return asked, nil
}

// wrongForm answers a request whose form cannot be read, or says nothing that can be evaluated.
func (a *API) wrongForm(w http.ResponseWriter, err error) {
	var wrong *resample.Error
	var of *params.Error
	switch {
	case errors.As(err, &wrong):
		a.resampled.Failed(w, err)
	case errors.As(err, &of) && errors.As(err, new(*planner.LimitError)):
		params.BeyondLimits(w, of.Parameter, of.Err)
	case errors.As(err, &of):
		respond.Error(w, http.StatusBadRequest, respond.BadData, err.Error())
	default:
		params.FormError(w, err)
	}
}

// Storage implements resampled.Turn.
func (t *turn) Storage() storage.Queryable { return selection.For(t.api.o.Queryable, t.Reads()) }

// of is the turn's request for a query.
func (t *turn) of(p params.Evaluation, perStep bool) engine.Request {
	r := t.request
	r.Storage, r.Progress, r.Options = t.Storage(), t.Reads().Progress, promql.NewPrometheusQueryOpts(perStep, p.Lookback)
	r.Query, r.Start, r.End, r.Step = p.Query, p.Start, p.End, p.Step
	return r
}

// evaluate evaluates a query and ends its turn. The value is the executor's own matrix where there
// is one.
func (a *API) evaluate(ctx context.Context, t *turn, q promql.Query) *promql.Result {
	exec := q.Exec
	if ours, ok := q.(engine.Query); ok {
		exec = ours.ExecMatrix
	}
	began := time.Now()
	r := exec(ctx)
	r.Err = respond.Plain(t.tooLarge(r.Err))
	a.logQuery(ctx, t, q, time.Since(began), r.Err)
	if a.o.Answered != nil && r.Err == nil {
		a.o.Answered(t.client, q)
	}
	t.Turn.Evaluated(r.Err)
	return r
}

// Evaluated implements resampled.Turn.
func (t *turn) Evaluated(err error) error {
	err = t.tooLarge(err)
	t.Turn.Evaluated(err)
	return err
}

// tooLarge returns the error of an evaluation, which is a *memory.TooLargeError where one that is
// alone found no memory. The same request is then refused for a while.
func (t *turn) tooLarge(err error) error {
	if errors.As(err, new(*memory.BusyError)) && t.alone() {
		return &memory.TooLargeError{Limit: t.api.o.Memory.Limit()}
	}
	return err
}

// alone reports whether the memory that requests hold is mostly that of the turn's.
func (t *turn) alone() bool {
	o := &t.api.o
	parts := o.Memory.Parts()
	least := max(o.Memory.Limit()/16, 1) // encoded and without tables it is a fraction of what it takes
	return o.Read.Queue.Running() == 0 && t.Mostly(least, parts[string(memory.Answers)]+parts[string(memory.Requests)])
}
