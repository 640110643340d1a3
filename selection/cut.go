package selection

import (
	"context"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection/encoding"
	"github.com/promwarp/promwarp/selection/samples"
)

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
	cut := samples.NewWriter(ctx, len(s.slabs), 0)
	for i, l := range s.series {
		start := len(out.chunks)
		cut.Series(l)
		if err := cut.Watch.Err(); err != nil {
			return nil, err
		}
		for _, c := range s.Overlapping(i, mint, maxt) {
			if c.MinT < mint || c.MaxT > maxt {
				if err := cut.Watch.Err(); err != nil {
					return nil, err
				}
				cut.Chunks = nil
				if err := s.cutChunk(cut, i, c, mint, maxt); err != nil {
					return nil, err
				}
				out.chunks = append(out.chunks, cut.Chunks...)
				continue
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
	out.slabs = append(out.slabs, cut.Slabs()...)
	out.dropSlabs()
	return out.finish(), nil
}

// cutChunk adds what chunk c of series i has from mint to maxt to what is written.
func (s *Selection) cutChunk(to *samples.Writer, i int, c Chunk, mint, maxt int64) error {
	if c.Enc == chunkenc.EncXOR {
		if data, first, last, ok := encoding.CutXOR(c, s.Bytes(c), mint, maxt); ok {
			if len(data) == 0 {
				return nil
			}
			return to.Chunk(c.Enc, first, last, data)
		}
	}
	return to.OneChunk(c.Enc, s.Decode(i, []Chunk{c}, mint, maxt, nil))
}
