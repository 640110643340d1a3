package main

import (
	"context"
	"fmt"
	"net/url"
	"time"
)

// heavyQuery is a short query with much to do.
type heavyQuery struct {
	name, text string
	step       time.Duration // of a range query; 0 asks an instant query
	executor   string        // of promwarp
}

var heavyQueries = []heavyQuery{
	{name: `{__name__=~".+"} * 1`, text: `{__name__=~".+"} * 1`, step: time.Minute},
	{name: `{__name__=~".+"}`, text: `{__name__=~".+"}`, step: time.Minute},
	{name: "count_values of all", text: `count_values("v", {__name__=~".+"})`, step: time.Minute},
	{name: "count_values of a day", text: `count_values without (instance) ("v", rate({__name__=~".+_total"}[5m]))`, step: 15 * time.Second},
	{name: "x[1d:1s]", text: `max_over_time({__name__=~".+"}[1d:1s])`},
	{name: "x[1d:1s] at each minute", text: `sum(max_over_time(up[1d:1s]))`, step: time.Minute},
	{name: "time()[10y:1s]", text: `sum_over_time(time()[10y:1s])`},
	{name: "a subquery in a subquery", text: `max_over_time(sum_over_time(time()[1d:1s])[1d:1m])`},
	{name: "all times all", text: `{__name__=~".+"} * on(instance) group_left() up`, step: time.Minute},
	{name: "sorted topk of all", text: `sort_desc(topk(100000, {__name__=~".+"}))`},
	{name: "quantile_over_time of a day", text: `quantile_over_time(0.9, {__name__=~".+"}[1d])`, step: time.Minute},
	{name: "predict_linear of a day", text: `predict_linear({__name__=~".+"}[1d], 3600)`, step: time.Minute},
	{name: "all, by Prometheus's engine", text: `{__name__=~".+"}`, step: time.Minute, executor: "prometheus"},
	{name: "rates of all, by Prometheus's engine", text: `rate({__name__=~".+"}[1h])`, step: time.Minute, executor: "prometheus"},
	{name: "11 000 steps", text: `{__name__=~"node_.+"}`, step: 8 * time.Second},
	{name: "absent of what is far away", text: `absent(up offset 100y)`, step: time.Minute},
}

var heavyAttacks = []attack{
	{
		name: "heavy queries", what: "asks for everything, at every step, in all the ways there are, two at a time",
		holds: "answered or refused, or at the deadline",
		run: func(ctx context.Context, e *env) (v verdict) {
			all := heavyQueries
			if e.short {
				all = all[:6]
			}
			counts := map[string]int{}
			var worst time.Duration
			for i, a := range together(ctx, 2, len(all), func(ctx context.Context, i int) answer {
				path, form := all[i].form(e)
				return e.query(ctx, path, form)
			}) {
				counts[outcome(a)]++
				began := first(a)
				worst = max(worst, began)
				if a.err != nil && a.first == 0 && ctx.Err() == nil {
					v.breaks("%s: %s", all[i].name, a)
				} else if !e.mixed && began > e.timeout+e.slack {
					v.breaks("%s: began after %s, deadline %s", all[i].name, short(began), e.timeout)
				}
			}
			v.figures = fmt.Sprintf("%s; slowest %s, deadline %s", list(counts), short(worst), e.timeout)
			return v
		},
	},
	{
		name: "100 cold selectors", what: "asks for 100 selectors at once that were never asked for before",
		holds: "answered or refused, or at the deadline",
		run: func(ctx context.Context, e *env) (v verdict) {
			counts := map[string]int{}
			var took []time.Duration
			salt := time.Now().UnixNano()
			n := e.count(100)
			for _, a := range together(ctx, n, n, func(ctx context.Context, i int) answer {
				q := fmt.Sprintf(`count({__name__=~".+",nothing!="%d-%d"})`, salt, i)
				return e.query(ctx, "/api/v1/query_range", e.over(q, time.Minute))
			}) {
				counts[outcome(a)]++
				took = append(took, first(a))
				if a.err != nil && a.first == 0 && ctx.Err() == nil {
					v.breaks("%s", a)
				}
			}
			worst := percentile(took, 1)
			if !e.mixed && worst > e.timeout+e.slack {
				v.breaks("an answer began after %s, deadline %s", short(worst), e.timeout)
			}
			v.figures = fmt.Sprintf("%s; slowest %s, deadline %s", list(counts), short(worst), e.timeout)
			return v
		},
	},
}

// form is where and how to ask for q.
func (q heavyQuery) form(e *env) (path string, form url.Values) {
	path, form = "/api/v1/query", e.instant(q.text)
	if q.step != 0 {
		path, form = "/api/v1/query_range", e.over(q.text, q.step)
	}
	if q.executor != "" {
		form.Set("executor", q.executor)
	}
	return path, form
}

// first is when the answer, or the failure, began.
func first(a answer) time.Duration {
	if a.first != 0 {
		return a.first
	}
	return a.took
}

// outcome is the kind of an answer, to be counted.
func outcome(a answer) string {
	switch {
	case a.err != nil && a.first != 0:
		return fmt.Sprintf("%d broken off", a.code)
	case a.err != nil:
		return "no answer"
	default:
		return fmt.Sprint(a.code)
	}
}
