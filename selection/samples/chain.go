package samples

import (
	"errors"
	"math"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/yield"
	"github.com/promwarp/promwarp/selection/encoding"
)

// chain yields the samples of chunks of one series that overlap, in time order. Of samples
// at one time it yields the one that storage.ChainSampleIteratorFromIterators does: its
// heap makes the same moves. Where that calls three interface methods for each of them,
// this one compares two numbers, and a chunk is opened when its first sample is next, so
// that those that are open at once are those that overlap there. It ends with the
// context of the watch.
type chain struct {
	of    Series // of chunks that overlap
	watch *yield.Watch

	began   bool
	waiting []waiting // a heap; the earliest sample is first
	cur     *iterator // that of the present sample; nil at the end
	last    int64     // time of the present sample
	follows bool      // whether it comes after the one before in the same chunk
	spare   []*iterator
	err     error
}

// waiting is a chunk whose next sample waits for its turn.
type waiting struct {
	t  int64     // that sample's time
	k  int       // number of the chunk
	it *iterator // at that sample; nil for the first one of a chunk that is not open
}

func newChain(of Series, w *yield.Watch) *chain {
	return &chain{of: of, watch: w, last: math.MinInt64}
}

// Next implements chunkenc.Iterator.
func (c *chain) Next() chunkenc.ValueType {
	if c.err != nil || c.began && c.cur == nil {
		return chunkenc.ValNone
	}
	kind, changed := chunkenc.ValNone, false
	if !c.began {
		if changed = true; !c.begin() {
			return chunkenc.ValNone
		}
	}
	var t int64
	for {
		if c.err = c.watch.Err(); c.err != nil {
			return chunkenc.ValNone
		}
		if kind = c.cur.Next(); kind == chunkenc.ValNone {
			if c.err = c.cur.err; c.err != nil {
				return chunkenc.ValNone
			}
			c.spare = append(c.spare, c.cur)
			if len(c.waiting) == 0 {
				c.cur = nil
				return chunkenc.ValNone
			}
		} else {
			if t = c.cur.last; t == c.last {
				continue
			}
			if len(c.waiting) == 0 || t < c.waiting[0].t {
				break
			}
			c.push(waiting{t: t, it: c.cur})
		}
		top := c.pop()
		if top.it == nil && !c.open(&top) {
			return chunkenc.ValNone
		}
		c.cur, t, changed = top.it, top.it.last, true
		if kind = c.cur.kind; t != c.last {
			break
		}
	}
	c.follows, c.last = !changed, t
	return kind
}

// begin puts all chunks but the first into the heap.
func (c *chain) begin() bool {
	c.began = true
	c.waiting = make([]waiting, 0, len(c.of.Chunks))
	for k := 1; k < len(c.of.Chunks); k++ {
		if c.err = c.watch.Err(); c.err != nil {
			return false
		}
		x := waiting{k: k}
		var ok bool
		if x.t, ok = c.of.firstTime(k); !ok && !c.open(&x) {
			return false
		}
		c.push(x)
	}
	c.cur = c.iterator(0)
	return true
}

// iterator returns an iterator over chunk k.
func (c *chain) iterator(k int) *iterator {
	var reuse chunkenc.Iterator
	if n := len(c.spare); n > 0 {
		reuse, c.spare = c.spare[n-1], c.spare[:n-1]
	}
	one := c.of
	one.Chunks = one.Chunks[k : k+1]
	return one.Iterator(reuse).(*iterator)
}

var errNoSamples = errors.New("it has none of the samples that it counts")

// open reads the first sample of a chunk. It fails if there is none.
func (c *chain) open(x *waiting) bool {
	x.it = c.iterator(x.k)
	if x.it.Next() == chunkenc.ValNone {
		if c.err = x.it.err; c.err == nil {
			c.err = &CorruptError{Series: c.of.Lset, MinT: c.of.Chunks[x.k].MinT, Err: errNoSamples}
		}
		return false
	}
	x.t = x.it.last
	return true
}

// push does what heap.Push does.
func (c *chain) push(x waiting) {
	c.waiting = append(c.waiting, x)
	h := c.waiting
	j := len(h) - 1
	for j > 0 {
		i := (j - 1) / 2
		if x.t >= h[i].t {
			break
		}
		h[j] = h[i]
		j = i
	}
	h[j] = x
}

// pop does what heap.Pop does.
func (c *chain) pop() waiting {
	n := len(c.waiting) - 1
	top, x := c.waiting[0], c.waiting[n]
	c.waiting[n] = waiting{}
	c.waiting = c.waiting[:n]
	h := c.waiting
	i := 0
	for n > 0 {
		j := 2*i + 1
		if j >= n {
			break
		}
		if j+1 < n && h[j+1].t < h[j].t {
			j++
		}
		if h[j].t >= x.t {
			break
		}
		h[i] = h[j]
		i = j
	}
	if n > 0 {
		h[i] = x
	}
	return top
}

// firstTime reads the time of the first sample of chunk k, where the encoding has it in front.
func (s *Series) firstTime(k int) (int64, bool) {
	c := s.Chunks[k]
	return encoding.FirstTime(c.Enc, s.Slabs.Bytes(c))
}

// Seek implements chunkenc.Iterator.
func (c *chain) Seek(t int64) chunkenc.ValueType {
	if c.began && c.cur != nil && c.last >= t {
		return c.cur.kind
	}
	for v := c.Next(); v != chunkenc.ValNone; v = c.Next() {
		if c.last >= t {
			return v
		}
	}
	return chunkenc.ValNone
}

func (c *chain) At() (int64, float64) { return c.cur.At() }

// AtHistogram implements chunkenc.Iterator. Whether a histogram is a reset of the one before
// it is only known within a chunk.
func (c *chain) AtHistogram(h *histogram.Histogram) (int64, *histogram.Histogram) {
	t, h := c.cur.AtHistogram(h)
	if !c.follows && h.CounterResetHint != histogram.GaugeType {
		h.CounterResetHint = histogram.UnknownCounterReset
	}
	return t, h
}

// AtFloatHistogram is like AtHistogram.
func (c *chain) AtFloatHistogram(h *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	t, h := c.cur.AtFloatHistogram(h)
	if !c.follows && h.CounterResetHint != histogram.GaugeType {
		h.CounterResetHint = histogram.UnknownCounterReset
	}
	return t, h
}

func (c *chain) AtT() int64  { return c.last }
func (c *chain) AtST() int64 { return c.cur.AtST() }
func (c *chain) Err() error  { return c.err }
