package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// panel is a part of a dashboard.
type panel struct {
	query string        // may have a %d for a number of the dashboard
	span  time.Duration // 0: an instant
	step  time.Duration
}

// panels are those of the dashboards.
var panels = []panel{
	{`sum by (job) (rate(http_requests_total[5m]))`, 24 * time.Hour, time.Minute},
	{`sum by (code) (rate(http_requests_total{instance=~".*%d"}[5m]))`, 6 * time.Hour, 30 * time.Second},
	{`histogram_quantile(0.9, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))`, 6 * time.Hour, time.Minute},
	{`avg by (instance) (node_memory_bytes)`, 24 * time.Hour, 5 * time.Minute},
	{`topk(5, rate(http_requests_total[1h]))`, time.Hour, time.Minute},
	{`up == 0 or up`, time.Hour, 15 * time.Second},
	{`sum(up)`, 0, 0},
	{`max_over_time(sum(rate(http_requests_total[5m]))[1h:1m])`, 0, 0},
	{`sum by (type) (node_memory_bytes{instance=~".*%d"})`, time.Hour, time.Minute},
}

// looked is what looking at dashboards came to.
type looked struct {
	took   []time.Duration
	failed map[string]int
}

func (l looked) String() string {
	s := fmt.Sprintf("%d answers, median %s, p99 %s, slowest %s", len(l.took), short(percentile(l.took, 0.5)), short(percentile(l.took, 0.99)), short(percentile(l.took, 1)))
	if len(l.failed) > 0 {
		s += ", failed: " + list(l.failed)
	}
	return s
}

// look has clients look at dashboards: a client asks its panels one after the other, then waits
// for a second or so and looks again, at what has become of them.
func look(ctx context.Context, e *env, s *server, clients int, lasts time.Duration) looked {
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	all := looked{failed: map[string]int{}}
	var mu sync.Mutex
	together(ctx, clients, clients, func(ctx context.Context, i int) struct{} {
		r := e.random(uint64(i))
		for ctx.Err() == nil {
			p := panels[r.IntN(len(panels))]
			path, form := p.form(e, r.IntN(10), time.Duration(r.IntN(60))*time.Second)
			a := s.post(ctx, path, form)
			if ctx.Err() != nil {
				break
			}
			mu.Lock()
			all.took = append(all.took, a.took)
			if !a.ok() {
				all.failed[outcome(a)]++
			}
			mu.Unlock()
			select {
			case <-ctx.Done():
			case <-time.After(time.Duration(500+r.IntN(1000)) * time.Millisecond):
			}
		}
		return struct{}{}
	})
	return all
}

// form is where and how to ask for the panel of dashboard n, so long before the data's end.
func (p panel) form(e *env, n int, before time.Duration) (path string, form url.Values) {
	one := e.at(before)
	query := strings.ReplaceAll(p.query, "%d", strconv.Itoa(n))
	if p.span == 0 {
		return "/api/v1/query", one.instant(query)
	}
	one.start = one.end.Add(-p.span)
	return "/api/v1/query_range", one.over(query, p.step)
}

// judgeLooks compares with what a Prometheus alone made of the same: the p99 must be that much less;
// 0 does not compare.
func judgeLooks(got, want looked, times int) (v verdict) {
	v.figures = got.String()
	if len(got.failed) > 0 {
		v.breaks("errors: %s", list(got.failed))
	}
	if len(got.took) == 0 {
		v.breaks("nothing was answered")
	}
	if times == 0 {
		return v
	}
	v.figures += "; Prometheus: " + want.String()
	if p, q := percentile(got.took, 0.99), percentile(want.took, 0.99); time.Duration(times)*p > q {
		v.breaks("p99 %s, Prometheus's %s, of which it must be 1/%d", short(p), short(q), times)
	}
	return v
}

// dashboards are the load of 64 clients.
func dashboards(ctx context.Context, e *env, lasts time.Duration) verdict {
	got := look(ctx, e, e.target, e.count(64), lasts)
	if e.reference == nil {
		return judgeLooks(got, looked{}, 0)
	}
	return judgeLooks(got, look(ctx, e, e.reference, e.count(64), lasts), 5/e.patience)
}
