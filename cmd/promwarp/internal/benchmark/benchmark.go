// Package benchmark takes a quick look at what this machine can do: decoding chunks, and windows over
// decoded samples, on more and more cores, and on GPUs.
//
// It makes samples of its own and asks an engine for them, without a network or a server. A table of
// samples a second comes out. Start with Run; bench/ measures what can be relied on.
package benchmark

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/prometheus/common/promslog"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/backend"
	"github.com/promwarp/promwarp/cmd/promwarp/internal/config"
	"github.com/promwarp/promwarp/engine"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// queries are what is asked: of each metric, with or without samples that were decoded before.
var queries = []struct {
	what, query, metric string
	decode              bool
}{
	{"decode", "sum by (job) (rate(m[5m]))", "m", true},
	{"rate", "sum by (job) (rate(m[5m]))", "m", false},
	{"increase of an hour", "sum by (job, code) (increase(m[1h]))", "m", false},
	{"average", "avg by (job) (avg_over_time(g[5m]))", "g", false},
	{"maximum", "max by (job) (max_over_time(g[30m]))", "g", false},
	{"deviation", "sum by (job) (stddev_over_time(g[30m]))", "g", false},
	{"regression", "sum by (job) (deriv(g[15m]))", "g", false},
	{"quantile", "sum by (job) (quantile_over_time(0.9, g[15m]))", "g", false},
}

const (
	// least is how often a query is asked at least.
	least = 3
	step  = time.Minute
)

// Options say what to measure.
type Options struct {
	Series, Hours int
	Least         time.Duration         // how long a query is asked again and again
	GPUs          *placement.Placer     // nil measures none
	Note          func(text string)     // says what goes on
	Settings      config.EngineSettings // of the engine
}

// Result is what was measured.
type Result struct {
	Samples int64    `json:"samples"` // of the largest metric
	Columns []string `json:"columns"` // "1 core", "2 cores", …, "GPU"
	Rows    []Row    `json:"rows"`
}

// Row is one query. The rates are in samples a second, by column; 0 where a GPU failed, and why.
type Row struct {
	What    string    `json:"what"`
	Query   string    `json:"query"`
	Rates   []float64 `json:"samples_per_second"`
	Failure string    `json:"failure,omitempty"`
}

// column is who computes.
type column struct {
	name  string
	cores int
	mode  engine.Mode
}

// columns are powers of two of the cores, all of them, and GPUs.
func columns(cores int, gpu bool) (all []column) {
	name := func(n int) string {
		if n == 1 {
			return "1 core"
		}
		return fmt.Sprintf("%d cores", n)
	}
	for n := 1; n < cores; n *= 2 {
		all = append(all, column{name(n), n, engine.CPU})
	}
	all = append(all, column{name(cores), cores, engine.CPU})
	if gpu {
		all = append(all, column{"GPU", cores, engine.GPU})
	}
	return all
}

// Run measures. The number of cores that Go uses is set to others meanwhile.
func Run(ctx context.Context, o Options) (r Result, err error) {
	o.Note("making samples")
	samples := o.Hours * int(time.Hour/time.Millisecond) / synthetic.Interval
	data, err := synthetic.NewMetrics(o.Series, samples, "none")
	if err != nil {
		return r, err
	}
	r.Samples = int64(samples * o.Series)
	for _, q := range queries {
		r.Rows = append(r.Rows, Row{What: q.what, Query: q.query})
	}
	cores := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(cores)
	for _, c := range columns(cores, o.GPUs != nil) {
		r.Columns = append(r.Columns, c.name)
		runtime.GOMAXPROCS(c.cores)
		for i, q := range queries {
			o.Note(fmt.Sprintf("measuring %s on %s", q.what, c.name))
			set := o.Settings
			if q.decode {
				set.DecodedBytes = 0
			}
			rate := 0.0
			took, err := o.measure(ctx, set, data, q.query, c)
			switch {
			case err == nil:
				rate = float64(samples*data[q.metric].NumSeries()) / took.Seconds()
			case ctx.Err() == nil && c.mode == engine.GPU:
				r.Rows[i].Failure = err.Error()
			default:
				return r, fmt.Errorf("%s on %s: %w", q.query, c.name, err)
			}
			r.Rows[i].Rates = append(r.Rows[i].Rates, rate)
		}
	}
	return r, nil
}

// measure returns the least time that a query takes.
func (o *Options) measure(ctx context.Context, set config.EngineSettings, data synthetic.Metrics, query string, c column) (best time.Duration, err error) {
	e := backend.NewEvaluator(set, o.GPUs, nil, nil, promslog.NewNopLogger())
	defer e.Release()
	ctx = engine.WithMode(ctx, c.mode, true)
	end := time.UnixMilli(synthetic.Start).Add(time.Duration(o.Hours) * time.Hour)
	begin := time.Now()
	for round := 0; round <= least || time.Since(begin) < o.Least; round++ {
		start := time.Now()
		q, err := e.NewRangeQuery(ctx, data, nil, query, time.UnixMilli(synthetic.Start), end, step)
		if err != nil {
			return 0, err
		}
		res := q.Exec(ctx)
		q.Close()
		if res.Err != nil {
			return 0, res.Err
		}
		if took := time.Since(start); round > 0 && (best == 0 || took < best) {
			best = took
		}
	}
	return best, nil
}
