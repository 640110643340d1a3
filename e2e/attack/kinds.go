package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
)

// stay is for how long slow clients stay: longer than --web.read-timeout and --web.write-timeout of the
// server, which closes their connections.
const stay = 17 * time.Second

// kind is a kind of attack, of which one round after the other is made.
type kind struct {
	name string
	// apart says that it takes hundreds of connections and asks nothing: it comes from an address of
	// its own, or others would wait for a connection of theirs.
	apart bool
	// cut says that a connection may end without an answer.
	cut bool
	// limit is the time by which an answer must begin; 0 is none.
	limit time.Duration
	// A round asks for each of n, at most width at once.
	width, n int
	ask      func(ctx context.Context, a *attacker, i int)
}

// attacker makes the rounds of one kind.
type attacker struct {
	*client
	hours
	note func(answer) // adds what became of a request
}

// asks is a query over all hours, or at their end if step is empty.
type asks struct{ query, step, executor string }

// heavy are short queries with much to do.
var heavy = []asks{
	{`{__name__=~".+"} * 1`, "1m", ""},
	{`{__name__=~".+"}`, "1m", ""},
	{`count_values("v", {__name__=~".+"})`, "1m", ""},
	{`count_values without (instance) ("v", rate({__name__=~".+_total"}[5m]))`, "15s", ""},
	{`max_over_time({__name__=~".+"}[1d:1s])`, "", ""},
	{`sum(max_over_time(up[1d:1s]))`, "1m", ""},
	{`sum_over_time(time()[10y:1s])`, "", ""},
	{`max_over_time(sum_over_time(time()[1d:1s])[1d:1m])`, "", ""},
	{`{__name__=~".+"} * on(instance) group_left() up`, "1m", ""},
	{`sort_desc(topk(100000, {__name__=~".+"}))`, "", ""},
	{`quantile_over_time(0.9, {__name__=~".+"}[1d])`, "1m", ""},
	{`predict_linear({__name__=~".+"}[1d], 3600)`, "1m", ""},
	{`rate({__name__=~".+"}[1h])`, "1m", "prometheus"},
	{`{__name__=~"node_.+"}`, "8s", ""},
	{`absent(up offset 100y)`, "1m", ""},
}

// hostile are texts of queries that are deep, long, or compile to much.
var hostile = []string{
	strings.Repeat("sum(", 2000) + "up" + strings.Repeat(")", 2000),
	"up" + strings.Repeat(" or up", 899),
	strings.Repeat("max_over_time(", 300) + "up" + strings.Repeat("[1m:1m])", 300),
	strings.Repeat("label_replace(", 500) + "up" + strings.Repeat(`,"a","$1","b","(.*)")`, 500),
	strings.Repeat("abs(", 600_000),
	"up" + strings.Repeat("+up", 3_000_000),
	`up{job=~"((x{100}){100}){100}"}`,
	"up{" + strings.Repeat(`job=~"([a-z]{1000})+",`, 10) + "}",
	`label_replace(up,"a","$1","job","a` + strings.Repeat("|b", 100_000) + `")`,
}

// huge are forms that ask nothing.
var huge = []string{strings.Repeat("a&", 4_500_000), strings.Repeat("match[]=up&", 800_000), strings.Repeat("%", 9_000_000), strings.Repeat("a", 50<<20)}

// kinds are all of them.
func kinds() []kind {
	all := []kind{
		{name: "heavy queries", limit: timeout, width: 2, n: len(heavy), ask: func(ctx context.Context, a *attacker, i int) {
			a.note(a.query(ctx, a.hours, heavy[i]))
		}},
		{name: "100 cold selectors", limit: timeout, width: 100, n: 100, ask: func(ctx context.Context, a *attacker, _ int) {
			a.note(a.query(ctx, a.hours, asks{fmt.Sprintf(`count({__name__=~".+",nothing!="%d"})`, rand.Uint64()), "1m", ""}))
		}},
		{name: "huge forms", cut: true, width: 2, n: len(huge), ask: func(ctx context.Context, a *attacker, i int) {
			a.note(a.send(ctx, http.MethodPost, "/api/v1/series", formType, strings.NewReader(huge[i])))
		}},
		{name: "lists of everything", limit: 30 * time.Second, width: 50, n: 300, ask: func(ctx context.Context, a *attacker, i int) {
			a.note(a.get(ctx, a.list(i)))
		}},
		{name: "stalled readers", width: 150, n: 150, ask: func(ctx context.Context, a *attacker, _ int) {
			path, form := a.form(heavy[1])
			a.hold(ctx, timeout+stay, fmt.Sprintf("GET %s?%s HTTP/1.1\r\nHost: x\r\n\r\n", path, form.Encode()), "")
		}},
		{name: "dripping bodies", apart: true, width: 300, n: 300, ask: func(ctx context.Context, a *attacker, _ int) {
			a.hold(ctx, stay, "POST /api/v1/query HTTP/1.1\r\nHost: x\r\nContent-Type: "+formType+"\r\nContent-Length: 100000\r\n\r\nquery=", "u")
		}},
		{name: "dripping headers", apart: true, width: 300, n: 300, ask: func(ctx context.Context, a *attacker, _ int) {
			a.hold(ctx, stay, "GET /metrics HTTP/1.1\r\nX-A: ", "u")
		}},
		// Some hundreds a second, or this machine runs out of ports.
		{name: "silent connections", apart: true, width: 2000, n: 2000, ask: func(ctx context.Context, a *attacker, _ int) {
			a.hold(ctx, 5*time.Second, "", "")
		}},
		{name: "aborted requests", cut: true, width: 40, n: 2000, ask: func(ctx context.Context, a *attacker, i int) {
			ctx, cancel := context.WithTimeout(ctx, time.Duration(i%50)*time.Millisecond)
			defer cancel()
			switch i % 4 {
			case 0:
				a.note(a.query(ctx, a.hours, asks{fmt.Sprintf(`{__name__=~".+",x!="%d"}`, i%20), "1m", ""}))
			case 1:
				a.note(a.query(ctx, a.hours, large[0]))
			case 2:
				a.note(a.read(ctx, "", 3))
			default:
				a.note(a.get(ctx, a.list(i)))
			}
		}},
		{name: "refused reloads", width: 1, n: 100, ask: func(ctx context.Context, a *attacker, _ int) { a.note(a.post(ctx, "/-/reload", nil)) }},
	}
	for _, paths := range [][]string{{"/api/v1/query", "/api/v1/query_range"}, {"/query", "/explain"}, {"/api/v1/format_query", "/api/v1/series"}} {
		name := "hostile texts at " + strings.Join(paths, ", ")
		all = append(all, kind{name: name, cut: true, limit: timeout, width: 1, n: len(hostile) * len(paths), ask: func(ctx context.Context, a *attacker, i int) {
			text, path := hostile[i%len(hostile)], paths[i/len(hostile)]
			_, form := a.form(asks{text, "1m", ""})
			if path == "/api/v1/series" {
				form = url.Values{"match[]": {text}}
			}
			a.note(a.post(ctx, path, form))
		}})
	}
	for _, path := range []string{"", "/thin", "/aggregate"} {
		for _, n := range []int{20, 1000} {
			all = append(all, kind{name: fmt.Sprintf("remote reads%s of %d queries", path, n), cut: true, width: 3, n: 3, ask: func(ctx context.Context, a *attacker, _ int) {
				ctx, cancel := context.WithTimeout(ctx, stay)
				defer cancel()
				a.note(a.read(ctx, path, n))
			}})
		}
	}
	return all
}

// list is the path of one of eight lists of everything.
func (a *attacker) list(i int) string {
	everything := url.QueryEscape(`{__name__=~".+"}`)
	span := "&start=" + seconds(a.start) + "&end=" + seconds(a.end)
	paths := []string{
		"/api/v1/series?match[]=" + everything + span,
		"/api/v1/labels?match[]=" + everything + span,
		"/api/v1/labels?start=-9223372036854775&end=9223372036854775",
		"/api/v1/label/__name__/values?match[]=" + everything,
		"/federate?match[]=" + everything,
		"/api/v1/metadata",
		"/api/v1/query_exemplars?query=" + everything + span,
		"/metrics",
	}
	return paths[i%len(paths)]
}

// read sends a remote read of all samples, as a Prometheus sends it that sums what it reads; half of
// the queries take the largest of each hour instead.
func (a *attacker) read(ctx context.Context, path string, queries int) answer {
	r := &prompb.ReadRequest{AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{prompb.ReadRequest_STREAMED_XOR_CHUNKS}}
	start, end := a.start.UnixMilli(), a.end.UnixMilli()
	all := []*prompb.LabelMatcher{{Type: prompb.LabelMatcher_RE, Name: "__name__", Value: ".+"}}
	for i := range queries {
		hints := &prompb.ReadHints{StartMs: start, EndMs: end, StepMs: 600_000, Func: "sum", Grouping: []string{"job"}, By: true}
		if i%2 == 1 {
			hints = &prompb.ReadHints{StartMs: start, EndMs: end, StepMs: 600_000, Func: "max_over_time", RangeMs: 3_600_000}
		}
		r.Queries = append(r.Queries, &prompb.Query{StartTimestampMs: start, EndTimestampMs: end, Hints: hints, Matchers: all})
	}
	b, _ := r.Marshal() // all of it can be written
	return a.send(ctx, http.MethodPost, "/api/v1/read"+path, "", bytes.NewReader(snappy.Encode(nil, b)))
}
