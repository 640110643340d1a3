package main

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

// everything are requests for all that a server can list.
func everything(e *env) []string {
	all := url.QueryEscape(`{__name__=~".+"}`)
	span := "&start=" + seconds(e.start) + "&end=" + seconds(e.end)
	return []string{
		"/api/v1/series?match[]=" + all + span,
		"/api/v1/series?match[]=" + all,
		"/api/v1/labels?match[]=" + all + span,
		"/api/v1/labels?start=-9223372036854775&end=9223372036854775",
		"/api/v1/label/__name__/values?match[]=" + all,
		"/api/v1/label/instance/values",
		"/federate?match[]=" + all,
		"/api/v1/metadata",
		"/api/v1/query_exemplars?query=" + all + span,
		"/api/v1/status/tsdb?limit=10000",
		"/metrics",
	}
}

var listAttacks = []attack{{
	name: "lists of everything", what: "asks for all series, labels, values, metadata, exemplars and a federation of everything, 50 at a time",
	holds: "each is answered or refused, or ends at the query timeout",
	run: func(ctx context.Context, e *env) (v verdict) {
		paths := everything(e)
		n := e.count(300)
		limit, _ := e.flag("query.timeout", 2*time.Minute)
		counts := map[string]int{}
		var worst time.Duration
		for i, a := range together(ctx, e.count(50), n, func(ctx context.Context, i int) answer {
			ctx, cancel := context.WithTimeout(ctx, limit+30*time.Second)
			defer cancel()
			return e.target.get(ctx, paths[i%len(paths)])
		}) {
			counts[outcome(a)]++
			worst = max(worst, first(a))
			if ctx.Err() != nil {
				continue
			}
			if a.err != nil {
				v.breaks("%.60s: %s", paths[i%len(paths)], a)
			} else if first(a) > limit+e.slack {
				v.breaks("%.60s: began after %s", paths[i%len(paths)], short(first(a)))
			}
		}
		v.figures = fmt.Sprintf("%s; slowest %s", list(counts), short(worst))
		return v
	},
}}
