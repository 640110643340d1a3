package cpuexec

import (
	"fmt"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
)

// columns are the decoded samples of one series: times in ms and values. They
// are scratch memory that a worker uses again for the next series.
type columns struct {
	ts    []int64
	vs    []float64
	stale bool // there are stale markers among them

	starts     startRuns // start timestamps, if they are wanted
	wantStarts bool
}

// reset empties the columns.
func (c *columns) reset() { c.ts, c.vs, c.stale, c.starts = c.ts[:0], c.vs[:0], false, c.starts[:0] }

// read decodes chunks of series i of s, in time order, behind the samples that
// are there. With dropStale, stale markers are left out. It reports the number
// of chunks, samples and bytes it decoded.
func (c *columns) read(s *selection.Selection, i int, cs []selection.Chunk, dropStale bool) (r readStats, err error) {
	for k := range cs {
		r.samples += int64(cs[k].Samples)
		r.bytes += int64(cs[k].Len)
	}
	r.chunks = len(cs)
	off, n := len(c.ts), len(c.ts)+int(r.samples)
	if cap(c.ts) < n {
		c.ts, c.vs = slices.Grow(c.ts, n+n/4-off), slices.Grow(c.vs, n+n/4-off)
	}
	c.ts, c.vs = c.ts[:n], c.vs[:n]
	var starts *startRuns
	if c.wantStarts {
		starts = &c.starts
	}
	last := int64(math.MinInt64)
	for _, ch := range cs {
		end := off + int(ch.Samples)
		ts, vs := c.ts[off:end:end], c.vs[off:end:end]
		stale, err := decode(ch.Enc, s.Bytes(ch), ts, vs, starts, off)
		if err == nil && (ts[0] <= last || ts[0] < ch.MinT || ts[len(ts)-1] > ch.MaxT) {
			err = fmt.Errorf("its samples lie outside its stated time range of %d to %d ms", ch.MinT, ch.MaxT)
		}
		if err != nil {
			return r, &selection.CorruptError{Series: s.Labels(i), MinT: ch.MinT, Err: err}
		}
		last = ts[len(ts)-1]
		switch off = end; {
		case stale && dropStale:
			if len(c.starts) > 0 {
				c.starts.dropStale(end-len(vs), vs)
			}
			off -= removeStale(ts, vs)
		case stale:
			c.stale = true
		}
	}
	c.ts, c.vs = c.ts[:off], c.vs[:off]
	return r, nil
}

// readStats count what was decoded, and the samples that were there already.
type readStats struct {
	chunks              int
	samples, bytes, hot int64
}

func (r *readStats) add(s readStats) {
	r.chunks += s.chunks
	r.samples += s.samples
	r.bytes += s.bytes
	r.hot += s.hot
}

// decode decodes the first len(ts) samples of a chunk of floats in encoding e. See
// decodeXOR2.
func decode(e chunkenc.Encoding, b []byte, ts []int64, vs []float64, starts *startRuns, first int) (stale bool, err error) {
	switch e {
	case chunkenc.EncXOR:
		if starts != nil {
			starts.add(first, 0)
		}
		return decodeXOR(b, ts, vs)
	case chunkenc.EncXOR2:
		return decodeXOR2(b, ts, vs, starts, first)
	default:
		return false, fmt.Errorf("its encoding is %s, which holds no floats", e)
	}
}

// removeStale moves the samples that are no stale markers to the front and
// returns the number of markers.
func removeStale(ts []int64, vs []float64) int {
	n := 0
	for k, v := range vs {
		ts[n], vs[n] = ts[k], v
		if !value.IsStaleNaN(v) {
			n++
		}
	}
	return len(vs) - n
}
