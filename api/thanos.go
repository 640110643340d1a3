package api

import (
	"net/http"
	"slices"
	"time"

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
func (a *API) Leaf(sources func() []leaf.Source) http.Handler {
	calls := leaf.New(leaf.Options{Doors: a, Prefix: prefix, Evaluate: a.evaluateForLeaf, Sources: sources, Logger: a.logger})
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
	})
}

// evaluateForLeaf evaluates a query whose result send sends: a range query where it has a step.
func (a *API) evaluateForLeaf(w http.ResponseWriter, r *http.Request, door string, send func(promql.Query, *promql.Result) error) {
	a.evaluation(door, false, func(w http.ResponseWriter, r *http.Request, t *turn) {
		p, err := promapi.Parse(r, time.Now())
		if err != nil {
			promapi.Error(w, http.StatusBadRequest, promapi.BadData, err.Error())
			return
		}
		q, ok := a.newQuery(r.Context(), w, t, p, false)
		if !ok {
			return
		}
		defer q.Close()
		result := a.evaluate(r.Context(), t, q, 0)
		if result.Err != nil {
			a.failed(w, result.Err)
			return
		}
		_ = send(q, result) // its error is the caller's
	})(w, r)
}
