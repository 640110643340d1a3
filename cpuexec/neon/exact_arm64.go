package neon

// Range returns the least and the largest of n units, a positive multiple of 8.
//
//go:noescape
func Range(units *uint32, n int) (low, high uint32)

// Sums adds n values, a positive multiple of 4, to sums and their rounding errors to comp, four at
// a time, as long as the errors are finite. It returns how many it has added.
//
//go:noescape
func Sums(val, comp, in *float64, n int) int

// Moments puts the sums of x, y, x·y and x² of n samples, and then their compensations, into out; x
// is how many ms a sample comes after the origin, over thousand. There must be a sample.
//
//go:noescape
func Moments(ts *int64, vs *float64, n int, origin int64, thousand float64, out *[8]float64)
