package main

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/promwarp/promwarp/bench/answer"
	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/queries"
	"github.com/promwarp/promwarp/bench/report"
)

// stage is one thing to measure: the data that it needs, and who is asked what.
type stage struct {
	name, about string
	data        shape // where flags say no other
	rounds      int
	budget      time.Duration // of a question's rounds; 0 for all rounds
	flags       string        // of promwarp
	run         func(context.Context, *rig) error
}

// stages are all; the first is what make bench measures.
var stages = []*stage{
	{"dashboards", "44 queries of dashboards, first and repeated, of all peers", shape{series: 3000, hours: 30}, 3, 5 * time.Second,
		"--gpu.mode=off --cache.decoded-bytes=192MiB --cache.results-bytes=0", dashboards(queries.All)},
	{"exporters", "five dashboards of exporters' metrics over 30 days, first and repeated, of all peers", shape{families: "exporters", series: 1200, hours: 30 * 24, interval: time.Minute,
		block: 54 * time.Hour, age: time.Hour}, 3, 5 * time.Second, "--gpu.mode=off", dashboards(queries.Exporters)},
	{"first", "first and second answers over a month", shape{block: 54 * time.Hour, series: 1000, hours: 30 * 24, age: time.Hour}, 5, 0, "", first},
	{"selectors", "first answers to queries of many selectors, with few series and with none", shape{series: 6800, hours: 6, age: time.Hour}, 5, 0, "", selectors},
	{"clients", "sixteen queries of dashboards by clients at once", shape{series: 3000, hours: 24, age: time.Hour}, 1, 0, "--cache.results-bytes=0", clients},
	{"cores", "the queries of dashboards on numbers of cores", shape{series: 10_000, hours: 24, age: time.Hour}, 5, 2 * time.Second,
		"--gpu.mode=off --cache.results-bytes=0", onCores},
	{"gzip", "long answers as they are and compressed, on numbers of cores", shape{series: 10_000, hours: 24, age: time.Hour}, 5, 0,
		"--gpu.mode=off --cache.results-bytes=0", compressed},
	{"functions", "every function, operator and aggregation of PromQL, by its worst kind of values", shape{series: 8616, hours: 24, age: time.Hour, gauges: true}, 3,
		2 * time.Second, "--gpu.mode=off --cache.results-bytes=0 --cache.decoded-bytes=4GiB", functions},
	{"reads", "remote reads of chunks and samples, one and 64 at once", readShape, 10, 0, "", reads},
	{"readers", "a Prometheus that reads through promwarp", readShape, 10, 0, "", readers},
	{"reduced", "readers of all samples, of thinned ones and of aggregates", readShape, 10, 0, "", reduced},
	{"rules", "a Prometheus that evaluates fifty recording rules through promwarp", readShape, 1, 0, "", rules},
	{"slo", "200 rules of objectives, windows of 5 minutes to 30 days, evaluated once a minute", shape{families: "slo", series: 10_000, hours: 30*24 + 1, interval: time.Minute,
		block: 54 * time.Hour, age: -59 * time.Minute}, 5, 0, "--gpu.mode=off", objectives},
	{"tables", "aggregates of all series by five minutes as Arrow, CSV and JSON", shape{series: 10_000, hours: 4, age: time.Hour}, 5, 0,
		"--query.max-samples=2000000000", tables},
}

// dashboards asks queries of all peers, and of promwarps that have just started.
func dashboards(all []queries.Query) func(context.Context, *rig) error {
	return func(ctx context.Context, r *rig) error { return r.dashboards(ctx, all) }
}

func (r *rig) dashboards(ctx context.Context, all []queries.Query) error {
	cs, err := r.peers(ctx, 0, true)
	if err != nil {
		return err
	}
	cs[0].names = []string{report.Promwarp}
	cs = append(cs, contender{names: []string{report.PromwarpFirst}, exact: true, start: r.fresh})
	r.shown.Contend(report.Prometheus, report.PromwarpFirst, report.Promwarp)
	r.shown.Compare(report.Prometheus, report.PromwarpFirst, "first ×")
	r.shown.Compare(report.Prometheus, report.Promwarp, "repeated ×")
	r.shown.Compare(report.Prometheus, report.VictoriaMetrics, "VM ×")
	r.shown.Compare(report.VictoriaMetrics, report.PromwarpFirst, "first/VM ×")
	r.shown.Compare(report.VictoriaMetrics, report.Promwarp, "repeated/VM ×")
	err = r.ask(ctx, r.questions(all...), cs)
	r.peaks(cs)
	return err
}

// fresh starts a promwarp for one round.
func (r *rig) fresh(ctx context.Context) (*peers.Process, error) { return r.promwarp(ctx, 0) }

// firsts asks Prometheus and promwarps that have just started, twice each, and whom else is given.
func (r *rig) firsts(ctx context.Context, qs []question, others ...contender) error {
	if err := r.prometheus(ctx, 0); err != nil {
		return err
	}
	const second = "promwarp second"
	cs := []contender{
		{names: []string{report.Prometheus}, server: r.source, exact: true, warm: 1},
		{names: []string{report.PromwarpFirst, second}, behind: r.source, exact: true, start: r.fresh},
	}
	r.shown.Details = true
	r.shown.Compare(report.Prometheus, report.PromwarpFirst, "first ×")
	r.shown.Compare(report.PromwarpFirst, second, "first/second ×")
	for _, c := range others {
		c.server = r.source
		cs = append(cs, c)
		r.shown.Compare(report.PromwarpFirst, c.names[0], "first/"+c.names[0]+" ×")
	}
	return r.ask(ctx, qs, cs)
}

// named are queries at a step, by name and expression in turn.
func named(span, step time.Duration, texts ...string) (qs []queries.Query) {
	for i := 0; i < len(texts); i += 2 {
		qs = append(qs, queries.Query{Name: texts[i], Expr: texts[i+1], Range: span, Step: step})
	}
	return qs
}

// first asks for all of a month but its first hour, of a Prometheus whose blocks are as long as
// those that it compacts to. What no first answer can do without are bare reads.
func first(ctx context.Context, r *rig) error {
	return r.firsts(ctx, r.questions(named(r.data.length()-time.Hour, time.Hour,
		"rate", "sum by (job) (rate(http_requests_total[5m]))",
		"increase", "sum by (job, code) (increase(http_requests_total[1h]))",
		"histogram-quantile", "histogram_quantile(0.99, sum by (le, job) (rate(http_request_duration_seconds_bucket[5m])))",
		"gauges", "avg by (job, type) (node_memory_bytes)",
		"max", "max by (job) (max_over_time(node_memory_bytes[1h]))",
		"quantile", "quantile by (job) (0.9, avg_over_time(node_memory_bytes[1h]))",
		"avg-of-a-day", "avg(avg_over_time(up[1d]))",
		"counters-of-a-day", "avg(avg_over_time(http_requests_total[1d]))",
	)...), contender{names: []string{"bare reads"}, warm: 1, asking: r.bareReads})
}

// selectors asks for 300 metrics that are not there, and for 20 selectors of a hundred series each
// where there are 100 instances.
func selectors(ctx context.Context, r *rig) error {
	var none, some []string
	for i := range 300 {
		none = append(none, fmt.Sprintf("none_%03d", i))
	}
	for _, handler := range []string{"/api/v1/items", "/api/v1/orders", "/login", "/static", ""} {
		for _, code := range []string{"200", "404", "500", "503"} {
			s := fmt.Sprintf(`sum(rate(http_requests_total{handler="%s",code="%s",method="GET"}[5m]))`, handler, code)
			if handler == "" { // the rest of the 20
				s = fmt.Sprintf(`sum(rate(http_requests_total{handler="/login",code="%s",method="POST"}[5m]))`, code)
			}
			some = append(some, s)
		}
	}
	var qs []queries.Query
	for name, span := range map[string]time.Duration{"at-an-instant": 0, "over-1h": time.Hour, "over-6h": 6 * time.Hour} {
		qs = append(qs, named(span, time.Minute, "none-of-300-"+name, strings.Join(none, " or "), "100-of-20-"+name, strings.Join(some, " + "))...)
	}
	slices.SortFunc(qs, func(a, b queries.Query) int { return strings.Compare(a.Name, b.Name) })
	return r.firsts(ctx, r.questions(qs...))
}

// clients are a mix of the queries of dashboards by 1, 4, 16 and more clients.
func clients(ctx context.Context, r *rig) error {
	cs, err := r.peers(ctx, 0, true)
	if err != nil {
		return err
	}
	r.shown.Details = true
	r.shown.Compare(report.Prometheus, peers.Promwarp, "Prometheus ×")
	r.shown.Compare(report.VictoriaMetrics, peers.Promwarp, "VM ×")
	qs := r.questions(queries.All[:16]...)
	if err := r.ask(ctx, qs, cs); err != nil {
		return err
	}
	for _, n := range r.options.clients {
		for _, c := range cs {
			if err := r.load(ctx, r.shown.Row(fmt.Sprintf("mixed, %d at once", n)), c, qs, load{clients: n, during: r.during}); err != nil {
				return err
			}
		}
	}
	return nil
}

// onCores asks promwarp and VictoriaMetrics, each on some cores alone, all queries in turns. The
// program that asks, and the Prometheus that promwarp fetches from, have all. Where -only has it,
// Prometheus is asked on as many, once.
func onCores(ctx context.Context, r *rig) error {
	all := slices.Concat(queries.All, named(24*time.Hour, time.Minute,
		"five-groups", `sum by (job) (rate(http_requests_total{job=~"job-[0-4]"}[5m]))`,
		"one-group", "sum(rate(http_requests_total[5m]))",
		"deriv-by-job", "max by (job) (deriv(node_memory_bytes[15m]))",
		"stddev-by-job", "sum by (job) (stddev_over_time(node_memory_bytes[30m]))",
		"avg-of-a-day", "sum(avg_over_time(node_memory_bytes[1d]))"))
	for _, n := range r.cores {
		ours := on(peers.Promwarp, n)
		cs, err := r.peers(ctx, n, r.asks(peers.Prometheus))
		if err != nil {
			return err
		}
		for i := range cs {
			switch its := cs[i].names[0]; its {
			case ours:
				if n != r.cores[0] {
					r.shown.Compare(on(peers.Promwarp, r.cores[0]), ours, fmt.Sprintf("%d/%d ×", r.cores[0], n))
				}
			case on(report.Prometheus, n):
				cs[i].once = true
				fallthrough
			default:
				r.shown.Compare(its, ours, its+"/promwarp ×")
			}
		}
		err = r.ask(ctx, r.questions(all...), cs)
		r.peaks(cs)
		r.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// compressed asks all peers on some cores for long answers, as they are and compressed. Of 10 000
// series the first has half a million points.
func compressed(ctx context.Context, r *rig) error {
	all := named(24*time.Hour, time.Minute,
		"half-a-job", `rate(http_requests_total{job="job-2", method="GET"}[5m])`,
		"a-job", `rate(http_requests_total{job="job-1"}[5m])`,
		"gauges", `node_memory_bytes{job="job-0"}`)
	for _, n := range r.cores {
		ours := on(peers.Promwarp, n)
		cs, err := r.peers(ctx, n, true)
		if err != nil {
			return err
		}
		for _, c := range cs {
			packed := c.names[0] + ", gzip"
			if c.names[0] == ours {
				r.shown.Compare(packed, ours, fmt.Sprintf("gzip/plain, %d ×", n))
			} else {
				r.shown.Compare(packed, ours+", gzip", packed+"/promwarp ×")
			}
			c.gzip, c.names = true, []string{packed}
			cs = append(cs, c)
		}
		err = r.ask(ctx, r.questions(all...), cs)
		r.stop()
		if err != nil {
			return err
		}
	}
	return nil
}

// tables asks a promwarp over a data directory for the count, sum, mean, min and max of each
// series and five minutes, in several formats: one that has just started, which reads the samples
// from disk, and one that has them in memory as chunks.
func tables(ctx context.Context, r *rig) error {
	start := func(ctx context.Context) (*peers.Process, error) {
		flags := strings.Fields(cmp.Or(r.promwarpFlags, r.stage.flags))
		return peers.StartPromwarp(ctx, r.programs[peers.Promwarp], append(flags, "--tsdb.path="+filepath.Join(r.data.dir, "data"))...)
	}
	warm, err := r.started(start(ctx))
	if err != nil {
		return err
	}
	r.shown.Details = true
	cs := []contender{{names: []string{"from disk"}, start: start}, {names: []string{peers.Promwarp}, server: warm, warm: 2}}
	var qs []question
	for _, format := range []string{"arrow", "csv", "json"} {
		qs = append(qs, question{Query: queries.Query{Name: format}, request: answer.Request{Path: "/query", Form: url.Values{
			"match[]": {`{__name__=~".+"}`}, "every": {"5m"}, "aggregates": {"count,sum,mean,min,max"}, "format": {format},
			"start": {strconv.FormatInt(r.data.Start/1000-300, 10)}, "end": {strconv.FormatInt(r.data.Options.End/1000, 10)},
		}}})
	}
	return r.ask(ctx, qs, cs)
}

func on(peer string, cores int) string {
	if cores == 0 {
		return peer
	}
	return fmt.Sprintf("%s on %d", peer, cores)
}

// peers starts promwarp and VictoriaMetrics on a number of cores, all for 0, and Prometheus, too,
// if it is asked.
func (r *rig) peers(ctx context.Context, cores int, prometheus bool) ([]contender, error) {
	its := 0
	if prometheus {
		its = cores
	}
	if err := r.prometheus(ctx, its); err != nil {
		return nil, err
	}
	warp, err := r.started(r.promwarp(ctx, cores))
	if err != nil {
		return nil, err
	}
	cs := []contender{{names: []string{on(peers.Promwarp, cores)}, server: warp, exact: true, warm: 2}}
	if r.asks(peers.VictoriaMetrics) {
		vm, err := r.victoriaMetrics(ctx, cores)
		if err != nil {
			return nil, err
		}
		computes := url.Values{"nocache": {"1"}} // its answers each time
		cs = append(cs, contender{names: []string{on(report.VictoriaMetrics, cores)}, server: vm, other: true, warm: 1, more: computes})
	}
	if prometheus {
		cs = append(cs, contender{names: []string{on(report.Prometheus, cores)}, server: r.source})
	}
	return cs, nil
}
