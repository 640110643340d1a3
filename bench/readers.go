package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/promql/parser"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
)

// readShape is what readers read: a day, and an hour of the future, so that rules have samples for
// as long as a run takes.
var readShape = shape{series: 6800, hours: 26, age: -59 * time.Minute}

// settled is the time before which promwarp retains all that it has read of such samples.
func (r *rig) settled() time.Time { return r.data.end().Add(-2 * time.Hour).Truncate(10 * time.Minute) }

// settledQuestions are of queries up to that time.
func (r *rig) settledQuestions(all ...queries.Query) (qs []question) {
	for _, q := range r.questions(all...) {
		q.end, q.length = r.settled(), r.data.length()-3*time.Hour
		q.request.Form = q.Form(q.end, q.length)
		qs = append(qs, q)
	}
	return qs
}

// before starts a Prometheus that has the samples, and a promwarp before it.
func (r *rig) before(ctx context.Context, flags ...string) (*peers.Process, error) {
	if r.source == nil {
		if err := r.prometheus(ctx, 0); err != nil {
			return nil, err
		}
	}
	return r.started(r.promwarp(ctx, 0, flags...))
}

// reads sends remote-read requests for http_requests_total, as rate(…[5m]) with a step of a minute
// does, to Prometheus and to promwarp, which has answered them before. What is asked for as samples
// is shorter: a Prometheus holds it several times.
func reads(ctx context.Context, r *rig) error {
	r.shown.Details = true
	warp, err := r.before(ctx)
	if err != nil {
		return err
	}
	for _, q := range []struct {
		name string
		span time.Duration
		typ  prompb.ReadRequest_ResponseType
	}{
		{"chunks", 24 * time.Hour, prompb.ReadRequest_STREAMED_XOR_CHUNKS},
		{"samples", 4 * time.Hour, prompb.ReadRequest_SAMPLES},
	} {
		end := r.settled().UnixMilli() - 61_000 // within chunks
		start := max(r.data.Start, end-q.span.Milliseconds()) + 7000
		request, err := readOf("http_requests_total", start, end, q.typ)
		if err != nil {
			return err
		}
		asked := []question{{Query: queries.Query{Name: q.name}, request: request}}
		for _, l := range []struct {
			name string
			load
		}{{"first", load{clients: 1, each: 1}}, {"again", load{clients: 1, each: r.shown.Rounds}}, {"64 at once", load{clients: 64, each: 1}}} {
			for _, c := range []contender{{names: []string{report.Prometheus}, server: r.source}, {names: []string{peers.Promwarp}, server: warp, behind: r.source}} {
				if err := r.load(ctx, r.shown.Row(q.name+", "+l.name), c, asked, l.load); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// readOf is a remote read of a metric's samples, as rate(…[5m]) with a step of a minute sends it.
func readOf(metric string, start, end int64, typ prompb.ReadRequest_ResponseType) (answer.Request, error) {
	body, err := (&prompb.ReadRequest{
		AcceptedResponseTypes: []prompb.ReadRequest_ResponseType{typ},
		Queries: []*prompb.Query{{
			StartTimestampMs: start, EndTimestampMs: end,
			Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: metric}},
			Hints:    &prompb.ReadHints{StartMs: start, EndMs: end, StepMs: 60_000, RangeMs: 300_000, Func: "rate"},
		}},
	}).Marshal()
	return answer.Request{Path: "/api/v1/read", Read: snappy.Encode(nil, body)}, err
}

// bareReads reads the chunks of the metric that a question is about, a quarter of its time in each
// of four remote reads at once, and throws them away.
func (r *rig) bareReads(ctx context.Context, q question) (answer.Answer, error) {
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(q.Expr)
	if err != nil {
		return answer.Answer{}, err
	}
	metric := parser.ExtractSelectors(expr)[0][0].Value
	end, quarter := q.end.UnixMilli(), min(q.Range, q.length).Milliseconds()/4
	answers, begin := make([]answer.Answer, 4), time.Now()
	group, reading := errgroup.WithContext(ctx)
	for i := range answers {
		request, err := readOf(metric, end-int64(i+1)*quarter, end-int64(i)*quarter, prompb.ReadRequest_STREAMED_XOR_CHUNKS)
		if err != nil {
			return answer.Answer{}, err
		}
		request.Drop = true
		group.Go(func() (err error) {
			answers[i], err = answer.Ask(reading, r.source.URL, request, nil)
			return err
		})
	}
	err = group.Wait()
	all := answer.Answer{Code: http.StatusOK, Took: time.Since(begin)}
	for _, a := range answers {
		all.Sent += a.Sent
		err = cmp.Or(err, a.Err())
	}
	return all, err
}

// readers has a Prometheus evaluate range queries: of its own blocks, through the Prometheus behind
// promwarp, and through promwarp.
func readers(ctx context.Context, r *rig) error {
	r.shown.Details = true
	warp, err := r.before(ctx)
	if err != nil {
		return err
	}
	cs := []contender{{names: []string{"its own blocks"}, server: r.source, exact: true, warm: 1}}
	for _, p := range []struct {
		name string
		*peers.Process
	}{{"through Prometheus", r.source}, {"through promwarp", warp}} {
		reading, err := r.reader(ctx, p.URL+"/api/v1/read", "")
		if err != nil {
			return err
		}
		cs = append(cs, contender{names: []string{p.name}, server: reading, behind: p.Process, exact: true, warm: 1})
	}
	return r.ask(ctx, r.settledQuestions(named(23*time.Hour, time.Minute,
		"rate-by-job", "sum by (job) (rate(http_requests_total[5m]))",
		"max-by-instance", "max by (instance) (node_memory_bytes)",
		"sum-up", "sum(up)")...), cs)
}

// reduced has readers evaluate range queries over all samples, at about 720 steps, from all samples
// and from what is left of them. /api/v1/read/aggregate is for the queries that aggregate,
// /api/v1/read/thin for the others.
func reduced(ctx context.Context, r *rig) error {
	r.shown.Details = true
	warp, err := r.before(ctx)
	if err != nil {
		return err
	}
	var cs []contender
	for _, path := range []string{"", "/thin", "/aggregate"} {
		reading, err := r.reader(ctx, warp.URL+"/api/v1/read"+path, "")
		if err != nil {
			return err
		}
		cs = append(cs, contender{names: []string{"read" + path}, server: reading, behind: warp, exact: true, warm: 1})
		if path != "" {
			r.shown.Compare(cs[0].names[0], "read"+path, path[1:]+" ×")
		}
	}
	span := r.data.length() - 3*time.Hour
	step := max(10*time.Minute, (span / 720).Truncate(10*time.Minute))
	return r.ask(ctx, r.settledQuestions(named(span.Truncate(step), step,
		"sum-of-all", `sum by (job) ({job!=""})`,
		"sum", "sum(http_requests_total)",
		"avg-by-job", "avg by (job) (http_requests_total)",
		"max-by-instance", "max by (instance) (http_requests_total)",
		"count-by-job", "count by (job) (http_requests_total)",
		"one-code", `http_requests_total{code="200"}`,
		"max-of-5m", "max_over_time(node_memory_bytes[5m])",
		"rate-5m", "sum by (job) (rate(http_requests_total[5m]))",
		"rate-1h", "sum by (job) (rate(http_requests_total[1h]))",
		"irate", "irate(http_requests_total[5m])")...), cs)
}

const (
	ruleInterval = 5 * time.Second
	ruleTime     = 25 * time.Second // how long rules are evaluated
)

// fifty are fifty recording rules: ten of each selector.
func fifty(offset string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "groups:\n- name: fifty\n  interval: %s\n  query_offset: %s\n  rules:\n", ruleInterval, offset)
	for k, s := range []string{"http_requests_total", `http_requests_total{code=~"5.."}`, "node_cpu_seconds_total", "node_memory_bytes", "up"} {
		for i, of := range []string{
			"sum by (job) (rate(%s[5m]))", "sum by (job) (rate(%s[10m]))", "sum by (job) (rate(%s[1h]))", "max by (job) (rate(%s[5m]))", "sum by (instance) (rate(%s[5m]))",
			"count by (job) (%s)", "max by (instance) (%s)", "avg by (job) (avg_over_time(%s[30m]))", "sum(irate(%s[5m]))", "sum by (job) (increase(%s[2h]))",
		} {
			fmt.Fprintf(&text, "  - {record: 'r:%d:%d', expr: '%s'}\n", i, k, fmt.Sprintf(of, s))
		}
	}
	return text.String()
}

// rules has a Prometheus without samples of its own evaluate fifty recording rules, reading through
// the Prometheus behind promwarp and then through promwarp: as both are by default, with rules
// evaluated as of 90 s ago, four at once, and with reads that bring less.
func rules(ctx context.Context, r *rig) error {
	own, err := r.before(ctx)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		name         string
		read         *peers.Process
		path, offset string
		flags        []string
	}{
		{"Prometheus", r.source, "", "0s", nil},
		{"promwarp", own, "", "0s", nil},
		{"four at once", own, "", "0s", []string{"--enable-feature=concurrent-rule-eval"}},
		{"aggregate", own, "/aggregate", "0s", nil},
		{"rule_query_offset 90s", own, "", "90s", nil},
	} {
		if !r.match.MatchString(c.name) {
			continue
		}
		reading, err := r.reader(ctx, c.read.URL+"/api/v1/read"+c.path, fifty(c.offset), c.flags...)
		if err != nil {
			return err
		}
		err = r.evaluations(ctx, r.shown.Row(c.name), []*peers.Process{reading, c.read, r.source})
		reading.Kill()
		r.running = r.running[:len(r.running)-1]
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// counts are what a reader's rules, and the server that it reads from, have done so far.
var counts = [][2]string{
	{"groups", "prometheus_rule_group_iterations_total"}, {"missed", "prometheus_rule_group_iterations_missed_total"},
	{"failures", "prometheus_rule_evaluation_failures_total"}, {"seconds", "prometheus_rule_group_duration_seconds_sum"},
	{"fetches", "promwarp_cache_fetches_total"}, {"fetched", "promwarp_remote_read_received_bytes_total"},
	{"reads", "promwarp_read_requests_total"}, {"read", "promwarp_read_bytes_total"},
}

// evaluations lets a reader evaluate its rules for some time, and notes what one evaluation of all
// cost it, the server that it reads from and the Prometheus behind.
func (r *rig) evaluations(ctx context.Context, row *report.Row, of []*peers.Process) error {
	names := []string{"evaluation", "reader's CPU", "CPU of what it reads", "Prometheus's CPU"}
	r.shown.Contend(names...)
	if err := sleep(ctx, 2*ruleInterval); err != nil { // until all that is settled is fetched
		return err
	}
	var sums [2]map[string]float64
	for i := range sums {
		sums[i] = map[string]float64{}
		for k, p := range of {
			sums[i][names[k+1]] = spent(p, nil).cpu.Seconds()
		}
		for k, p := range of[:2] {
			for _, c := range counts {
				if strings.HasPrefix(c[1], "promwarp") == (k == 1) {
					sums[i][c[0]], _ = p.Metric(c[1]) // a Prometheus has none of promwarp's
				}
			}
		}
		if i == 0 {
			if err := sleep(ctx, ruleTime); err != nil {
				return err
			}
		}
	}
	if n := sums[1]["failures"]; n > 0 {
		return fmt.Errorf("%.0f evaluations failed", n)
	}
	during := func(name string) float64 { return sums[1][name] - sums[0][name] }
	groups := during("groups") - during("missed")
	sums[0][names[0]], sums[1][names[0]] = sums[0]["seconds"], sums[1]["seconds"]
	for _, name := range names {
		row.Costs[name] = report.Cost{Timing: report.NewTiming([]time.Duration{time.Duration(during(name) / groups * 1e9)})}
	}
	row.Note = fmt.Sprintf("%.1f fetches of %.0f bytes, %.1f reads of %.0f", during("fetches")/groups, during("fetched")/groups, during("reads")/groups, during("read")/groups)
	r.say("%s: %.1f ms, %s", row.Name, row.Costs[names[0]].Median, row.Note)
	return r.save()
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
