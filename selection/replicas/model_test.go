package replicas

import (
	"cmp"
	"math"
	"slices"
	"testing"

	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// point is a sample of the model: a float, or a histogram, of which a hash stands for the value.
type point struct {
	t int64
	v float64
	h selectiontest.Sample
}

// lanesOf is the model of dealing: the samples from mint to maxt of all chunks, in the order in which these begin.
// No two of a test's chunks begin at one time unless they are the same.
func lanesOf(t testing.TB, mint, maxt int64, parts []*selection.Selection) (lanes [][]point) {
	var all [][]point
	for _, part := range parts {
		if part.NumSeries() == 0 {
			continue
		}
		for _, c := range part.Chunks(0) {
			in := slices.DeleteFunc(read(t, part.Slice(c.MinT, c.MaxT)), func(p point) bool { return p.t < mint || p.t > maxt })
			if len(in) > 0 {
				all = append(all, in)
			}
		}
	}
	slices.SortFunc(all, func(a, b []point) int { return cmp.Compare(a[0].t, b[0].t) })
dealing:
	for _, c := range all {
		for k, lane := range lanes {
			if lane[len(lane)-1].t < c[0].t {
				lanes[k] = append(lane, c...)
				continue dealing
			}
		}
		lanes = append(lanes, c)
	}
	return lanes
}

// withoutResets is the model of a lane of counters.
func withoutResets(in []point) (out []point) {
	total, last, began := 0.0, 0.0, false
	for _, p := range in {
		if p.h.H {
			out = append(out, p)
			continue
		}
		if math.IsNaN(p.v) {
			continue
		}
		if began && p.v < last {
			total += p.v
		} else if began {
			total += p.v - last
		} else {
			total = p.v
		}
		last, began = p.v, true
		out = append(out, point{t: p.t, v: total})
	}
	return out
}

// chosenOfTwo is the model of a pair: each step skips what the penalties of both sides forbid, and takes the
// earlier side.
func chosenOfTwo(a, b []point, counting bool) (out []point) {
	sides := [2][]point{a, b}
	var penalty [2]int64
	var raised [2]float64
	var ended [2]bool
	for i := range sides {
		ended[i] = len(sides[i]) == 0
	}
	before := 0
	last := int64(math.MinInt64)
	for !ended[0] || !ended[1] {
		var lastValue float64
		known := !ended[before] && len(sides[before]) > 0 && !sides[before][0].h.H
		if known {
			lastValue = sides[before][0].v + raised[before]
		}
		for i := range sides {
			for len(sides[i]) > 0 && sides[i][0].t < last+1+penalty[i] {
				sides[i] = sides[i][1:]
			}
			ended[i] = len(sides[i]) == 0
		}
		side := 0
		switch {
		case ended[0]:
			side = 1
		case !ended[1] && sides[1][0].t < sides[0][0].t:
			side = 1
		}
		if counting && known && side != before {
			for i := range sides {
				if !ended[i] && !sides[i][0].h.H {
					raised[i] += max(0, lastValue-(sides[i][0].v+raised[i]))
				}
			}
		}
		before = side
		if ended[side] {
			break
		}
		p := sides[side][0]
		if !ended[1-side] {
			if penalty[1-side] = firstPenalty; last != math.MinInt64 {
				penalty[1-side] = 2 * (p.t - last)
			}
		}
		penalty[side], last = 0, p.t
		if counting && !p.h.H {
			p.v += raised[side]
		}
		out = append(out, p)
	}
	return out
}
