package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// Samples are 15 s apart, but for what makes their times uneven; as many series as a target
// exposes are scraped together.
const (
	interval  = synthetic.Interval
	perTarget = 24
	lateBy    = 4 // ms, not included
)

// metrics are what is asked for, by name: m are counters of whole numbers, g are gauges of bytes
// in whole pages, and s are shares, which need all bits of a float. one is the counters of one job.
type metrics map[string]*selection.Selection

// newMetrics makes so many series of m, half as many of g, and an eighth of s and one.
func newMetrics(series, samples int, jitter string) (metrics, error) {
	of := metrics{}
	for name, n := range map[string]int{"m": series, "g": series / 2, "s": series / 8, "one": series / 8} {
		sel, err := synthetic.Make(synthetic.Options{
			Series: n, Distinct: n,
			Labels: func(i int) labels.Labels {
				target := i / perTarget
				return labels.FromStrings("__name__", name, "code", fmt.Sprint(200+i%3), "instance", fmt.Sprintf("host-%06d", target),
					"job", fmt.Sprint("job-", target%8), "path", fmt.Sprintf("/%02d", i%perTarget))
			},
			Samples: func(i int) ([]int64, []float64) { return times(name, i, samples, jitter), values(name, i, samples) },
		})
		if err != nil {
			return nil, err
		}
		of[name] = sel.WithMemos(math.MaxInt64)
	}
	return of, nil
}

// times are those of series i of a metric in ms.
func times(name string, i, samples int, jitter string) []int64 {
	target := uint64(i / perTarget)
	r := rand.New(rand.NewPCG(5, target))
	first := synthetic.Start + r.Int64N(interval)
	if jitter == "series" {
		r = rand.New(rand.NewPCG(uint64(name[0]), uint64(i)))
	}
	ts := make([]int64, samples)
	for k := range ts {
		if ts[k] = first + int64(k)*interval; jitter != "none" {
			ts[k] += r.Int64N(lateBy)
		}
	}
	return ts
}

// values are those of series i of a metric.
func values(name string, i, samples int) []float64 {
	r := rand.New(rand.NewPCG(7, uint64(i)))
	vs := make([]float64, samples)
	v := math.Floor(1e6 * r.Float64())
	for k := range vs {
		switch name {
		case "g": // as internal/dataset has it
			if level := 1e6; r.IntN(4) == 0 {
				v += (level-v)*0.02 + (2*r.Float64()-1)*0.01*level
			}
			vs[k] = 4096 * math.Floor(v)
		case "s":
			vs[k] = r.Float64()
		default:
			if v += float64(r.IntN(30)); r.IntN(3000) == 0 {
				v = 0
			}
			vs[k] = v
		}
	}
	return vs
}

// Querier implements storage.Queryable.
func (m metrics) Querier(int64, int64) (storage.Querier, error) {
	return querier{storage.NoopQuerier(), m}, nil
}

type querier struct {
	storage.Querier
	of metrics
}

// SelectChunks implements selection.Querier. Selectors name a metric and no more.
func (q querier) SelectChunks(_ context.Context, _ *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	for _, m := range ms {
		if m.Name == labels.MetricName && q.of[m.Value] != nil {
			return q.of[m.Value], nil, nil
		}
	}
	return selection.Empty(), nil, nil
}
