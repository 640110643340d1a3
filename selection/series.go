package selection

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// SeriesSet returns the selection's samples from mint to maxt (ms, both
// included) in the form Prometheus's engine reads.
func (s *Selection) SeriesSet(mint, maxt int64, ws annotations.Annotations) storage.SeriesSet {
	return &seriesSet{set{sel: s, i: -1, mint: mint, maxt: maxt, ws: ws}}
}

// ChunkSeriesSet returns the selection's chunks that overlap mint to maxt (ms,
// both included), still encoded and whole.
func (s *Selection) ChunkSeriesSet(mint, maxt int64, ws annotations.Annotations) storage.ChunkSeriesSet {
	return &chunkSeriesSet{set{sel: s, i: -1, mint: mint, maxt: maxt, ws: ws}}
}

// set walks over the series that have a chunk in the time range.
type set struct {
	sel        *Selection
	i          int
	chunks     []Chunk // of series i that are in range
	mint, maxt int64
	ws         annotations.Annotations
}

func (s *set) Next() bool {
	for s.i++; s.i < s.sel.NumSeries(); s.i++ {
		if s.chunks = s.sel.Overlapping(s.i, s.mint, s.maxt); len(s.chunks) > 0 {
			return true
		}
	}
	return false
}

func (s *set) Err() error                        { return nil }
func (s *set) Warnings() annotations.Annotations { return s.ws }

type seriesSet struct{ set }

func (s *seriesSet) At() storage.Series {
	return &series{sel: s.sel, labels: s.sel.series[s.i], chunks: s.chunks, mint: s.mint, maxt: s.maxt}
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

type series struct {
	sel        *Selection
	labels     labels.Labels
	chunks     []Chunk
	mint, maxt int64
}

func (s *series) Labels() labels.Labels { return s.labels }

func (s *series) Iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	it, ok := reuse.(*iterator)
	if !ok {
		it = &iterator{}
	}
	it.series, it.next, it.kind, it.err, it.open = *s, 0, chunkenc.ValNone, nil, false
	return it
}

// iterator decodes the chunks of one series one after another with
// Prometheus's own decoders, and checks what they yield.
type iterator struct {
	series
	cur   chunkenc.Iterator
	reuse [8]chunkenc.Iterator // by encoding
	next  int                  // chunk to open next
	open  bool
	last  int64
	kind  chunkenc.ValueType
	err   error
}

var errNotInOrder = errors.New("its samples are not in time order or not within its stated time range")

func (it *iterator) Next() chunkenc.ValueType {
	for it.err == nil {
		if it.open {
			it.kind = it.cur.Next()
			if it.kind != chunkenc.ValNone {
				t := it.cur.AtT()
				c := it.chunks[it.next-1]
				if t <= it.last || t > c.MaxT {
					it.fail(fmt.Errorf("%w (sample at %d ms, chunk ends at %d ms)", errNotInOrder, t, c.MaxT))
					break
				}
				it.last = t
				if t > it.maxt {
					it.next, it.open = len(it.chunks), false
					break
				}
				if t >= it.mint {
					return it.kind
				}
				continue
			}
			if err := it.cur.Err(); err != nil {
				it.fail(err)
				break
			}
			it.open = false
		}
		if it.next >= len(it.chunks) {
			break
		}
		it.openNext()
	}
	it.kind = chunkenc.ValNone
	return chunkenc.ValNone
}

func (it *iterator) openNext() {
	c := it.chunks[it.next]
	it.next++
	b := it.sel.Bytes(c)
	chk, err := chunkenc.FromData(c.Enc, b[:len(b):len(b)])
	if err != nil {
		it.next--
		it.failAt(c, err)
		return
	}
	it.cur = chk.Iterator(it.reuse[c.Enc])
	it.reuse[c.Enc] = it.cur
	it.last = c.MinT - 1
	it.open = true
}

func (it *iterator) fail(err error) { it.failAt(it.chunks[it.next-1], err) }

func (it *iterator) failAt(c Chunk, err error) {
	it.err = &CorruptError{Series: it.labels, MinT: c.MinT, Err: err}
	it.open = false
	it.sel.Discard()
}

func (it *iterator) Seek(t int64) chunkenc.ValueType {
	if it.kind != chunkenc.ValNone && it.last >= t {
		return it.kind
	}
	// Skip whole chunks that end before t.
	rest := it.chunks[it.next:]
	if !it.open || it.chunks[it.next-1].MaxT < t {
		skip, _ := slices.BinarySearchFunc(rest, t, func(c Chunk, t int64) int {
			if c.MaxT < t {
				return -1
			}
			return 1
		})
		it.next += skip
		it.open = false
	}
	for v := it.Next(); v != chunkenc.ValNone; v = it.Next() {
		if it.last >= t {
			return v
		}
	}
	return chunkenc.ValNone
}

func (it *iterator) At() (int64, float64) { return it.cur.At() }

func (it *iterator) AtHistogram(h *histogram.Histogram) (int64, *histogram.Histogram) {
	return it.cur.AtHistogram(h)
}

func (it *iterator) AtFloatHistogram(h *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	return it.cur.AtFloatHistogram(h)
}

func (it *iterator) AtT() int64  { return it.cur.AtT() }
func (it *iterator) AtST() int64 { return it.cur.AtST() }
func (it *iterator) Err() error  { return it.err }
