package decode

import (
	"github.com/prometheus/prometheus/model/value"
	"golang.org/x/sys/cpu"

	"github.com/promwarp/promwarp/selection"
)

// hasEight says whether decodeEight can be called.
var hasEight = cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512CD

// staleNaN is for decodeEight.
const staleNaN = value.StaleNaN

// eight is what decodeEight works on: a lane a chunk.
type eight struct {
	chunk       [lanes]*byte
	pos, end    [lanes]uint64 // bits of the chunk: where the next sample begins, and where the stream ends
	time, delta [lanes]int64  // of the sample before, and how far from it the next one is, ms
	value       [lanes]uint64 // of the sample before
	wanted      [lanes]uint64 // samples to decode
	times       [lanes]*int64 // where they go
	values      [lanes]*float64
	far         [lanes]uint64 // see farApart; bit 63 is also set if a distance is not above 0
	most        int           // of wanted, above 0
	stale       uint8         // lanes with a stale marker so far
	stored      [lanes]uint64
	rows        [2*lanes + 1][lanes]uint64
}

// decodeEight decodes samples of eight chunks at once. Lanes whose pos is behind their end
// afterwards, or whose far has one of the bits from 46 on, are not decoded rightly.
//
//go:noescape
func decodeEight(e *eight)

// decodeLanes decodes XOR chunks of s, at most lanes, one behind the other into ts and vs. It
// returns which of them are decoded, a bit a chunk, and which of these have stale markers. What is
// rare or wrong in a chunk is not decoded.
func decodeLanes(s *selection.Selection, cs []selection.Chunk, ts []int64, vs []float64) (done, stale uint8) {
	if !hasEight {
		return 0, 0
	}
	var e eight
	for i := range e.times {
		e.times[i], e.values[i] = &ts[0], &vs[0] // addresses that exist, though nothing is stored there
	}
	at := 0
	for i, ch := range cs {
		n := int(ch.Samples)
		e.begin(i, s.Bytes(ch), ts[at:at+n], vs[at:at+n])
		at += n
	}
	if e.most == 0 {
		return 0, 0
	}
	decodeEight(&e)
	for i := range cs {
		if e.wanted[i] > 0 && e.pos[i] <= e.end[i] && e.far[i]>>46 == 0 {
			done |= 1 << i
		}
	}
	return done, e.stale
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
	if v == value.StaleNaN {
		e.stale |= 1 << lane
	}
	e.chunk[lane], e.pos[lane], e.end[lane] = &b[0], uint64(at)*8, uint64(len(b))*8
	e.time[lane], e.delta[lane], e.value[lane], e.far[lane] = t, delta, v, farApart(t, delta)
	e.times[lane], e.values[lane], e.wanted[lane] = &ts[1], &vs[1], uint64(len(ts)-1)
	e.most = max(e.most, len(ts)-1)
}
