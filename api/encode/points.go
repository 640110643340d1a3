package encode

import (
	"math"

	"github.com/prometheus/prometheus/promql"
)

// pointBytes bounds the text of a point, with what a fixed-size copy of a slot
// or a value writes beyond it.
const pointBytes = slotBytes + valueBytes

// blockPoints is for how many points room is made at once.
const blockPoints = 256

// appendPoints appends the points of a series without the `"]` that closes the
// last one, so that the points that follow can be appended after it. first is
// set if no point comes before.
func appendPoints(b []byte, ps []promql.FPoint, first bool, g *grid) []byte {
	if len(ps) == 0 {
		return b
	}
	if first {
		s := slotFor(ps[0].T)
		b = append(b, s[opening:s[slotBytes-1]]...)
		b = appendFloat(b, ps[0].F)
		ps = ps[1:]
	}
	if len(ps) == 0 {
		return b
	}
	at := g.find(ps[0].T)
	for len(ps) > 0 {
		k := min(len(ps), blockPoints)
		b, at = appendBlock(b, ps[:k], g, at)
		ps = ps[k:]
	}
	return b
}

// appendBlock appends points, the first of which is expected at a place of the
// grid, and returns the place after the last.
func appendBlock(b []byte, ps []promql.FPoint, g *grid, at int) ([]byte, int) {
	b, n := room(b, len(ps)*pointBytes+slotBytes)
	times, slots := g.times, g.slots[:len(g.times)]
	// The text of the last value that was written. Series that stay the same
	// for a while are common, and so is a NaN among them: compare bits.
	var last uint64
	lastAt, lastLen := 0, 0
	for i := range ps {
		p := &ps[i]
		for at < len(times) && times[at] < p.T {
			at++
		}
		if at < len(times) && times[at] == p.T {
			s := &slots[at]
			*(*slot)(b[n:]) = *s
			n += int(s[slotBytes-1] & (slotBytes - 1))
			at++
		} else {
			s := slotFor(p.T)
			*(*slot)(b[n:]) = s
			n += int(s[slotBytes-1])
		}
		if v := math.Float64bits(p.F); v == last && lastLen > 0 {
			*(*[textBytes]byte)(b[n:]) = *(*[textBytes]byte)(b[lastAt:])
			lastAt = n
			n += lastLen
		} else {
			last, lastAt = v, n
			n = putFloat(b, n, p.F)
			lastLen = n - lastAt
		}
	}
	return b[:n], at
}
