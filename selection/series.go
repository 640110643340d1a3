package selection

import (
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/selection/samples"
)

// SeriesSet returns the selection's samples from mint to maxt (ms, both
// included) in the form Prometheus's engine reads.
func (s *Selection) SeriesSet(mint, maxt int64, ws annotations.Annotations) storage.SeriesSet {
	return &seriesSet{set{sel: s, i: -1, mint: mint, maxt: maxt, ws: ws}}
}

// Decode returns an iterator over the samples from mint to maxt (ms, both included) of
// chunks, which are some of series i in time order. What it decodes is checked: samples
// out of order, or outside of what their chunk says, are a CorruptError, and the
// selection is discarded. reuse is an iterator of an earlier call, or nil.
func (s *Selection) Decode(i int, chunks []Chunk, mint, maxt int64, reuse chunkenc.Iterator) chunkenc.Iterator {
	return s.of(i, chunks, mint, maxt).Iterator(reuse)
}

// of returns the samples from mint to maxt (ms, both included) of chunks of series i.
func (s *Selection) of(i int, chunks []Chunk, mint, maxt int64) *samples.Series {
	return &samples.Series{Lset: s.series[i], Slabs: s.slabs, Chunks: chunks, MinT: mint, MaxT: maxt, Discard: s.OnDiscard}
}

// set walks over the series that have a chunk in the time range.
type set struct {
	get        func() (*Selection, annotations.Annotations, error) // nil once sel is there
	sel        *Selection
	i          int
	chunks     []Chunk // of series i that are in range
	mint, maxt int64
	ws         annotations.Annotations
	err        error
}

func (s *set) Next() bool {
	if s.get != nil {
		s.sel, s.ws, s.err = s.get()
		s.get = nil
	}
	if s.err != nil {
		return false
	}
	for s.i++; s.i < s.sel.NumSeries(); s.i++ {
		if s.chunks = s.sel.Overlapping(s.i, s.mint, s.maxt); len(s.chunks) > 0 {
			return true
		}
	}
	return false
}

func (s *set) Err() error                        { return s.err }
func (s *set) Warnings() annotations.Annotations { return s.ws }

type seriesSet struct{ set }

func (s *seriesSet) At() storage.Series {
	return s.sel.of(s.i, s.chunks, s.mint, s.maxt)
}

type chunkSeriesSet struct{ set }

func (s *chunkSeriesSet) At() storage.ChunkSeries {
	sel, l, cs := s.sel, s.sel.series[s.i], s.chunks
	return &storage.ChunkSeriesEntry{Lset: l, ChunkIteratorFn: func(chunks.Iterator) chunks.Iterator {
		metas := make([]chunks.Meta, 0, len(cs))
		for _, c := range cs {
			b := sel.Bytes(c)
			chk, err := chunkenc.FromData(c.Enc, b[:len(b):len(b)])
			if err != nil {
				return errChunks{&CorruptError{Series: l, MinT: c.MinT, Err: err}}
			}
			metas = append(metas, chunks.Meta{Chunk: chk, MinTime: c.MinT, MaxTime: c.MaxT})
		}
		return storage.NewListChunkSeriesIterator(metas...)
	}}
}

type errChunks struct{ err error }

func (errChunks) Next() bool      { return false }
func (errChunks) At() chunks.Meta { return chunks.Meta{} }
func (e errChunks) Err() error    { return e.err }
