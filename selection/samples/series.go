package samples

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection/slab"
)

// CorruptError says which series holds a chunk that cannot be decoded.
type CorruptError struct {
	Series labels.Labels
	MinT   int64 // start of the chunk, ms since the epoch
	Err    error
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("corrupt chunk in series %s starting at %d ms: %v; the data behind it must be repaired or deleted at its source", e.Series, e.MinT, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// Series are the samples from MinT to MaxT (ms, both included) of chunks of one series, which are
// in time order and do not overlap. It is a storage.Series.
type Series struct {
	Lset       labels.Labels
	Slabs      slab.Slabs // the slabs that Chunks lie in
	Chunks     []slab.Chunk
	MinT, MaxT int64
	Discard    func() // is called if a chunk is corrupt; may be nil
}

// whole returns all samples of chunks of series l, which lie in slabs.
func whole(l labels.Labels, slabs slab.Slabs, cs []slab.Chunk) Series {
	return Series{Lset: l, Slabs: slabs, Chunks: cs, MinT: math.MinInt64, MaxT: math.MaxInt64}
}

// Labels implements storage.Series.
func (s *Series) Labels() labels.Labels { return s.Lset }

// Iterator returns an iterator that checks what it decodes: samples out of order, or outside of
// what their chunk says, are a CorruptError. reuse is one of an earlier call, or nil.
func (s *Series) Iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	it, ok := reuse.(*iterator)
	if !ok {
		it = &iterator{}
	}
	it.of, it.next, it.kind, it.err, it.open = *s, 0, chunkenc.ValNone, nil, false
	return it
}

// iterator decodes the chunks of one series one after another with
// Prometheus's own decoders, and checks what they yield.
type iterator struct {
	chunkenc.Iterator // of the open chunk

	of    Series
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
			it.kind = it.Iterator.Next()
			if it.kind != chunkenc.ValNone {
				t := it.AtT()
				c := it.of.Chunks[it.next-1]
				if t <= it.last || t > c.MaxT {
					it.fail(fmt.Errorf("%w (sample at %d ms, chunk ends at %d ms)", errNotInOrder, t, c.MaxT))
					break
				}
				it.last = t
				if t > it.of.MaxT {
					it.next, it.open = len(it.of.Chunks), false
					break
				}
				if t >= it.of.MinT {
					return it.kind
				}
				continue
			}
			if err := it.Iterator.Err(); err != nil {
				it.fail(err)
				break
			}
			it.open = false
		}
		if it.next >= len(it.of.Chunks) {
			break
		}
		it.openNext()
	}
	it.kind = chunkenc.ValNone
	return chunkenc.ValNone
}

func (it *iterator) openNext() {
	c := it.of.Chunks[it.next]
	it.next++
	b := it.of.Slabs.Bytes(c)
	chk, err := chunkenc.FromData(c.Enc, b[:len(b):len(b)])
	if err != nil {
		it.next--
		it.failAt(c, err)
		return
	}
	it.Iterator = chk.Iterator(it.reuse[c.Enc])
	it.reuse[c.Enc] = it.Iterator
	it.last = c.MinT - 1
	it.open = true
}

func (it *iterator) fail(err error) { it.failAt(it.of.Chunks[it.next-1], err) }

func (it *iterator) failAt(c slab.Chunk, err error) {
	it.err = &CorruptError{Series: it.of.Lset, MinT: c.MinT, Err: err}
	it.open = false
	if it.of.Discard != nil {
		it.of.Discard()
	}
}

func (it *iterator) Seek(t int64) chunkenc.ValueType {
	if it.kind != chunkenc.ValNone && it.last >= t {
		return it.kind
	}
	// Skip whole chunks that end before t.
	rest := it.of.Chunks[it.next:]
	if !it.open || it.of.Chunks[it.next-1].MaxT < t {
		skip, _ := slices.BinarySearchFunc(rest, t, func(c slab.Chunk, t int64) int {
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

func (it *iterator) Err() error { return it.err }
