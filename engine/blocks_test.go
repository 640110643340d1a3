package engine

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/selection"
)

// blocks is a storage of blocks whose time ranges overlap, as a store has that
// took in late samples or runs two replicas. Prometheus's engine reads the
// samples that Prometheus's own merge makes of the blocks; promwarp gets the
// chunks, by its selection's joining.
type blocks struct {
	series []labels.Labels
	chunks [][][]chunks.Meta // by block and series
	seed   uint64            // decides in which ways selections are put together
}

const (
	blocksLength = 7_200_000 // ms
	scrape       = 30_000    // ms
)

// newBlocks fills three blocks: one of regular scrapes cut into chunks, one with
// copies of stretches of it that start and end anywhere, and one with samples
// between the scrapes. Copies are equal: of samples that differ at one time,
// Prometheus keeps the one of the block that it did not read last.
func newBlocks(t testing.TB, seed uint64) *blocks {
	r := rand.New(rand.NewPCG(seed, 1))
	b := &blocks{series: blocksSeries(), seed: seed}
	const n = 3
	b.chunks = make([][][]chunks.Meta, n)
	for _, l := range b.series {
		var at [n][]chunks.Sample
		for _, s := range blocksSamples(r, l) {
			if s.T()%scrape == 0 || r.IntN(2) == 0 {
				at[0] = append(at[0], s)
			} else {
				at[2] = append(at[2], s)
			}
		}
		for range r.IntN(3) {
			if len(at[0]) == 0 {
				break
			}
			from := r.IntN(len(at[0]))
			at[1] = append(at[1], at[0][from:min(from+1+r.IntN(50), len(at[0]))]...)
		}
		slices.SortFunc(at[1], func(x, y chunks.Sample) int { return cmp.Compare(x.T(), y.T()) })
		at[1] = slices.CompactFunc(at[1], func(x, y chunks.Sample) bool { return x.T() == y.T() })
		for k := range at {
			var cs []chunks.Meta
			for rest := at[k]; len(rest) > 0; {
				m := min(1+r.IntN(60), len(rest))
				c, err := chunks.ChunkFromSamples(rest[:m])
				require.NoError(t, err)
				cs = append(cs, c)
				rest = rest[m:]
			}
			b.chunks[k] = append(b.chunks[k], cs)
		}
	}
	return b
}

// blocksSeries lists, in label order, counters and gauges that share their
// label sets, a classic histogram, series of one sample, and target_info.
func blocksSeries() (out []labels.Labels) {
	for _, job := range []string{"api", "db"} {
		for _, instance := range []string{"a:1", "b:2", "c:3"} {
			for _, name := range []string{"reqs_total", "errs_total", "temp"} {
				out = append(out, labels.FromStrings("__name__", name, "job", job, "instance", instance))
			}
			out = append(out, labels.FromStrings("__name__", "target_info", "job", job, "instance", instance, "version", instance[:1]))
		}
		for _, le := range []string{"0.1", "1", "10", "+Inf"} {
			out = append(out, labels.FromStrings("__name__", "lat_bucket", "job", job, "instance", "a:1", "le", le))
		}
		out = append(out, labels.FromStrings("__name__", "lat_count", "job", job, "instance", "a:1"))
		for k := range 3 {
			out = append(out, labels.FromStrings("__name__", "once", "job", job, "k", fmt.Sprint(k)))
		}
	}
	slices.SortFunc(out, labels.Compare)
	return out
}

// blocksSamples makes one series: a counter with resets, or a gauge with NaN and
// infinities; either with gaps, stale markers and samples off the scrape grid. Some
// have start timestamps.
func blocksSamples(r *rand.Rand, l labels.Labels) (out []chunks.Sample) {
	name := l.Get(model.MetricNameLabel)
	began := int64(0) // of a counter
	add := func(t int64, v float64) {
		start := int64(0)
		switch n := len(out); {
		case name == "reqs_total" && n > 0 && v < out[n-1].F():
			began = t - 7
			start = began
		case name == "reqs_total":
			start = began
		case name == "errs_total" && l.Get("job") == "db" && n > 0: // a delta
			start = out[n-1].T()
		}
		out = append(out, floatSample{start, t, v})
	}
	if name == "once" {
		add(r.Int64N(blocksLength), float64(r.IntN(5)))
		return out
	}
	v, up := 0.0, true
	for t := int64(0); t <= blocksLength; t += scrape {
		if r.IntN(40) == 0 {
			if up = !up; !up && r.IntN(2) == 0 {
				add(t, math.Float64frombits(value.StaleNaN))
			}
		}
		if !up {
			continue
		}
		for _, at := range []int64{t, t + 1 + r.Int64N(scrape-1)} {
			if at > t && r.IntN(6) > 0 {
				continue
			}
			switch {
			case name == "target_info":
				v = 1
			case name == "temp" && r.IntN(30) == 0:
				v = []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, math.MaxFloat64, math.Copysign(0, -1)}[r.IntN(6)]
			case name == "temp":
				v = r.NormFloat64() * math.Pow(10, float64(r.IntN(6)))
			case r.IntN(40) == 0:
				v = float64(r.IntN(3))
			default:
				v += float64(r.IntN(50)) * []float64{1, 0.1}[r.IntN(2)]
			}
			add(at, v)
		}
	}
	return out
}

// floatSample is a sample that is a float.
type floatSample struct {
	start, t int64
	v        float64
}

func (s floatSample) T() int64                      { return s.t }
func (s floatSample) ST() int64                     { return s.start }
func (s floatSample) F() float64                    { return s.v }
func (s floatSample) H() *histogram.Histogram       { return nil }
func (s floatSample) FH() *histogram.FloatHistogram { return nil }
func (s floatSample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s floatSample) Copy() chunks.Sample           { return s }

func (b *blocks) Querier(mint, maxt int64) (storage.Querier, error) {
	qs := make([]storage.Querier, len(b.chunks))
	for k := range qs {
		qs[k] = blockQuerier{b: b, k: k}
	}
	return blocksQuerier{storage.NewMergeQuerier(qs, nil, storage.ChainedSeriesMerge), b}, nil
}

// matching calls f for each series that the matchers match and that has chunks
// in block k.
func (b *blocks) matching(k int, ms []*labels.Matcher, f func(labels.Labels, []chunks.Meta)) {
series:
	for i, l := range b.series {
		for _, m := range ms {
			if !m.Matches(l.Get(m.Name)) {
				continue series
			}
		}
		if cs := b.chunks[k][i]; len(cs) > 0 {
			f(l, cs)
		}
	}
}

// blocksQuerier hands out samples as Prometheus merges them, and chunks.
type blocksQuerier struct {
	storage.Querier
	b *blocks
}

func (q blocksQuerier) SelectChunks(ctx context.Context, _ *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	r := rand.New(rand.NewPCG(q.b.seed, 2))
	together := r.IntN(2) == 0
	var all []storage.ChunkSeries
	var parts []*selection.Selection
	for k := range q.b.chunks {
		var list []storage.ChunkSeries
		q.b.matching(k, ms, func(l labels.Labels, cs []chunks.Meta) {
			cs = slices.Clone(cs)
			r.Shuffle(len(cs), func(i, j int) { cs[i], cs[j] = cs[j], cs[i] })
			list = append(list, &storage.ChunkSeriesEntry{Lset: l, ChunkIteratorFn: func(chunks.Iterator) chunks.Iterator {
				return storage.NewListChunkSeriesIterator(cs...)
			}})
		})
		if together {
			all = append(all, list...)
			continue
		}
		part, _, err := selection.FromChunkSeriesSet(ctx, &set[storage.ChunkSeries]{list: list}, 0)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, part)
	}
	if together {
		return selection.FromChunkSeriesSet(ctx, &set[storage.ChunkSeries]{list: all}, 0)
	}
	s, err := selection.Join(context.Background(), parts...)
	return s, nil, err
}

// blockQuerier reads one block.
type blockQuerier struct {
	storage.LabelQuerier
	b *blocks
	k int
}

func (q blockQuerier) Close() error { return nil }

func (q blockQuerier) Select(_ context.Context, _ bool, _ *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	var list []storage.Series
	q.b.matching(q.k, ms, func(l labels.Labels, cs []chunks.Meta) {
		list = append(list, &storage.SeriesEntry{Lset: l, SampleIteratorFn: func(chunkenc.Iterator) chunkenc.Iterator {
			its := make([]chunkenc.Iterator, len(cs))
			for i, c := range cs {
				its[i] = c.Chunk.Iterator(nil)
			}
			return storage.ChainSampleIteratorFromIterators(nil, its)
		}})
	})
	return &set[storage.Series]{list: list}
}

// set is a storage.SeriesSet or storage.ChunkSeriesSet.
type set[S any] struct {
	list []S
	i    int
}

func (s *set[S]) Next() bool                        { s.i++; return s.i <= len(s.list) }
func (s *set[S]) At() S                             { return s.list[s.i-1] }
func (s *set[S]) Err() error                        { return nil }
func (s *set[S]) Warnings() annotations.Annotations { return nil }
