package exact

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

// Welford is what VarianceAbreast has made of n samples of window w.
func (s *Sums) Welford(w, n int) (k Welford) {
	k.N = float64(n)
	k.Mean, k.CMean = s.Of(0, w)
	k.Squares, k.CSquares = s.Of(1, w)
	return k
}
