//go:build !amd64

package exact

func magnitudesVector(vs *float64, n int, out *[2][8]uint64) {}

func secondsVector(ts *int64, n int, origin int64, xs *float64) {}

func valuesOf(vs *float64, n int, b *bases, out *lanes) {}

func productsOf(vs, xs *float64, n int, b *bases, out *lanes) {}

func integersOf(vs, xs *float64, n int, u *Units, out *[2]int64) {}

func timeRows(rows *float64, at *int64, samples, windows int, xs *float64, origins *int64, t *Times, b *bases) {
}

func lineRows(rows *float64, at *int64, samples, windows int, xs *float64, back int, t *Times, b *bases, slopes, intercepts *float64) {
}

func integerRows(rows *float64, at *int64, samples, windows int, xs *float64, back int, t *Times, u *Units, slopes, intercepts *float64) {
}
