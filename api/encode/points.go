package encode

import (
	"math"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

// pointBytes bounds the text of a point, with what a fixed-size copy of a slot
// or a value writes beyond it.
const pointBytes = slotBytes + valueBytes

// blockPoints is for how many points room is made at once.
const blockPoints = 256

// points are the series of a promql.Matrix, whose points have times of their own.
type points struct {
	series promql.Matrix
	grid   grid
}

func (p *points) labels(i int) labels.Labels       { return p.series[i].Metric }
func (p *points) floats(i int) int                 { return len(p.series[i].Floats) }
func (p *points) histograms(i int) []promql.HPoint { return p.series[i].Histograms }

func (p *points) appendFloats(b []byte, i, from, to int) []byte {
	ps, g := p.series[i].Floats[from:to], &p.grid
	if from == 0 {
		s := slotFor(ps[0].T)
		b = append(b, s[opening:s[slotBytes-1]]...)
		b = AppendFloat(b, ps[0].F)
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
