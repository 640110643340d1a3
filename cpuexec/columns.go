package cpuexec

import (
	"fmt"
	"math"
	"sort"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
)

// columns are the decoded samples of one series: times in ms and values. They
// are scratch memory that a worker uses again for the next series.
type columns struct {
	ts    []int64
	vs    []float64
	iters [8]chunkenc.Iterator // by encoding, for those without a decoder here
}

// read decodes the chunks of series i of s that overlap mint to maxt (ms, both
// included). With dropStale, stale markers are left out. It reports the number
// of chunks, samples and bytes it decoded.
func (c *columns) read(s *selection.Selection, i int, mint, maxt int64, dropStale bool) (r readStats, err error) {
	cs := s.Chunks(i)
	lo := sort.Search(len(cs), func(k int) bool { return cs[k].MaxT >= mint })
	hi := lo
	n := 0
	for hi < len(cs) && cs[hi].MinT <= maxt {
		n += int(cs[hi].Samples)
		r.bytes += int64(cs[hi].Len)
		hi++
	}
	r.chunks, r.samples = hi-lo, int64(n)
	if cap(c.ts) < n {
		c.ts, c.vs = make([]int64, n+n/4), make([]float64, n+n/4)
	}
	c.ts, c.vs = c.ts[:n], c.vs[:n]
	off, last := 0, int64(math.MinInt64)
	for _, ch := range cs[lo:hi] {
		end := off + int(ch.Samples)
		ts, vs := c.ts[off:end:end], c.vs[off:end:end]
		var stale bool
		if ch.Enc == chunkenc.EncXOR {
			stale, err = decodeXOR(s.Bytes(ch), ts, vs)
		} else {
			stale, err = c.iterate(s, ch, ts, vs)
		}
		if err == nil && (ts[0] <= last || ts[0] < ch.MinT || ts[len(ts)-1] > ch.MaxT) {
			err = fmt.Errorf("its samples lie outside its stated time range of %d to %d ms", ch.MinT, ch.MaxT)
		}
		if err != nil {
			return r, &selection.CorruptError{Series: s.Labels(i), MinT: ch.MinT, Err: err}
		}
		last = ts[len(ts)-1]
		off = end
		if stale && dropStale {
			off -= removeStale(ts, vs)
		}
	}
	c.ts, c.vs = c.ts[:off], c.vs[:off]
	return r, nil
}

type readStats struct {
	chunks         int
	samples, bytes int64
}

// iterate decodes a chunk with Prometheus's own iterator.
func (c *columns) iterate(s *selection.Selection, ch selection.Chunk, ts []int64, vs []float64) (stale bool, err error) {
	b := s.Bytes(ch)
	chk, err := chunkenc.FromData(ch.Enc, b[:len(b):len(b)])
	if err != nil {
		return false, err
	}
	it := chk.Iterator(c.iters[ch.Enc])
	c.iters[ch.Enc] = it
	for k := range ts {
		if it.Next() != chunkenc.ValFloat {
			if err := it.Err(); err != nil {
				return false, err
			}
			return false, errTruncated
		}
		ts[k], vs[k] = it.At()
		if k > 0 && ts[k] <= ts[k-1] {
			return false, errBackwards
		}
		stale = stale || value.IsStaleNaN(vs[k])
	}
	return stale, nil
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
