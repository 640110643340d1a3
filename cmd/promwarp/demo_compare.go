package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	v1 "github.com/prometheus/prometheus/web/api/v1"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/client"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/comparison"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
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
	w := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "Prometheus\tfirst\trepeated\tspeed-up\tanswer\tquery")
	var differences []string
	var prometheusTime, repeatedTime float64
	for _, q := range demoQueries {
		row, err := measureDemo(ctx, prom, data, set, q)
		if err != nil {
			return false, fmt.Errorf("%s: %w", q, err)
		}
		verdict := "same"
		if row.difference != nil {
			verdict = "DIFFERENT"
			differences = append(differences, fmt.Sprintf("%s: %v", q, row.difference))
		}
		prometheusTime += row.prometheus
		repeatedTime += row.repeated
		fmt.Fprintf(w, "%.1f\t%.1f\t%.1f\t%.1f×, %.1f×\t%s\t%s\n", row.prometheus, row.first, row.repeated,
			row.prometheus/row.first, row.prometheus/row.repeated, verdict, q)
	}
	if err := w.Flush(); err != nil {
		return false, err
	}
	for _, d := range differences {
		fmt.Fprintf(stdout, "\nDIFFERENT: %s\n", d)
	}
	return len(differences) == 0, nil
}

// demoRow is one query's times in ms, and how promwarp's answers differ, nil if
// they do not.
type demoRow struct {
	prometheus, first, repeated float64
	difference                  error
}

// measureDemo compares one query, on a promwarp of its own so that nothing is
// cached at first.
func measureDemo(ctx context.Context, prom *demoPrometheus, data *demoData, set config.Settings, query string) (row demoRow, err error) {
	want, err := prom.rangeQuery(ctx, query, data.start, data.end)
	if err != nil {
		return row, fmt.Errorf("on Prometheus's engine: %w", err)
	}
	row.prometheus = milliseconds(want.Took)
	promwarp, stop, err := client.Embed(ctx, set, promslog.NewNopLogger())
	if err != nil {
		return row, err
	}
	defer stop()
	form := url.Values{
		"query": {query},
		"start": {strconv.FormatInt(data.start.Unix(), 10)},
		"end":   {strconv.FormatInt(data.end.Unix(), 10)},
		"step":  {strconv.FormatFloat(demoStep.Seconds(), 'f', -1, 64)},
	}
	var repeated []float64
	for i := range 4 {
		got, err := promwarp.Ask(ctx, "/api/v1/query_range", form)
		if err != nil {
			return row, fmt.Errorf("promwarp: %w", err)
		}
		if i == 0 {
			row.first = milliseconds(got.Took)
		} else {
			repeated = append(repeated, milliseconds(got.Took))
		}
		if row.difference == nil {
			row.difference = comparison.Difference(want, got)
		}
	}
	slices.Sort(repeated)
	row.repeated = repeated[len(repeated)/2]
	return row, nil
}

// rangeQuery evaluates a query with Prometheus's engine. The time is the
// evaluation's alone.
func (p *demoPrometheus) rangeQuery(ctx context.Context, query string, start, end time.Time) (*client.Answer, error) {
	begin := time.Now()
	q, err := p.engine.NewRangeQuery(ctx, p.db, nil, query, start, end, demoStep)
	if err != nil {
		return nil, err
	}
	defer q.Close()
	res := q.Exec(ctx)
	a := &client.Answer{Took: time.Since(begin)}
	if res.Err != nil {
		return nil, res.Err
	}
	a.Warnings, a.Infos = res.Warnings.AsStrings(query, 10, 10)
	a.Data, err = v1.JSONCodec{}.Encode(&v1.Response{Status: "success", Data: &v1.QueryData{ResultType: res.Value.Type(), Result: res.Value}})
	if err != nil {
		return nil, err
	}
	var envelope struct{ Data json.RawMessage }
	err = json.Unmarshal(a.Data, &envelope)
	a.Data = envelope.Data
	return a, err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
