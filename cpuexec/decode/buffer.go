// Package decode turns chunks into samples.
//
// Chunks of a series, in the encodings XOR and XOR2, go into a Buffer; times in ms,
// values and, where they are wanted, start timestamps (Starts) come out. Chunks are checked: what
// does not decode, or lies outside the chunk's stated time range, is a *selection.CorruptError,
// whatever the bytes are, and nothing behind a chunk's bytes and their padding is read. The samples
// are those of Prometheus's iterators.
//
// Start with Buffer.Read; the formats are in decodeXOR and decodeXOR2, and what decodes
// several chunks at once in Buffer.decodePlaced.
package decode

import (
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
)

// Buffer holds the decoded samples of one series: times in ms and values. It is scratch
// memory, to be used again for the next series.
type Buffer struct {
	Times  []int64
	Values []float64
	Stale  bool // there are stale markers among them
	Marked bool // chunks had stale markers, whether these were left out or not

	Starts     Starts // start timestamps, if they are wanted
	WantStarts bool

	placed []placed // of the series that is read
	lanes  []int    // of these, the chunks that are decoded at once
}

// Reset empties the buffer.
func (c *Buffer) Reset() {
	c.Times, c.Values, c.Stale, c.Starts = c.Times[:0], c.Values[:0], false, c.Starts[:0]
	c.Marked = false
}

// Read decodes chunks of series i of s, in time order, behind the samples that
// are there. With dropStale, stale markers are left out. It adds the number
// of chunks, samples and bytes it decoded to r.
func (c *Buffer) Read(s *selection.Selection, i int, cs []selection.Chunk, dropStale bool, r *Stats) (err error) {
	off, n := len(c.Times), len(c.Times)
	for k := range cs {
		n += int(cs[k].Samples)
		r.Bytes += int64(cs[k].Len)
	}
	r.Chunks += len(cs)
	r.Samples += int64(n - off)
	if min(cap(c.Times), cap(c.Values)) < n { // slices.Grow would clear, and so touch, all of the memory
		c.Times, c.Values = append(make([]int64, 0, n+n/4), c.Times...), append(make([]float64, 0, n+n/4), c.Values...)
	}
	c.Times, c.Values = c.Times[:n], c.Values[:n]
	c.placed = slices.Grow(c.placed[:0], len(cs))[:len(cs)]
	for k, at := 0, off; k < len(cs); k++ {
		p := &c.placed[k]
		p.Chunk, p.at, p.stale, p.err = cs[k], at, false, nil
		at += int(p.Samples)
	}
	if !c.WantStarts {
		c.decodePlaced(s)
	}
	last := int64(math.MinInt64)
	for k := range c.placed {
		p := &c.placed[k]
		if c.WantStarts { // which are counted from samples without the markers before them
			p.at = off
			c.decodeOne(s, p, &c.Starts)
		}
		if off, err = c.put(p, off, last, dropStale); err != nil {
			return &selection.CorruptError{Series: s.Labels(i), MinT: p.MinT, Err: err}
		}
		last = p.last
	}
	c.Times, c.Values = c.Times[:off], c.Values[:off]
	return nil
}

// put checks a decoded chunk, whose samples are to begin at off and be behind last, and moves
// them there. It returns where the samples end.
func (c *Buffer) put(of *placed, off int, last int64, dropStale bool) (int, error) {
	if of.err != nil {
		return off, of.err
	}
	ts, vs := of.samples(c)
	n := len(ts)
	if ts[0] <= last || ts[0] < of.MinT || ts[n-1] > of.MaxT {
		return off, fmt.Errorf("its samples lie outside its stated time range of %d to %d ms", of.MinT, of.MaxT)
	}
	of.last = ts[n-1]
	if off < of.at { // stale markers before it were left out
		copy(c.Times[off:], ts)
		copy(c.Values[off:], vs)
		ts, vs = c.Times[off:off+n], c.Values[off:off+n]
	}
	off += n
	c.Marked = c.Marked || of.stale
	switch {
	case of.stale && dropStale:
		if len(c.Starts) > 0 {
			c.Starts.DropStale(off-n, vs)
		}
		off -= RemoveStale(ts, vs)
	case of.stale:
		c.Stale = true
	}
	return off, nil
}

// Stats count what was decoded, and the samples that were decoded before and retained.
type Stats struct {
	Chunks                   int
	Samples, Bytes, Retained int64
	Digested                 int // chunks of which no sample was needed
}

func (r *Stats) Add(s Stats) {
	r.Chunks += s.Chunks
	r.Samples += s.Samples
	r.Bytes += s.Bytes
	r.Retained += s.Retained
	r.Digested += s.Digested
}

// decodeOne decodes a chunk by itself. It adds the start timestamps to starts, or passes over them
// if that is nil.
func (c *Buffer) decodeOne(s *selection.Selection, p *placed, starts *Starts) {
	ts, vs := p.samples(c)
	switch p.Enc {
	case chunkenc.EncXOR:
		if starts != nil {
			starts.Add(p.at, 0)
		}
		p.stale, p.err = decodeXOR(s.Bytes(p.Chunk), ts, vs)
	case chunkenc.EncXOR2:
		p.stale, p.err = decodeXOR2(s.Bytes(p.Chunk), ts, vs, starts, p.at)
	default:
		p.err = fmt.Errorf("its encoding is %s, which holds no floats", p.Enc)
	}
}

// RemoveStale moves the samples that are no stale markers to the front and
// returns the number of markers.
func RemoveStale(ts []int64, vs []float64) int {
	n := 0
	for k, v := range vs {
		ts[n], vs[n] = ts[k], v
		if !value.IsStaleNaN(v) {
			n++
		}
	}
	return len(vs) - n
}
