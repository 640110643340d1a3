package decode

import (
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

// decodeLanes decodes XOR chunks of s, at most mostAtOnce, one behind the other into ts and vs. It
// returns which of them are decoded, a bit a chunk, and which of these have stale markers. What is
// rare or wrong in a chunk is not decoded.
func decodeLanes(s *selection.Selection, cs []selection.Chunk, ts []int64, vs []float64) (done, stale uint16) {
	if !hasEight {
		return 0, 0
	}
	var e [2]eight
	for i := range mostAtOnce { // addresses that exist, though nothing may be stored there
		e[i/lanes].times[i%lanes], e[i/lanes].values[i%lanes] = &ts[0], &vs[0]
	}
	at := 0
	for i, ch := range cs {
		n := int(ch.Samples)
		e[i/lanes].begin(i%lanes, s.Bytes(ch), ts[at:at+n], vs[at:at+n])
		at += n
	}
	switch {
	case e[1].most > 0:
		e[0].most = max(e[0].most, e[1].most)
		decodeSixteen(&e)
	case e[0].most > 0:
		decodeEight(&e[0])
	}
	for i := range cs {
		if of, lane := &e[i/lanes], i%lanes; of.wanted[lane] > 0 && of.pos[lane] <= of.end[lane] && of.far[lane]>>46 == 0 {
			done |= 1 << i
		}
	}
	return done, uint16(e[0].stale) | uint16(e[1].stale)<<lanes
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
	ts[0], vs[0] = t, float(v)
	if v == staleNaN {
		e.stale |= 1 << lane
	}
	e.chunk[lane], e.pos[lane], e.end[lane] = &b[0], uint64(at)*8-1, uint64(len(b))*8
	e.time[lane], e.delta[lane], e.value[lane], e.far[lane] = t, delta, v, farApart(t, delta)
	e.times[lane], e.values[lane], e.wanted[lane] = &ts[1], &vs[1], uint64(len(ts)-1)
	e.most = max(e.most, len(ts)-1)
}
