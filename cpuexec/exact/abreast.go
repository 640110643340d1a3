package exact

import "github.com/prometheus/prometheus/util/kahansum"

//go:generate go run ./build

// Abreast is the number of windows whose samples are added up side by side.
const Abreast = 8

// Sums are one or two compensated sums of windows side by side: of four of them, what these have lost,
// those of the others and what they have lost.
type Sums [8][4]float64

// Windows are those that are side by side. Each has a sample.
type Windows [Abreast][]float64

// starts are the first samples.
func (w *Windows) starts() (s [Abreast]*float64) {
	for i, vs := range w {
		s[i] = &vs[0]
	}
	return s
}

// What follows adds up n samples of each window: none, of a window alone or without vectors.

// Of returns a sum of window w, the first or the second one, and what it has lost.
func (s *Sums) Of(sum, w int) (float64, float64) {
	at := 4*sum + w/4*2
	return s[at][w%4], s[at+1][w%4]
}

// AddAbreast adds up n samples of each of the windows, as Accumulate does, where these are finite.
func (s *Sums) AddAbreast(w *Windows, n int) {
	if *s = (Sums{}); n > 0 {
		at := w.starts()
		sumsAbreast(&at, n, s)
	}
}

// VarianceAbreast makes sums that are Welford's of n samples of each of the windows.
func (s *Sums) VarianceAbreast(w *Windows, n int) {
	if *s = (Sums{}); n > 0 {
		at := w.starts()
		variancesAbreast(&at, n, s)
	}
}

// Welford is what VarianceAbreast has made of n samples of window w.
func (s *Sums) Welford(w, n int) (k Welford) {
	k.N = float64(n)
	k.Mean, k.CMean = s.Of(0, w)
	k.Squares, k.CSquares = s.Of(1, w)
	return k
}

// Seconds are the sums of a regression that depend on the times of samples alone: of these, in seconds
// since an origin, and of their squares, and what both have lost.
type Seconds struct{ X, CX, X2, CX2 float64 }

// Add adds times in ms since the origin.
func (s *Seconds) Add(ts []int64, origin int64) {
	all := *s
	for _, at := range ts {
		x := float64(at-origin) / 1e3
		all.X, all.CX = twoSum(all.X, x, all.CX)
		all.X2, all.CX2 = twoSum(all.X2, float64(x*x), all.CX2)
	}
	*s = all
}

// Products are the sums of a regression that depend on values: of these, and of their products with
// the times in seconds, and what both have lost.
type Products struct{ Y, CY, XY, CXY float64 }

// Add adds a value at a time in ms since the origin.
func (p *Products) Add(ms int64, v float64) {
	p.Y, p.CY = kahansum.Inc(v, p.Y, p.CY)
	p.XY, p.CXY = kahansum.Inc(float64(float64(ms)/1e3*v), p.XY, p.CXY)
}

// Line is the least-squares line of n samples: its slope per second, and its value at the origin.
func (p *Products) Line(s *Seconds, n float64) (slope, intercept float64) {
	x, y, xy, x2 := s.X+s.CX, p.Y+p.CY, p.XY+p.CXY, s.X2+s.CX2
	slope = (xy - float64(x*y)/n) / (x2 - float64(x*x)/n)
	return slope, y/n - float64(slope*x)/n
}
