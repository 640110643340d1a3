package replicas

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/samples"
	"github.com/promwarp/promwarp/selection/slab"
)

// ChunkRange is where a Prometheus ends chunks at the latest: at its multiples. What is fetched from one
// of them to another has the server's chunks.
const ChunkRange = 2 * time.Hour

// Penalty merges parts, what each replica has of one selector from h.Start to h.End (ms, both included), as a
// Querier of Thanos does that Prometheus's engine gives the hints h:
//
//   - The chunks of a series are dealt out to as few lanes as there may be without an overlap in one.
//   - Of two lanes the one that has the earliest next sample is read. The other has to have a sample
//     more than twice the last distance later to be read: that is its penalty.
//   - The outcome is the first lane of two for the next one.
//
// What a counter's function reads has the resets of each lane taken out before, and a lane that is behind
// the other when it is read again is raised to it. All depends on where the servers end chunks, so those of
// parts must not be cut elsewhere. Start timestamps are lost, and that numbers of histograms are integers.
func Penalty(ctx context.Context, h storage.SelectHints, parts ...*selection.Selection) (*selection.Selection, error) {
	merged := make([]*selection.Selection, runtime.GOMAXPROCS(0))
	errs := make([]error, len(merged))
	parallel.For(len(merged), func(k int) {
		share := func(l labels.Labels) bool { return l.Hash()%uint64(len(merged)) == uint64(k) }
		var own []*selection.Selection
		for _, part := range parts {
			cut, err := part.Filter(share).Cut(ctx, h.Start, h.End) // as a Prometheus cuts the first and the last chunk
			if err != nil {
				errs[k] = err
				return
			}
			own = append(own, cut)
		}
		m := merger{counting: Counting(h.Func), windows: h.Range > 0}
		merged[k], errs[k] = selection.MergeBy(ctx, m.merge, own...)
	})
	if err := cmp.Or(cmp.Or(errs...), ctx.Err()); err != nil {
		return nil, err
	}
	return selection.Join(ctx, merged...)
}

// Counting reports whether Thanos reads a counter for a function, which storage.SelectHints.Func names.
func Counting(function string) bool {
	return slices.Contains([]string{"increase", "rate", "irate", "resets"}, function)
}

// merger merges the chunks of one series after another.
type merger struct {
	counting bool
	windows  bool // whether the series are read by windows, which have no stale markers

	lanes  [][]sample // memory
	chosen []sample   // of all lanes
	times  []int64    // of floats to write
	values []float64
}

// merge is a selection.Rule.
func (m *merger) merge(w *samples.Writer, l labels.Labels, slabs slab.Slabs, cs []slab.Chunk, _ []int) ([]slab.Chunk, error) {
	dealt := deal(slabs, slices.Clone(cs))
	if len(dealt) == 1 && !m.counting {
		return dealt[0], nil
	}
	var merged source
	for k, cs := range dealt {
		if k == len(m.lanes) {
			m.lanes = append(m.lanes, nil)
		}
		all, err := m.read(m.lanes[k][:0], samples.Series{Lset: l, Slabs: slabs, MinT: math.MinInt64, MaxT: math.MaxInt64}, cs)
		if err != nil {
			return nil, err
		}
		m.lanes[k] = all
		one := source(&lane{samples: all, counting: m.counting})
		if merged == nil {
			merged = one
		} else {
			merged = newPair(merged, one)
		}
	}
	m.chosen = m.chosen[:0]
	for s := merged.seek(earliest); s != nil; s = merged.seek(s.t + 1) {
		if s.isFloat() || !m.windows || !value.IsStaleNaN(s.histogram.Sum) {
			m.chosen = append(m.chosen, *s)
		}
	}
	w.Labels, w.Chunks = l, nil
	err := m.write(w)
	return w.Chunks, err
}

// deal deals chunks out to lanes, each to the first whose last chunk ends before it. Equal chunks are
// dealt out once. The order is Thanos's: by start, end, encoding, and bytes downward.
func deal(slabs slab.Slabs, cs []slab.Chunk) (lanes [][]slab.Chunk) {
	compare := func(a, b slab.Chunk) int {
		return cmp.Or(cmp.Compare(a.MinT, b.MinT), cmp.Compare(a.MaxT, b.MaxT), cmp.Compare(a.Enc, b.Enc), bytes.Compare(slabs.Bytes(b), slabs.Bytes(a)))
	}
	slices.SortFunc(cs, compare)
	for _, c := range slices.CompactFunc(cs, func(a, b slab.Chunk) bool { return compare(a, b) == 0 }) {
		k := slices.IndexFunc(lanes, func(lane []slab.Chunk) bool { return lane[len(lane)-1].MaxT < c.MinT })
		if k < 0 {
			k, lanes = len(lanes), append(lanes, nil)
		}
		lanes[k] = append(lanes[k], c)
	}
	return lanes
}

// read appends the samples of a lane's chunks. Of counters the resets are taken out, and what is no number.
func (m *merger) read(all []sample, series samples.Series, lane []slab.Chunk) ([]sample, error) {
	var it chunkenc.Iterator
	var total, last float64
	began := false
	for k := range lane {
		c := &lane[k]
		series.Chunks = lane[k : k+1]
		it = series.Iterator(it)
		all = slices.Grow(all, int(c.Samples))
		first := true
		for kind := it.Next(); kind != chunkenc.ValNone; kind = it.Next() {
			s := sample{t: it.AtT(), of: c, first: first}
			first = false
			if kind == chunkenc.ValFloat {
				_, s.value = it.At()
			} else {
				_, s.histogram = it.AtFloatHistogram(nil)
				s.gauge = s.histogram.CounterResetHint == histogram.GaugeType
				s.histogram.CounterResetHint = histogram.GaugeType
			}
			if v := s.value; m.counting && s.isFloat() {
				switch {
				case math.IsNaN(v):
					continue
				case began && v >= last:
					total += v - last
				case began:
					total += v
				default:
					total = v
				}
				s.value, last, began = total, v, true
			}
			all = append(all, s)
		}
		if err := it.Err(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

const (
	// fewSamples is from how many samples on a stretch ends where it may.
	fewSamples = 100
	// headerOfResets is the byte of a chunk of histograms that says whether they are gauges.
	headerOfResets = 2
)

// write writes the samples that are chosen of a series. All histograms but the first one of a chunk are said
// to follow no reset. A Querier believes it also of one whose predecessor is of another lane. So such a one is
// written into its predecessor's chunk, as gauges are, which may fall; one that was first begins a chunk.
// Behind a stale marker, and where buckets are not alike, there must be another chunk.
func (m *merger) write(w *samples.Writer) error {
	var histograms []chunks.Sample
	for i := range m.chosen {
		s := &m.chosen[i]
		if s.isFloat() {
			m.times, m.values = append(m.times, s.t), append(m.values, s.value)
		} else {
			histograms = append(histograms, s)
		}
		if i < len(m.chosen)-1 {
			n := &m.chosen[i+1]
			joins := !n.first && n.gauge == s.gauge && (n.of != s.of || len(histograms) < fewSamples)
			if n.isFloat() == s.isFloat() && (s.isFloat() || joins) {
				continue
			}
		}
		if err := w.Floats(m.times, m.values); err != nil {
			return err
		}
		m.times, m.values = m.times[:0], m.values[:0]
		encoder := storage.NewSeriesToChunkEncoder(storage.NewListSeries(w.Labels, histograms)).Iterator(nil)
		for encoder.Next() {
			c := encoder.At()
			if !s.gauge {
				c.Chunk.Bytes()[headerOfResets] &^= chunkenc.CounterResetHeaderMask
			}
			if err := w.Chunk(c.Chunk.Encoding(), c.MinTime, c.MaxTime, c.Chunk.Bytes()); err != nil {
				return err
			}
		}
		if err := encoder.Err(); err != nil {
			return err
		}
		histograms = histograms[:0]
	}
	return nil
}
