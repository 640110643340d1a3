package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"
)

// deepQuery is a query whose text is the attack.
type deepQuery struct {
	name, text string
	deadly     bool // for a Prometheus: it is not asked
}

// deepQueries are those that are too long or too deep for somebody.
var deepQueries = []deepQuery{
	{name: "sum( 2000 deep", text: nested("sum(", "x", ")", 2000)},
	{name: "sum( 20 000 deep", text: nested("sum(", "x", ")", 20_000), deadly: true},
	{name: "1+1+… of 2000 terms", text: "1" + strings.Repeat("+1", 1999)},
	{name: "up or up or … of 2000 terms", text: "up" + strings.Repeat(" or up", 1999)},
	{name: "2000 parentheses", text: nested("(", "1", ")", 2000)},
	{name: "2000 minus signs", text: strings.Repeat("-", 2000) + "up"},
	{name: "300 subqueries, one in the other", text: nested("max_over_time(", "up", "[1m:1m])", 300)},
	{name: "500 label_replace", text: nested("label_replace(", "up", `,"a","$1","b","(.*)")`, 500)},
	{name: "abs( 600 000 times", text: strings.Repeat("abs(", 600_000), deadly: true},
	{name: "abs(…) 600 000 deep", text: nested("abs(", "up", ")", 600_000), deadly: true},
	{name: "9 MB of terms", text: "up" + strings.Repeat("+up", 3_000_000), deadly: true},
	{name: "9 MB that do not parse", text: strings.Repeat("up ", 3_000_000), deadly: true},
	{name: "a string of 9 MB", text: `"` + strings.Repeat("x", 9_000_000) + `"`, deadly: true},
	{name: "a comment of 9 MB", text: "1 # " + strings.Repeat("x", 9_000_000), deadly: true},
}

var queryAttacks = []attack{
	{
		name: "deep queries", what: "nests and chains operators thousands of times",
		holds: "answered or refused in 1.5 times Prometheus's time and 10 ms, or at the deadline; an error's text is short",
		run: func(ctx context.Context, e *env) verdict {
			return askDeep(ctx, e, deepQueries, "/api/v1/query")
		},
	},
	{
		name: "deep queries at other doors", what: "asks /query, /explain, parse_query, format_query, range queries and match[] for them",
		holds: "as before",
		run:   otherDoors,
	},
	{
		name: "random deep queries", what: "asks what a seeded grammar makes, up to 2000 deep",
		holds: "as before",
		run: func(ctx context.Context, e *env) verdict {
			r := e.random(1)
			var all []deepQuery
			for i := range e.count(200) {
				depth := 1 << (2 + r.IntN(10))
				all = append(all, deepQuery{name: fmt.Sprintf("random query %d of seed %d, %d deep", i, e.seed, depth), text: randomDeep(r, depth)})
			}
			return askDeep(ctx, e, all, "/api/v1/query")
		},
	},
}

func nested(open, middle, shut string, times int) string {
	return strings.Repeat(open, times) + middle + strings.Repeat(shut, times)
}

// askDeep asks for each query and compares the times.
func askDeep(ctx context.Context, e *env, queries []deepQuery, path string) (v verdict) {
	counts := map[string]int{}
	var worst time.Duration
	worstName := "none"
	for _, q := range queries {
		if ctx.Err() != nil {
			break
		}
		got, p := timed(ctx, e, q, path)
		switch {
		case ctx.Err() != nil:
			continue
		case got.err != nil:
			v.breaks("%s: %s", q.name, got)
		case got.code >= 500 && got.code != http.StatusServiceUnavailable:
			v.breaks("%s: %s", q.name, got)
		case !e.mixed && !p.held():
			v.breaks("%s: %s (limit: Prometheus's %s, deadline %s)", q.name, got, short(p.want), e.timeout)
		case got.refused() && got.bytes > 64<<10:
			v.breaks("%s: an error of %d bytes", q.name, got.bytes)
		}
		counts[fmt.Sprint(got.code)]++
		if got.took > worst {
			worst, worstName = got.took, q.name
		}
	}
	v.figures = fmt.Sprintf("%s; slowest %s: %s", list(counts), short(worst), worstName)
	return v
}

// timed asks both servers. What is slower than it may be is asked again twice, as a machine has
// more to do at times.
func timed(ctx context.Context, e *env, q deepQuery, path string) (got answer, p pace) {
	form := e.instant(q.text)
	if strings.HasSuffix(path, "query_range") {
		form = e.over(q.text, time.Minute)
	}
	p = pace{deadline: e.timeout, slack: e.slack, patience: e.patience, compare: e.reference != nil && !e.mixed && !q.deadly}
	for try := range 3 {
		a := e.query(ctx, path, form)
		if try == 0 || a.took < got.took {
			got = a
		}
		p.got = got.took
		if p.compare {
			rctx, cancel := context.WithTimeout(ctx, 2*e.timeout)
			w := e.reference.post(rctx, path, form)
			cancel()
			// A client's own work on a text of megabytes is in both.
			p.want = max(p.want, w.took)
		}
		hopeless := p.got > 3*p.want && p.got > time.Second
		if got.err != nil || p.held() || hopeless || ctx.Err() != nil {
			break
		}
	}
	return got, p
}

func otherDoors(ctx context.Context, e *env) (v verdict) {
	var figures []string
	for _, path := range []string{"/api/v1/query_range", "/query", "/explain", "/api/v1/parse_query", "/api/v1/format_query"} {
		one := e
		if path == "/query" || path == "/explain" {
			one = e.alone() // a Prometheus has no such door
		}
		w := askDeep(ctx, one, deepQueries, path)
		for _, b := range w.broken {
			v.breaks("%s: %s", path, b)
		}
		figures = append(figures, path+": "+w.figures)
	}
	for _, path := range []string{"/api/v1/series", "/api/v1/labels", "/federate", "/api/v1/query_exemplars"} {
		for _, q := range deepQueries {
			form := e.instant(q.text)
			form["match[]"] = []string{q.text}
			start := time.Now()
			a := e.target.post(ctx, path, form)
			if a.err != nil && ctx.Err() == nil {
				v.breaks("%s, %s: %s", path, q.name, a)
			} else if !e.mixed && time.Since(start) > e.timeout+e.slack {
				v.breaks("%s, %s: %s", path, q.name, a)
			}
		}
	}
	v.figures = strings.Join(figures, " | ")
	return v
}

// randomDeep makes a query that is about depth deep.
func randomDeep(r *rand.Rand, depth int) string {
	var open, shut []string
	for range depth {
		w := wrappers[r.IntN(len(wrappers))]
		open, shut = append(open, w[0]), append(shut, w[1])
	}
	var b strings.Builder
	for _, o := range open {
		b.WriteString(o)
	}
	b.WriteString([]string{"up", "1", "vector(1)", `{__name__=~"node_.*"}`, "time()"}[r.IntN(5)])
	for i := len(shut) - 1; i >= 0; i-- {
		b.WriteString(shut[i])
	}
	return b.String()
}

// wrappers are what goes around an expression. Some yield queries that are wrong: those must be
// refused in time, too.
var wrappers = [][2]string{
	{"sum(", ")"}, {"sum by (job) (", ")"}, {"abs(", ")"}, {"(", ")"}, {"-(", ")"}, {"- ", ""}, {"", " + 1"}, {"1 + (", ")"},
	{"", " or up"}, {"up or (", ")"}, {"", " and on(job) up"}, {"topk(3, ", ")"}, {"quantile(0.9, ", ")"},
	{`label_replace(`, `, "a", "$1", "job", "(.*)")`}, {"max_over_time((", ")[5m:1m])"}, {"sort(", ")"}, {"clamp(", ", 0, 1)"},
	{"absent(", ")"}, {"vector(scalar(", "))"}, {"histogram_quantile(0.9, ", ")"}, {"", " > bool 1"}, {"", " unless down"},
}
