package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"time"
)

var abortAttacks = []attack{{
	name: "aborted requests", what: "asks 2000 times for much, 40 at a time, and leaves after some milliseconds",
	holds: "goroutines are back within 15 s",
	run: func(ctx context.Context, e *env) (v verdict) {
		n := e.count(2000)
		body, err := readRequest(e, 3)
		if err != nil {
			v.breaks("%v", err)
			return v
		}
		before := goroutines(ctx, e.target)
		together(ctx, 40, n, func(ctx context.Context, i int) struct{} {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(i%50)*time.Millisecond)
			defer cancel()
			switch i % 4 {
			case 0:
				e.target.post(ctx, "/api/v1/query_range", e.over(fmt.Sprintf(`{__name__=~".+",x!="%d"}`, i%20), time.Minute))
			case 1:
				e.target.post(ctx, "/api/v1/query_range", e.over(`sum by (job) (rate({__name__=~".+_total"}[5m]))`, time.Minute))
			case 2:
				e.target.send(ctx, "/api/v1/read", "application/x-protobuf", bytes.NewReader(body))
			default:
				e.target.get(ctx, everything(e)[i%9])
			}
			return struct{}{}
		})
		if e.mixed || ctx.Err() != nil {
			return v
		}
		// Of 40 requests at once each may leave a connection to the upstream open for others, with
		// two goroutines.
		after, limit := 0.0, before*1.1+100
		begun := time.Now()
		for time.Since(begun) < 15*time.Second {
			if after = goroutines(ctx, e.target); after > 0 && after <= limit {
				break
			}
			time.Sleep(250 * time.Millisecond)
		}
		v.figures = fmt.Sprintf("%d requests; goroutines %.0f before, %.0f after %s", n, before, after, short(time.Since(begun)))
		if after > limit || after == 0 {
			v.breaks("goroutines: %s", v.figures)
		}
		return v
	},
}}

var reloadAttacks = []attack{{
	name: "reloads", what: "reloads the configuration 100 times while queries run",
	holds: "each reload is done or refused; each query is answered",
	run: func(ctx context.Context, e *env) (v verdict) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		done := make(chan map[string]int, 1)
		go func() {
			defer cancel()
			counts := map[string]int{}
			for range e.count(100) {
				a := e.target.send(ctx, "/-/reload", form, http.NoBody)
				counts[outcome(a)]++
			}
			done <- counts
		}()
		counts := map[string]int{}
		// The rest is asked of one client: the answers of a query are those of the settings it began with.
		for _, a := range together(ctx, 4, 1<<20, func(ctx context.Context, _ int) answer {
			return e.query(ctx, "/api/v1/query_range", e.over(`sum(rate(http_requests_total[5m]))`, time.Minute))
		}) {
			if a.err != nil && ctx.Err() != nil {
				continue // the end
			}
			counts[outcome(a)]++
			if !a.ok() && !e.mixed {
				v.breaks("a query during reloads: %s", a)
			}
		}
		v.figures = fmt.Sprintf("reloads: %s; queries: %s", list(<-done), list(counts))
		return v
	},
}}

// goroutines is how many the server has; 0 if it does not say.
func goroutines(ctx context.Context, s *server) float64 {
	m, err := s.metrics(ctx)
	if err != nil {
		return 0
	}
	return m["go_goroutines"]
}
