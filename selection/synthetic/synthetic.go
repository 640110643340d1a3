// Package synthetic makes selections of very many series for measurements, in
// seconds: the samples of a few series, again and again under other labels.
package synthetic

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/samples"
)

// ChunkSamples is the number of samples in a chunk, as Prometheus makes them.
const ChunkSamples = 120

// Options say what to make.
type Options struct {
	Series   int
	Distinct int // how many of them have samples of their own
	// Labels are those of series i. They must be sorted.
	Labels func(i int) labels.Labels
	// Samples are those of distinct series k: times in ms, and values. It is called
	// from several goroutines.
	Samples func(k int) ([]int64, []float64)
}

// Make makes a selection of XOR chunks.
func Make(o Options) (*selection.Selection, error) {
	o.Distinct = min(o.Distinct, o.Series)
	distinct, errs := make([]*samples.Writer, o.Distinct), make([]error, o.Distinct)
	parallel.For(o.Distinct, func(k int) {
		distinct[k] = samples.NewWriter(context.Background(), 0, 0)
		errs[k] = distinct[k].Floats(o.Samples(k))
	})
	b := selection.NewBuilder(0)
	for i := range o.Series {
		k := i % o.Distinct
		if errs[k] != nil {
			return nil, errs[k]
		}
		b.Series(o.Labels(i))
		for _, c := range distinct[k].Chunks {
			if err := b.Chunk(c.Enc, c.MinT, c.MaxT, distinct[k].Slabs().Bytes(c)); err != nil {
				return nil, err
			}
		}
	}
	return b.Finish()
}

// Start is when counters begin, in ms, and Interval how far apart their samples are.
const (
	Start    = 1_790_000_000_000
	Interval = 15_000
)

// distinct is the number of counters with samples of their own.
const distinct = 512

// Counters makes counters of one name in 20 jobs, each with a number of samples, which
// begin within the first interval.
func Counters(name string, series, samples int) (*selection.Selection, error) {
	return Make(Options{
		Series: series, Distinct: distinct,
		Labels: func(i int) labels.Labels {
			return labels.FromStrings("__name__", name, "instance", fmt.Sprintf("host-%06d", i), "job", "job-"+strconv.Itoa(i%20))
		},
		Samples: func(k int) ([]int64, []float64) {
			r := rand.New(rand.NewPCG(41, uint64(k)))
			v, offset := 0.0, r.Int64N(Interval)
			ts, vs := make([]int64, samples), make([]float64, samples)
			for i := range ts {
				ts[i] = Start + offset + int64(i)*Interval
				v += math.Round(100*r.ExpFloat64()) / 8
				vs[i] = v
			}
			return ts, vs
		},
	})
}

// Metrics is a storage of several metrics by name. Selectors name a metric and no more.
type Metrics map[string]*selection.Selection

// Querier implements storage.Queryable.
func (m Metrics) Querier(mint, maxt int64) (storage.Querier, error) {
	return querier{storage.NoopQuerier(), m, mint, maxt}, nil
}

type querier struct {
	storage.Querier
	of         Metrics
	mint, maxt int64
}

// SelectChunks implements selection.Querier.
func (q querier) SelectChunks(_ context.Context, _ *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	found := selection.Empty()
	for _, m := range ms {
		if m.Name == model.MetricNameLabel && q.of[m.Value] != nil {
			found = q.of[m.Value]
		}
	}
	return found, nil, nil
}

// Select implements storage.Querier.
func (q querier) Select(ctx context.Context, _ bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	s, _, _ := q.SelectChunks(ctx, hints, ms...)
	return s.SeriesSet(q.mint, q.maxt, nil)
}
