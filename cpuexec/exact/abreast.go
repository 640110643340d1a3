package exact

import "math"

//go:generate go run ./build

// Abreast is the number of windows whose samples are added up side by side.
const Abreast = 8

// Sums are one or two compensated sums of windows side by side: of four of them, what these have lost,
// those of the others and what they have lost.
type Sums [8][4]float64

// Windows are eight windows side by side. Each has a sample.
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

// RisesAbreast makes sums of what Rise says of the first n samples of each of the windows, at least one.
func (s *Sums) RisesAbreast(w *Windows, n int) {
	for i, vs := range w {
		s[i/4*2][i%4] = vs[len(vs)-1] - vs[0]
	}
	if n > 0 {
		at := w.starts()
		risesAbreast(&at, n, s)
	}
}

// Rise adds to rise, a counter's last sample less the first, the samples whose next one is less, one after
// the other. The next ones are looked at from from on.
func Rise(vs []float64, from int, rise float64) float64 {
	for i := max(from, 1); i < len(vs); i++ {
		fell := uint64(0) // without a branch, which no processor would foresee
		if vs[i] < vs[i-1] {
			fell = 1
		}
		// Else the zero below zero is added, which changes nothing.
		rise += math.Float64frombits(math.Float64bits(vs[i-1])&-fell | (fell^1)<<63)
	}
	return rise
}

// Welford is what VarianceAbreast has made of n samples of window w.
func (s *Sums) Welford(w, n int) (k Welford) {
	k.N = float64(n)
	k.Mean, k.CMean = s.Of(0, w)
	k.Squares, k.CSquares = s.Of(1, w)
	return k
}
