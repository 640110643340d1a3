package main

import (
	"context"
	"fmt"
	"io"
	"net/url"
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

// compareDemo asks Prometheus and promwarp each query, prints a table, and says whether all answers were the same.
func compareDemo(ctx context.Context, data *demoData, set config.Settings, stdout io.Writer) (bool, error) {
	fmt.Fprintf(stdout, "\n%d queries over %s at a step of %s; times in ms. Both are asked over HTTP; Prometheus\nreads its own TSDB, promwarp fetches from it. First is with an empty cache, repeated the\nmedian of three.\n\n",
		len(demoQueries), model.Duration(data.end.Sub(data.start)), model.Duration(demoStep))
	var rows []compare.Row
	same := true
	for _, q := range demoQueries {
		row, err := measureDemo(ctx, data, set, q)
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
func measureDemo(ctx context.Context, data *demoData, set config.Settings, query string) (compare.Row, error) {
	flags := client.Flags{Timeout: time.Duration(set.Query.Timeout)}
	prometheus, err := flags.Client("upstream", set.Upstream.URL)
	if err != nil {
		return compare.Row{}, err
	}
	promwarp, stop, err := client.Embed(set, nil, promslog.NewNopLogger())
	if err != nil {
		return compare.Row{}, err
	}
	defer stop()
	form := url.Values{
		"query": {query}, "start": {stamp(data.start)}, "end": {stamp(data.end)},
		"step": {strconv.FormatFloat(demoStep.Seconds(), 'f', -1, 64)},
	}
	row, err := compare.Measure(ctx, side{Client: prometheus}.ask(client.Ranged, form), side{Client: promwarp}.ask(client.Ranged, form),
		compare.Rounds{Prometheus: 1, Repeated: 3})
	row.Query, row.Remembered = query, err == nil && remembers(ctx, promwarp, form)
	return row, err
}
