package api

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/promwarp/promwarp/api/admit"
	"github.com/promwarp/promwarp/api/respond"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/internal/memory"
)

// translating is an engine whose errors from the upstream come out as ones to
// which Prometheus's API gives a fitting type: see respond.Classify.
type translating struct {
	promql.QueryEngine
	a *API
}

func (t translating) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	query, err := t.QueryEngine.NewInstantQuery(ctx, q, opts, qs, ts)
	return t.translated(query, err)
}

func (t translating) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	query, err := t.QueryEngine.NewRangeQuery(ctx, q, opts, qs, start, end, interval)
	return t.translated(query, err)
}

// translated wraps a new query. Prometheus's API calls every error of making one a wrong
// parameter, so where the request's time was up before that, its evaluation fails instead.
func (t translating) translated(query promql.Query, err error) (promql.Query, error) {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return translated{ended{err: promql.ErrQueryTimeout("the queue")}, t.a}, nil
	case errors.Is(err, context.Canceled):
		return translated{ended{err: promql.ErrQueryCanceled("the queue")}, t.a}, nil
	case err != nil:
		return nil, err
	}
	return translated{query, t.a}, nil
}

// ended is a query whose time was up before it began.
type ended struct {
	promql.Query
	err error
}

func (e ended) Exec(context.Context) *promql.Result { return &promql.Result{Err: e.err} }
func (ended) Close()                                {}

type translated struct {
	promql.Query
	a *API
}

// evaluate evaluates a query and gives its request's slot back. As a matrix the value is the
// executor's own where there is one.
func (a *API) evaluate(ctx context.Context, q promql.Query, asMatrix bool) *promql.Result {
	exec := q.Exec
	if ours, ok := q.(engine.Query); ok && asMatrix {
		exec = ours.ExecMatrix
	}
	if a.o.SlowQueries > 0 {
		ctx = engine.WithPlan(ctx)
	}
	began := time.Now()
	r := exec(ctx)
	r.Err = respond.Plain(a.tooLarge(ctx, r.Err))
	a.logQuery(ctx, q, time.Since(began), r.Err)
	if a.o.Answered != nil && r.Err == nil {
		a.o.Answered(ctx, q)
	}
	admit.EvaluationEnded(ctx)
	return r
}

// tooLarge returns the error of a request, which is a *memory.TooLargeError where one that is alone
// found no memory. The same request is then refused for a while.
func (a *API) tooLarge(ctx context.Context, err error) error {
	if errors.As(err, new(*memory.BusyError)) && a.alone(ctx) {
		err = &memory.TooLargeError{Limit: a.o.Memory.Limit()}
	}
	var large *memory.TooLargeError
	if errors.As(err, &large) {
		admit.NeededTooMuch(ctx, large)
	}
	return err
}

// alone reports whether the memory that requests hold is mostly that of the request which has ctx.
func (a *API) alone(ctx context.Context) bool {
	parts := a.o.Memory.Parts()
	least := max(a.o.Memory.Limit()/16, 1) // encoded and without tables it is a fraction of what it takes
	return a.o.ReadQueue.Running() == 0 && a.active.Mostly(ctx, least, parts[string(memory.Answers)]+parts[string(memory.Requests)])
}

func (t translated) Exec(ctx context.Context) *promql.Result {
	s := streamOf(ctx)
	r := t.a.evaluate(ctx, t.Query, s != nil)
	if r.Err != nil {
		switch _, typ := respond.Classify(r.Err); typ {
		case respond.Timeout:
			var timeout promql.ErrQueryTimeout
			if !errors.As(r.Err, &timeout) {
				r.Err = promql.ErrQueryTimeout("fetching: " + r.Err.Error())
			}
		case respond.Internal:
			t.a.guard.NotePanic(r.Err)
			var stored promql.ErrStorage
			if !errors.As(r.Err, &stored) {
				r.Err = promql.ErrStorage{Err: r.Err} // of which Prometheus's API makes an internal error
			}
		case respond.Unavailable:
			if memory.Exhausted(r.Err) {
				askLater(ctx)
			}
			r.Err = unavailable{r.Err}
		}
		return r
	}
	if s != nil {
		s.claim(r)
	}
	return r
}

// unavailable makes Prometheus's API call an error unavailable, as it does its
// own storage before that is ready.
type unavailable struct{ error }

func (u unavailable) Unwrap() error        { return u.error }
func (u unavailable) Is(target error) bool { return target == tsdb.ErrNotReady }

// overrideStatus is a v1.OverrideErrorCode. It is generic because the type of
// its first parameter has no name outside of Prometheus's package.
func overrideStatus[N ~int](_ N, err error) (int, bool) {
	var u unavailable
	if !errors.As(err, &u) {
		return 0, false
	}
	code, _ := respond.Classify(u.error)
	return code, true
}
