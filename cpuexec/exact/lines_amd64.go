package exact

// magnitudesVector finds the bits of the largest magnitude of n values, a positive multiple of 8, and those
// of the least that is not 0, less 1, in each lane.
//
//go:noescape
func magnitudesVector(vs *float64, n int, out *[2][8]uint64)

// secondsVector puts n times, a positive multiple of 8, in seconds since an origin into xs.
//
//go:noescape
func secondsVector(ts *int64, n int, origin int64, xs *float64)

// productsOf adds up n values, a positive multiple of 8, and their products with xs; see lanes.
//
//go:noescape
func productsOf(vs, xs *float64, n int, b *bases, out *lanes)

// valuesOf adds up n values, as productsOf does.
//
//go:noescape
func valuesOf(vs *float64, n int, b *bases, out *lanes)

// integersOf adds up n values, at least one, and their products with xs, in units.
//
//go:noescape
func integersOf(vs, xs *float64, n int, u *Units, out *[2]int64)

// What follows does so of many windows; see Rows and Times.

//go:noescape
func timeRows(rows *float64, at *int64, samples, windows int, xs *float64, origins *int64, t *Times, b *bases)

//go:noescape
func lineRows(rows *float64, at *int64, samples, windows int, xs *float64, back int, t *Times, b *bases, slopes, intercepts *float64)

//go:noescape
func integerRows(rows *float64, at *int64, samples, windows int, xs *float64, back int, t *Times, u *Units, slopes, intercepts *float64)
