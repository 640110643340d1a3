package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/api/leaf"
	"github.com/promwarp/promwarp/api/promapi"
)

// leafDoors are the calls of a leaf of Thanos, by their paths.
var leafDoors = []string{
	"/thanos.info.Info/Info", "/thanos.Query/Query", "/thanos.Query/QueryRange",
	"/thanos.Store/Series", "/thanos.Store/LabelNames", "/thanos.Store/LabelValues",
}

// Leaf returns what answers a Querier of Thanos over gRPC, from the given sources, as the other doors do.
// Each of its calls is one of users. It is to be stopped once no more requests come.
func (a *API) Leaf(sources func() []leaf.Source, users leaf.Users) (answer http.Handler, stop func()) {
	calls := leaf.New(leaf.Options{
		Doors: a, Prefix: prefix, Evaluate: a.evaluateForLeaf, Sources: sources, Users: users, NotePanic: a.guard.NotePanic, Memory: a.o.Memory, Limits: a.o.Limits,
	})
	doors := map[string]http.Handler{}
	for _, path := range append(slices.Clone(leafDoors), "unknown") {
		doors[path] = a.guard.Door(path, calls.ServeHTTP)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !a.guard.Arrived(w, r) {
			return
		}
		door, ok := doors[r.URL.Path]
		if !ok {
			door = doors["unknown"]
		}
		door.ServeHTTP(w, r)
	}), calls.Stop
}

// evaluateForLeaf evaluates a query whose result send sends.
func (a *API) evaluateForLeaf(w http.ResponseWriter, r *http.Request, door string, p promapi.Evaluation, send func(promql.Query, *promql.Result) error) {
	a.evaluation(door, false, func(w http.ResponseWriter, r *http.Request, t *turn) {
		ctx := r.Context()
		if p.Timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, p.Timeout)
			defer cancel()
		}
		q, ok := a.newQuery(ctx, w, t, p, false)
		if !ok {
			return
		}
		defer q.Close()
		result := a.evaluate(ctx, t, q, 0)
		if result.Err != nil {
			a.failed(w, result.Err)
			return
		}
		_ = send(q, result) // its error is the caller's
	})(w, r)
}
