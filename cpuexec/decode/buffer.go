// Package decode turns chunks into samples.
//
// Chunks of a series, in the encodings XOR and XOR2, go into a Buffer; times in ms, values and,
// where they are wanted, start timestamps (Starts) come out. Chunks are checked: what does not
// decode, or lies outside the chunk's stated time range, is a *selection.CorruptError, whatever
// the bytes are, and nothing behind a chunk's bytes and their padding is read. The samples are
// those of Prometheus's iterators.
//
// Start with Buffer.Read; the formats are in decodeXOR and decodeXOR2, and what decodes
// several chunks at once in decodeAtOnce.
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

	Starts     Starts // start timestamps, if they are wanted
	WantStarts bool
}

// Reset empties the buffer.
func (c *Buffer) Reset() {
	c.Times, c.Values, c.Stale, c.Starts = c.Times[:0], c.Values[:0], false, c.Starts[:0]
}

// Read decodes chunks of series i of s, in time order, behind the samples that
// are there. With dropStale, stale markers are left out. It reports the number
// of chunks, samples and bytes it decoded.
func (c *Buffer) Read(s *selection.Selection, i int, cs []selection.Chunk, dropStale bool) (r Stats, err error) {
	for k := range cs {
		r.Samples += int64(cs[k].Samples)
		r.Bytes += int64(cs[k].Len)
	}
	r.Chunks = len(cs)
	off, n := len(c.Times), len(c.Times)+int(r.Samples)
	if min(cap(c.Times), cap(c.Values)) < n {
		c.Times, c.Values = slices.Grow(c.Times, n+n/4-off), slices.Grow(c.Values, n+n/4-off)
	}
	c.Times, c.Values = c.Times[:n], c.Values[:n]
	var starts *Starts
	if c.WantStarts {
		starts = &c.Starts
	}
	last := int64(math.MinInt64)
	for len(cs) > 0 {
		k, from := c.several(cs), off
		var found [mostAtOnce]outcome
		if k > 1 {
			found = decodeAtOnce(s, cs[:k], c.Times[off:], c.Values[off:])
		} else {
			end := off + int(cs[0].Samples)
			found[0].stale, found[0].err = decode(cs[0].Enc, s.Bytes(cs[0]), c.Times[off:end:end], c.Values[off:end:end], starts, off)
		}
		for j, ch := range cs[:k] {
			n := int(ch.Samples)
			ts, vs := c.Times[from:from+n], c.Values[from:from+n]
			from += n
			err := found[j].err
			if err == nil && (ts[0] <= last || ts[0] < ch.MinT || ts[n-1] > ch.MaxT) {
				err = fmt.Errorf("its samples lie outside its stated time range of %d to %d ms", ch.MinT, ch.MaxT)
			}
			if err != nil {
				return r, &selection.CorruptError{Series: s.Labels(i), MinT: ch.MinT, Err: err}
			}
			last = ts[n-1]
			if off+n < from { // stale markers before it were left out
				copy(c.Times[off:], ts)
				copy(c.Values[off:], vs)
				ts, vs = c.Times[off:off+n], c.Values[off:off+n]
			}
			off += n
			switch stale := found[j].stale; {
			case stale && dropStale:
				if len(c.Starts) > 0 {
					c.Starts.DropStale(off-n, vs)
				}
				off -= RemoveStale(ts, vs)
			case stale:
				c.Stale = true
			}
		}
		cs = cs[k:]
	}
	c.Times, c.Values = c.Times[:off], c.Values[:off]
	return r, nil
}

// Stats count what was decoded, and the samples that were decoded before and retained.
type Stats struct {
	Chunks                   int
	Samples, Bytes, Retained int64
}

func (r *Stats) Add(s Stats) {
	r.Chunks += s.Chunks
	r.Samples += s.Samples
	r.Bytes += s.Bytes
	r.Retained += s.Retained
}

// decode decodes the first len(ts) samples of a chunk of floats in encoding e. See
// decodeXOR2.
func decode(e chunkenc.Encoding, b []byte, ts []int64, vs []float64, starts *Starts, first int) (stale bool, err error) {
	switch e {
	case chunkenc.EncXOR:
		if starts != nil {
			starts.Add(first, 0)
		}
		return decodeXOR(b, ts, vs)
	case chunkenc.EncXOR2:
		return decodeXOR2(b, ts, vs, starts, first)
	default:
		return false, fmt.Errorf("its encoding is %s, which holds no floats", e)
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
