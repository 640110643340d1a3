package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
)

// translating is an engine whose errors from the upstream come out as ones to
// which Prometheus's API gives a fitting type: see errors.go.
type translating struct{ promql.QueryEngine }

func (t translating) NewInstantQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, ts time.Time) (promql.Query, error) {
	query, err := t.QueryEngine.NewInstantQuery(ctx, q, opts, qs, ts)
	if err != nil {
		return nil, err
	}
	return translated{query}, nil
}

func (t translating) NewRangeQuery(ctx context.Context, q storage.Queryable, opts promql.QueryOpts, qs string, start, end time.Time, interval time.Duration) (promql.Query, error) {
	query, err := t.QueryEngine.NewRangeQuery(ctx, q, opts, qs, start, end, interval)
	if err != nil {
		return nil, err
	}
	return translated{query}, nil
}

type translated struct{ promql.Query }

func (t translated) Exec(ctx context.Context) *promql.Result {
	r := t.Query.Exec(ctx)
	if r.Err != nil {
		switch _, typ := classify(r.Err); typ {
		case typeTimeout:
			var timeout promql.ErrQueryTimeout
			if !errors.As(r.Err, &timeout) {
				r.Err = promql.ErrQueryTimeout("fetching: " + r.Err.Error())
			}
		case typeUnavailable:
			r.Err = unavailable{r.Err}
		}
		return r
	}
	claim(ctx, r.Value)
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
	return http.StatusBadGateway, errors.As(err, &u)
}
