package decode

import (
	"math"
	"unsafe"

	"github.com/prometheus/prometheus/model/value"
	"golang.org/x/sys/cpu"

	"github.com/promwarp/promwarp/selection"
)

// hasEight says whether decodeEight can be called.
var hasEight = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512CD

// staleNaN is decodeEight's, too.
const staleNaN = value.StaleNaN

// eight is what decodeEight works on: a lane a chunk.
type eight struct {
	chunk       [lanes]*byte
	pos, end    [lanes]uint64 // bits of the chunk: one before the next value, and where the stream ends
	time, delta [lanes]int64  // of the sample before, and how far from it the next one is, ms
	value       [lanes]uint64 // of the sample before
	wanted      [lanes]uint64 // samples to decode
	times       [lanes]*int64 // where they go
	values      [lanes]*float64
	far         [lanes]uint64 // see farApart; bit 63 is also set if a distance is not above 0
	// The last eight rows, times before values, and which of them are wanted: a bit a row.
	//lint:ignore U1000 decodeEight alone uses it
	rows [2*lanes + 1][lanes]uint64
	//lint:ignore U1000 decodeEight alone uses it
	stored [lanes]uint64

	most  int   // of wanted, above 0; of two, the first has that of both
	stale uint8 // lanes with a stale marker so far
	_     [48]byte
}

// The rows of two lie alike beside multiples of 64 bytes.
var _ [0]struct{} = [unsafe.Sizeof(eight{}) % 64]struct{}{}

// decodeEight decodes samples of eight chunks at once. Lanes whose pos is behind their end
// afterwards, or whose far has one of the bits from 46 on, are not decoded rightly.
//
//go:noescape
func decodeEight(e *eight)

// decodeSixteen does so for sixteen.
//
//go:noescape
func decodeSixteen(e *[2]eight)

// Prefetch has memory bring n bytes, above 0, into the core's first cache while it does something else.
//
//go:noescape
func Prefetch(b *byte, n int)

// prefetchAll has memory bring the bytes of chunks while others are decoded: a core foresees only a
// few of the streams that begin at once.
func prefetchAll(s *selection.Selection, ps []placed) {
	if !hasEight {
		return
	}
	for i := range ps {
		if b := s.Bytes(ps[i].Chunk); len(b) > 0 {
			Prefetch(&b[0], len(b))
		}
	}
}

// decodeLanes decodes the chunks of c.lanes, at most AtOnce. It returns which of them are
// decoded, a bit a chunk. What is rare or wrong in a chunk is not decoded.
func (c *Buffer) decodeLanes(s *selection.Selection) (done uint16) {
	if !hasEight {
		return 0
	}
	var e [2]eight
	for i := range AtOnce { // addresses that exist, though nothing may be stored there
		e[i/lanes].times[i%lanes], e[i/lanes].values[i%lanes] = &c.Times[0], &c.Values[0]
	}
	for k, i := range c.lanes {
		p := &c.placed[i]
		ts, vs := p.samples(c)
		e[k/lanes].begin(k%lanes, s.Bytes(p.Chunk), ts, vs)
	}
	switch {
	case e[1].most > 0:
		e[0].most = max(e[0].most, e[1].most)
		decodeSixteen(&e)
	case e[0].most > 0:
		decodeEight(&e[0])
	}
	for k, i := range c.lanes {
		of, lane := &e[k/lanes], k%lanes
		if of.wanted[lane] > 0 && of.pos[lane] <= of.end[lane] && of.far[lane]>>46 == 0 {
			done |= 1 << k
			c.placed[i].stale = of.stale>>lane&1 != 0
		}
	}
	return done
}

// begin decodes the first sample of a chunk, and the distance of the second, unless they are
// wrong or there is no second one.
func (e *eight) begin(lane int, b []byte, ts []int64, vs []float64) {
	if len(ts) < 2 {
		return
	}
	t, v, at, err := firstSample(b, 2)
	if err != nil {
		return
	}
	delta, at, err := firstDistance(b, at)
	if err != nil {
		return
	}
	ts[0], vs[0] = t, math.Float64frombits(v)
	if v == staleNaN {
		e.stale |= 1 << lane
	}
	e.chunk[lane], e.pos[lane], e.end[lane] = &b[0], uint64(at)*8-1, uint64(len(b))*8
	e.time[lane], e.delta[lane], e.value[lane], e.far[lane] = t, delta, v, farApart(t, delta)
	e.times[lane], e.values[lane], e.wanted[lane] = &ts[1], &vs[1], uint64(len(ts)-1)
	e.most = max(e.most, len(ts)-1)
}
