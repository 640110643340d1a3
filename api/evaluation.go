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

	"github.com/promwarp/promwarp/api/active"
	"github.com/promwarp/promwarp/api/admit"
	"github.com/promwarp/promwarp/api/params"
	"github.com/promwarp/promwarp/api/resampled"
	"github.com/promwarp/promwarp/api/respond"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/resample"
)

// turn is a request's that is evaluated: its place among those under way, and its slot.
type turn struct {
	*active.Entry
	api    *API
	slot   *admit.Turn
	client string // its remote address
}

// evaluation has answer answer requests whose form was read, once it is their turn, and lists them
// until they are answered. A door of promwarp's own takes forms as JSON, too.
func (a *API) evaluation(door string, own bool, answer func(http.ResponseWriter, *http.Request, *turn)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, err := a.readAsked(r, own)
		if r.MultipartForm != nil {
			defer r.MultipartForm.RemoveAll() // net/http does so of its own request only
		}
		if err != nil {
			httputil.SetCORS(w, a.o.CORSOrigin, r)
			a.wrongForm(w, err)
			return
		}
		r, entry := a.active.Begin(r.WithContext(ctx), door)
		defer entry.End()
		err = a.gate.Query(w, r, func(r *http.Request, slot *admit.Turn) {
			entry.Begun()
			answer(w, r, &turn{entry, a, slot, r.RemoteAddr})
		})
		if err != nil {
			a.respondNotAdmitted(w, r, err)
		}
	})
}

// readAsked reads the request's form, and of that which executor evaluates the query (executor,
// strict), how exactly, and whether with statistics. These are in the context that it returns.
func (a *API) readAsked(r *http.Request, own bool) (context.Context, error) {
	if own {
		if err := resampled.Form(r, a.o.Limits.MostValues()); err != nil {
			return nil, err
		}
	}
	if err := params.ReadForm(r, a.o.MaxBodyBytes); err != nil {
		return nil, err
	}
	// params.Bounded has read forms in one part; the others come as JSON or in several parts.
	if r.MultipartForm != nil || r.Method == http.MethodPost && len(r.PostForm) == 0 {
		if name, err := params.CheckForm(a.o.Limits, r.Form); err != nil {
			return nil, params.Invalid(name, err)
		}
	}
	if name, err := params.Long(r.Form); err != nil {
		return nil, params.Invalid(name, err)
	}
	mode, err := engine.ParseMode(r.FormValue("executor"))
	if err != nil {
		return nil, params.Invalid("executor", err)
	}
	strict := false
	if s := r.FormValue("strict"); s != "" {
		if strict, err = strconv.ParseBool(s); err != nil {
			return nil, params.Invalid("strict", fmt.Errorf("cannot parse %.100q: use true or false", s))
		}
	}
	var exact plan.Exact
	if err := exact.UnmarshalText([]byte(r.FormValue("exact"))); err != nil {
		return nil, params.Invalid("exact", err)
	}
	ctx := engine.WithExact(engine.WithMode(r.Context(), mode, strict), exact)
	if r.FormValue("stats") != "" {
		ctx = engine.WithStatistics(ctx)
	}
	return ctx, nil
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

// newQuery makes a query of the engine, which must be closed.
func (a *API) newQuery(ctx context.Context, p params.Evaluation, perStep bool) (promql.Query, error) {
	opts := promql.NewPrometheusQueryOpts(perStep, p.Lookback)
	if p.Step > 0 {
		return a.o.Engine.NewRangeQuery(ctx, a.o.Queryable, opts, p.Query, p.Start, p.End, p.Step)
	}
	return a.o.Engine.NewInstantQuery(ctx, a.o.Queryable, opts, p.Query, p.Start)
}

// evaluate evaluates a query and ends its turn. The value is the executor's own matrix where there
// is one.
func (a *API) evaluate(ctx context.Context, t *turn, q promql.Query) *promql.Result {
	exec := q.Exec
	if ours, ok := q.(engine.Query); ok {
		exec = ours.ExecMatrix
	}
	if a.o.SlowQueries > 0 {
		ctx = engine.WithPlan(ctx)
	}
	began := time.Now()
	r := exec(ctx)
	r.Err = respond.Plain(t.tooLarge(r.Err))
	a.logQuery(ctx, t, q, time.Since(began), r.Err)
	if a.o.Answered != nil && r.Err == nil {
		a.o.Answered(t.client, q)
	}
	t.ended(r.Err)
	return r
}

// Evaluated implements resampled.Turn.
func (t *turn) Evaluated(err error) error {
	err = t.tooLarge(err)
	t.ended(err)
	return err
}

// ended ends the turn: what is left is to write.
func (t *turn) ended(err error) {
	t.Entry.Evaluated()
	t.slot.Evaluated(err)
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
