package selection

import (
	"context"
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// CutAfter returns s without the samples after maxt (ms); see Cut.
func (s *Selection) CutAfter(maxt int64) (*Selection, error) {
	return s.Cut(context.Background(), math.MinInt64, maxt)
}

// Cut returns the samples of s from mint to maxt (ms, both included). Chunks
// within that range share their slabs with s; those that reach beyond are
// encoded again, in the same encoding. The result is a Selection of its own and
// calls what s calls on Discard. It fails with ctx's error soon after ctx has ended.
func (s *Selection) Cut(ctx context.Context, mint, maxt int64) (*Selection, error) {
	whole := true
	for i := 0; i < s.NumSeries() && whole; i++ {
		first, last := s.ends(i)
		whole = first.MinT >= mint && last.MaxT <= maxt
	}
	if whole {
		out := *s
		return &out, nil
	}

	out := &Selection{slabs: s.slabs[:len(s.slabs):len(s.slabs)], discard: s.discard, kept: s.kept}
	cut := NewBuilder(0).Within(ctx)
	for i, l := range s.series {
		start := len(out.chunks)
		if err := cut.watch.err(); err != nil {
			return nil, err
		}
		for _, c := range s.Overlapping(i, mint, maxt) {
			if c.MinT < mint || c.MaxT > maxt {
				if err := cut.watch.err(); err != nil {
					return nil, err
				}
				part, first, last, err := encodeAs(c.Enc, s.checked(l, c, mint, maxt))
				if err != nil {
					return nil, err
				}
				if part.NumSamples() == 0 {
					continue
				}
				cut.Series(l)
				if err := cut.Chunk(c.Enc, first, last, part.Bytes()); err != nil {
					return nil, err
				}
				c = cut.sel.chunks[len(cut.sel.chunks)-1]
				c.Slab += uint32(len(s.slabs))
			}
			out.chunks = append(out.chunks, c)
		}
		if len(out.chunks) > start {
			out.series = append(out.series, l)
			out.keepMemo(s.Memo(i))
			out.first = append(out.first, uint32(start))
		}
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	out.slabs = append(out.slabs, cut.sel.slabs...)
	out.dropSlabs()
	return out.finish(), nil
}

// encodeAs returns one chunk of all samples of it, which come from a chunk in
// encoding e, in that encoding, and the times of the first and last of them (ms).
func encodeAs(e chunkenc.Encoding, it chunkenc.Iterator) (c chunkenc.Chunk, first, last int64, err error) {
	if c, err = chunkenc.NewEmptyChunk(e); err != nil {
		return nil, 0, 0, err
	}
	app, err := c.Appender()
	if err != nil {
		return nil, 0, 0, err
	}
	gauge := false // whether the chunk is one of gauges, which a stale marker does not say
	for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
		st := it.AtST()
		if c.NumSamples() == 0 {
			first = it.AtT()
		}
		switch v {
		case chunkenc.ValFloat:
			var f float64
			last, f = it.At()
			app.Append(st, last, f)
		case chunkenc.ValHistogram:
			t, h := it.AtHistogram(nil)
			last = t
			if gauge = gauge || h.CounterResetHint == histogram.GaugeType; gauge {
				h.CounterResetHint = histogram.GaugeType
			}
			_, _, app, err = app.AppendHistogram(nil, st, t, h, true)
		default:
			t, h := it.AtFloatHistogram(nil)
			last = t
			if gauge = gauge || h.CounterResetHint == histogram.GaugeType; gauge {
				h.CounterResetHint = histogram.GaugeType
			}
			_, _, app, err = app.AppendFloatHistogram(nil, st, t, h, true)
		}
		if err != nil {
			return nil, 0, 0, err
		}
	}
	return c, first, last, it.Err()
}
