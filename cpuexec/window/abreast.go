package window

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec/frame"
)

// abreast are the values of the windows of a block, one sample of each after the other.
type abreast struct {
	frame.Block
	vs     []float64
	at     int       // next sample, or its place in rows
	in     []float64 // one sample of each window
	rows   []float64 // where windows overlap evenly, row i of Every has each sample that comes i behind a first one
	length int       // of a row

	sums [4][frame.MostAbreast]float64
}

// over has next begin with the first sample of each window of b over vs. Where rows are made, what next
// is for a window is what it has been for the one behind that.
func (a *abreast) over(b frame.Block, vs []float64) {
	n := len(b.Steps)
	a.Block, a.vs, a.at, a.in = b, vs, 0, slices.Grow(a.in[:0], n)[:n]
	if b.Every == 0 {
		return
	}
	a.length = n + (b.Common-1)/b.Every
	a.rows = slices.Grow(a.rows[:0], a.length*b.Every)[:a.length*b.Every]
	in := vs[b.Lo[0]:b.Hi[n-1]]
	for r := range b.Every {
		row, at := a.rows[r*a.length:][:a.length], r
		for p := 0; p < len(row) && at < len(in); p++ {
			row[p] = in[at]
			at += b.Every
		}
	}
}

// next are the values of the next sample of each window, of those that all have.
func (a *abreast) next() []float64 {
	if a.Every > 0 {
		in := a.rows[a.at:][:len(a.in)]
		if a.at += a.length; a.at >= len(a.rows) {
			a.at -= len(a.rows) - 1
		}
		return in
	}
	vs := a.vs[a.at:]
	for i, lo := range a.Lo[:len(a.in)] {
		a.in[i] = vs[lo]
	}
	a.at++
	return a.in
}

// cleared is one of the lists of a sum for each window, all 0.
func (a *abreast) cleared(list int) []float64 {
	sums := a.sums[list][:len(a.in)]
	clear(sums)
	return sums
}
