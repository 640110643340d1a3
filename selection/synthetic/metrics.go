package synthetic

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/selection"
)

// Samples are 15 s apart, but for what makes their times uneven; as many series as a target
// exposes are scraped together.
const (
	perTarget = 24
	lateBy    = 4 // ms, not included
)

// Metrics is a storage of several metrics by name: m are counters of whole numbers, g gauges of bytes
// in whole pages, s shares, which need all bits of a float, and one the counters of one job.
type Metrics map[string]*selection.Selection

// NewMetrics makes so many series of m, half as many of g, and an eighth of s and one, each of so many
// samples. Jitter says how far their times are uneven: none, scrape (of targets) or series (of each).
func NewMetrics(series, samples int, jitter string) (Metrics, error) {
	of := Metrics{}
	for name, n := range map[string]int{"m": series, "g": series / 2, "s": series / 8, "one": series / 8} {
		sel, err := Make(Options{
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
	first := Start + r.Int64N(Interval)
	if jitter == "series" {
		r = rand.New(rand.NewPCG(uint64(name[0]), uint64(i)))
	}
	ts := make([]int64, samples)
	for k := range ts {
		if ts[k] = first + int64(k)*Interval; jitter != "none" {
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
func (m Metrics) Querier(int64, int64) (storage.Querier, error) {
	return metricQuerier{storage.NoopQuerier(), m}, nil
}

type metricQuerier struct {
	storage.Querier
	of Metrics
}

// SelectChunks implements selection.Querier. Selectors name a metric and no more.
func (q metricQuerier) SelectChunks(_ context.Context, _ *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	for _, m := range ms {
		if m.Name == model.MetricNameLabel && q.of[m.Value] != nil {
			return q.of[m.Value], nil, nil
		}
	}
	return selection.Empty(), nil, nil
}
