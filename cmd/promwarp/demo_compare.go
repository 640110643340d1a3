package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/server"
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

// demoAnswer is what either side answered.
type demoAnswer struct {
	matrix          model.Matrix
	warnings, infos []string
}

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
	want, took, err := prom.rangeQuery(ctx, query, data.start, data.end)
	if err != nil {
		return row, fmt.Errorf("on Prometheus's engine: %w", err)
	}
	row.prometheus = took

	set.Web.ListenAddress = config.Addresses{"127.0.0.1:0"}
	set.Web.ShutdownTimeout = 0 // nothing is under way when it ends
	logger, err := config.NewLogger(set.Log, io.Discard)
	if err != nil {
		return row, err
	}
	srv, err := server.New(server.Config{Settings: set, Logger: logger})
	if err != nil {
		return row, err
	}
	running := startDemoServer(ctx, srv)
	defer running.stop()
	if err := running.waitReady(ctx); err != nil {
		return row, err
	}
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	client := demoClient{http.Client{Transport: transport}, srv.URL()}
	var repeated []float64
	for i := range 4 {
		got, took, err := client.rangeQuery(ctx, query, data.start, data.end)
		if err != nil {
			return row, fmt.Errorf("promwarp: %w", err)
		}
		if i == 0 {
			row.first = took
		} else {
			repeated = append(repeated, took)
		}
		if row.difference == nil {
			row.difference = demoDifference(want, got)
		}
	}
	slices.Sort(repeated)
	row.repeated = repeated[len(repeated)/2]
	return row, nil
}

// rangeQuery evaluates a query with Prometheus's engine, and says how many ms
// it took.
func (p *demoPrometheus) rangeQuery(ctx context.Context, query string, start, end time.Time) (a demoAnswer, took float64, err error) {
	begin := time.Now()
	q, err := p.engine.NewRangeQuery(ctx, p.db, nil, query, start, end, demoStep)
	if err != nil {
		return a, 0, err
	}
	defer q.Close()
	res := q.Exec(ctx)
	took = milliseconds(time.Since(begin))
	if res.Err != nil {
		return a, 0, res.Err
	}
	matrix, err := res.Matrix()
	if err != nil {
		return a, 0, err
	}
	a.warnings, a.infos = res.Warnings.AsStrings(query, 10, 10)
	a.matrix = modelMatrix(matrix)
	return a, took, nil
}

// modelMatrix copies the floats of m.
func modelMatrix(m promql.Matrix) model.Matrix {
	out := make(model.Matrix, len(m))
	for i, s := range m {
		metric := model.Metric{}
		for name, value := range s.Metric.Map() {
			metric[model.LabelName(name)] = model.LabelValue(value)
		}
		values := make([]model.SamplePair, len(s.Floats))
		for j, f := range s.Floats {
			values[j] = model.SamplePair{Timestamp: model.Time(f.T), Value: model.SampleValue(f.F)}
		}
		out[i] = &model.SampleStream{Metric: metric, Values: values}
	}
	return out
}

// demoClient asks promwarp.
type demoClient struct {
	http.Client
	base string
}

// rangeQuery asks a query and says how many ms it took until the whole answer
// was there.
func (c *demoClient) rangeQuery(ctx context.Context, query string, start, end time.Time) (a demoAnswer, took float64, err error) {
	form := url.Values{
		"query": {query},
		"start": {strconv.FormatInt(timestamp.FromTime(start)/1000, 10)},
		"end":   {strconv.FormatInt(timestamp.FromTime(end)/1000, 10)},
		"step":  {strconv.FormatFloat(demoStep.Seconds(), 'f', -1, 64)},
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+"/api/v1/query_range", strings.NewReader(form.Encode()))
	if err != nil {
		return a, 0, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	begin := time.Now()
	resp, err := c.Do(req)
	if err != nil {
		return a, 0, err
	}
	defer resp.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(resp.Body); err != nil {
		return a, 0, err
	}
	took = milliseconds(time.Since(begin))

	var answer struct {
		Status   string   `json:"status"`
		Error    string   `json:"error"`
		Warnings []string `json:"warnings"`
		Infos    []string `json:"infos"`
		Data     struct {
			Result model.Matrix `json:"result"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body.Bytes(), &answer); err != nil {
		return a, 0, fmt.Errorf("status %s: %w", resp.Status, err)
	}
	if answer.Status != "success" {
		return a, 0, errors.New(answer.Error)
	}
	return demoAnswer{answer.Data.Result, answer.Warnings, answer.Infos}, took, nil
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// demoDifference says how got differs from want, nil if it does not: in
// warnings, series, timestamps, or values by more than 1e-12 of the larger one.
func demoDifference(want, got demoAnswer) error {
	if !slices.Equal(want.warnings, got.warnings) || !slices.Equal(want.infos, got.infos) {
		return fmt.Errorf("promwarp says %q and %q where Prometheus says %q and %q", got.warnings, got.infos, want.warnings, want.infos)
	}
	if len(want.matrix) != len(got.matrix) {
		return fmt.Errorf("promwarp has %d series, Prometheus %d", len(got.matrix), len(want.matrix))
	}
	for i, w := range want.matrix {
		g := got.matrix[i]
		if !w.Metric.Equal(g.Metric) {
			return fmt.Errorf("series %d is %s in promwarp, %s in Prometheus", i, g.Metric, w.Metric)
		}
		if len(w.Values) != len(g.Values) || len(g.Histograms) > 0 {
			return fmt.Errorf("series %s has %d values and %d histograms in promwarp, %d values in Prometheus", w.Metric, len(g.Values), len(g.Histograms), len(w.Values))
		}
		for j, p := range w.Values {
			if q := g.Values[j]; p.Timestamp != q.Timestamp || !sameValue(float64(p.Value), float64(q.Value)) {
				return fmt.Errorf("series %s is %g at %s in promwarp, %g at %s in Prometheus", w.Metric, float64(q.Value), q.Timestamp, float64(p.Value), p.Timestamp)
			}
		}
	}
	return nil
}

// sameValue says whether two values are the same but for rounding.
func sameValue(a, b float64) bool {
	switch {
	case a == b:
		return true
	case math.IsNaN(a) || math.IsNaN(b):
		return math.IsNaN(a) && math.IsNaN(b)
	case math.IsInf(a, 0) || math.IsInf(b, 0):
		return false
	}
	return math.Abs(a-b) <= 1e-12*max(math.Abs(a), math.Abs(b))
}
