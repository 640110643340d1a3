package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/terminal"
	"github.com/promwarp/promwarp/engine/compare"
)

// demoQueries are what the demo compares: a dashboard's usual queries.
var demoQueries = []string{
	`sum by (job) (rate(http_requests_total[5m]))`,
	`sum by (job, code) (increase(http_requests_total[1h]))`,
	`sum by (job) (rate(http_requests_total{code=~"5.."}[5m])) / sum by (job) (rate(http_requests_total[5m]))`,
	`histogram_quantile(0.99, sum by (le, job) (rate(http_request_duration_seconds_bucket[5m])))`,
	`topk(5, sum by (instance) (rate(http_requests_total[5m])))`,
	`avg by (job, type) (node_memory_bytes)`,
	`quantile by (job) (0.9, avg_over_time(node_memory_bytes[1h]))`,
	`avg by (instance) (rate(node_cpu_seconds_total{mode!="idle"}[5m]))`,
	`sum by (namespace) (kube_pod_memory_working_set_bytes)`,
}

// demoStep is the resolution of the demo's queries.
const demoStep = time.Minute

// compareDemo evaluates each query with Prometheus's engine and over promwarp's
// API, prints a table, and says whether all answers were the same.
func compareDemo(ctx context.Context, prom *demoPrometheus, data *demoData, set config.Settings, stdout io.Writer) (bool, error) {
	fmt.Fprintf(stdout, "\n%d queries over %s at a step of %s; times in ms. Prometheus's engine runs on its own\nTSDB; promwarp's times include fetching, HTTP and JSON. First is with an empty cache,\nrepeated the median of three.\n\n",
		len(demoQueries), model.Duration(data.end.Sub(data.start)), model.Duration(demoStep))
	var rows []compare.Row
	same := true
	for _, q := range demoQueries {
		row, err := measureDemo(ctx, prom, data, set, q)
		if err != nil {
			return false, fmt.Errorf("%s: %w", q, err)
		}
		same = same && row.Verdict == compare.Same
		rows = append(rows, row)
	}
	if err := reportComparison(stdout, rows, 0, terminal.StyleOf(stdout)); err != nil {
		return false, err
	}
	summarizeComparison(stdout, rows, terminal.StyleOf(stdout))
	return same, nil
}

// measureDemo compares one query, on a promwarp of its own so that nothing is
// cached at first.
func measureDemo(ctx context.Context, prom *demoPrometheus, data *demoData, set config.Settings, query string) (compare.Row, error) {
	promwarp, stop, err := client.Embed(set, promslog.NewNopLogger())
	if err != nil {
		return compare.Row{}, err
	}
	defer stop()
	form := url.Values{
		"query": {query}, "start": {stamp(data.start)}, "end": {stamp(data.end)},
		"step": {strconv.FormatFloat(demoStep.Seconds(), 'f', -1, 64)},
	}
	row, err := compare.Measure(ctx,
		func(ctx context.Context) (*compare.Answer, error) {
			return prom.rangeQuery(ctx, query, data.start, data.end)
		},
		side{Client: promwarp}.ask(client.Ranged, form),
		compare.Rounds{Prometheus: 1, Repeated: 3})
	row.Query, row.Remembered = query, err == nil && remembers(ctx, promwarp, form)
	return row, err
}

// rangeQuery evaluates a query with Prometheus's engine. The time is the
// evaluation's alone.
func (p *demoPrometheus) rangeQuery(ctx context.Context, query string, start, end time.Time) (*compare.Answer, error) {
	begin := time.Now()
	q, err := p.engine.NewRangeQuery(ctx, p.db, nil, query, start, end, demoStep)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	res := q.Exec(ctx)
	took := time.Since(begin)
	if res.Err != nil {
		return nil, res.Err
	}
	a := compare.Of(res.Value)
	a.Took = took
	a.Warnings, a.Infos = res.Warnings.AsStrings(query, 10, 10)
	for i := range a.Series { // the engine will use the memory again
		a.Series[i].Floats = slices.Clone(a.Series[i].Floats)
	}
	return &a, nil
}
