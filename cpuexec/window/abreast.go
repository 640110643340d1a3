package window

import (
	"math"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/exact"
)

// abreast are some windows whose samples are added up side by side: each addition waits for the one
// before it in the same window, and a processor does those of others meanwhile, several an
// instruction.
type abreast struct {
	steps, lo, hi [mostAbreast]int32
	n             int // windows
	common        int // samples that each of them has at least

	vs            []float64
	every, length int       // samples from one window to the next, where rows have so many, or 0
	rows          []float64 // row i of every has each sample that comes i behind a window's first
	at            int       // next sample, or place in rows
	in, sum, c    [mostAbreast]float64
}

const mostAbreast = 64

// abreast calls f with the windows that have so many samples or more, and returns how many they are.
func (s *Evaluator) abreast(least int32, f func(a *abreast)) (points int) {
	b, a := &s.bounds, &s.side
	a.n = 0
	for k, lo := range b.Lo {
		if b.GiveUp(k) {
			break
		}
		hi := b.Hi[k]
		if hi-lo < least {
			continue
		}
		a.steps[a.n], a.lo[a.n], a.hi[a.n] = int32(k), lo, hi
		points++
		if a.n++; a.n == mostAbreast {
			f(a)
			a.n = 0
		}
	}
	if a.n > 0 {
		f(a)
	}
	return points
}

// over has next begin with the first sample of each window over vs, and counts those that all have, none
// where windows are few. Of windows that overlap and begin at even distances, samples that are as far
// from one another lie in a row: what next is for a window is what it has been for the one behind.
func (a *abreast) over(vs []float64) {
	a.vs, a.at, a.common, a.every = vs, 0, 0, 0
	if a.n < exact.Lanes {
		return
	}
	a.common = math.MaxInt
	every, even := a.lo[1]-a.lo[0], true
	for i, lo := range a.lo[:a.n] {
		a.common = min(a.common, int(a.hi[i]-lo))
		even = even && lo == a.lo[0]+int32(i)*every
	}
	if a.every = int(every); !even || every == 0 || 2*a.every > a.common {
		a.every = 0
		return
	}
	a.length = a.n + (a.common-1)/a.every
	a.rows = slices.Grow(a.rows[:0], a.length*a.every)[:a.length*a.every]
	in := vs[a.lo[0]:a.hi[a.n-1]]
	for r := range every {
		row, at := a.rows[int(r)*a.length:][:a.length], int(r)
		for p := 0; p < len(row) && at < len(in); p++ {
			row[p] = in[at]
			at += int(every)
		}
	}
}

// next are the values of the next sample of each window.
func (a *abreast) next() []float64 {
	in := a.in[:a.n]
	if a.every > 0 {
		in = a.rows[a.at:][:a.n]
		if a.at += a.length; a.at >= len(a.rows) {
			a.at -= len(a.rows) - 1
		}
		return in
	}
	vs := a.vs[a.at:]
	for i, lo := range a.lo[:len(in)] {
		in[i] = vs[lo]
	}
	a.at++
	return in
}
