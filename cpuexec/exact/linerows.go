package exact

import (
	"slices"
	"unsafe"
)

// Times are the times of the samples of windows that lie in rows, which lines through these depend on
// besides values.
type Times struct {
	x, deviations []float64 // of each window: see timeRows
	n             float64   // samples of a window
	flat          float64   // how far products of distances and values are off at most, over the values' sum
	reach         Reach

	// xs are the distances of samples from the windows' origins, in seconds, as kernels go through them: of
	// as many windows as two vectors hold, first those of the first samples. back is 0 there, or, where
	// all windows are alike, what leads from the end of the only ones back to their begin, in bytes.
	xs   []float64
	back int

	of Rows // memory
}

// TimedWindows are windows whose samples lie in rows, as Rows.Set has them.
type TimedWindows struct {
	Times, Origins        []int64 // ms; each window has an origin that its times count from
	First, Every, Samples int
	Firsts                []int32 // or, of windows as Rows.Gather has them, the first samples of these
	Gap                   float64 // seconds between two samples, at least
	// Number is that of the windows. If there are origins of the first LeastRows alone, the samples of the
	// others are as far from theirs.
	Number int
}

// Set makes t the times of windows. All must be less than 2^51 ms from each other.
func (t *Times) Set(w *TimedWindows) {
	all, n, atOnce := w.Number, len(w.Origins), LeastRows/2
	if hasWide {
		atOnce = LeastRows
	}
	if t.back = 0; n < all {
		t.back = 8 * atOnce * w.Samples
	}
	// Rows have times as they are: bits of integers, which timeRows takes them for.
	ms := unsafe.Slice((*float64)(unsafe.Pointer(&w.Times[0])), len(w.Times))
	if w.Firsts != nil {
		t.of.Gather(ms, w.Firsts, w.Samples)
	} else {
		t.of.Set(ms[w.First:], w.Every, w.Samples, n)
	}
	before, after := int64(0), int64(0)
	for i, origin := range w.Origins {
		first := w.First + i*w.Every
		if w.Firsts != nil {
			first = int(w.Firsts[i])
		}
		before, after = max(before, origin-w.Times[first]), max(after, w.Times[first+w.Samples-1]-origin)
	}
	t.x, t.deviations = slices.Grow(t.x[:0], all)[:all], slices.Grow(t.deviations[:0], all)[:all]
	t.n, t.reach = float64(w.Samples), Reach{Samples: w.Samples, Gap: w.Gap}
	t.reach.add(-before, after)
	length := (n + atOnce - 1) / atOnce * atOnce * w.Samples
	t.xs = slices.Grow(t.xs[:0], length)[:length]
	far := Magnitudes{1e-3, t.reach.most(), true}
	t.flat = far.Most * 0x1p-40
	b := basesOf(w.Samples, far, far.times(far))
	timeRows(&t.of.values[0], &t.of.at[0], w.Samples, n, &t.xs[0], &w.Origins[0], t, &b)
	t.reach.total = max(-Extreme(t.x[:n], true), Extreme(t.x[:n], false))
	for i := n; i < all; i++ {
		t.x[i], t.deviations[i] = t.x[0], t.deviations[0]
	}
}

// Lines fills slopes and intercepts with the least-squares line through the samples of each window, as
// Line does: a slope is infinite or NaN where values are too large or none, nearly
// equal, or Prometheus's bits are uncertain. Values are of those magnitudes.
func (r *Rows) Lines(t *Times, of Magnitudes, slopes, intercepts []float64) {
	slope, intercept := &slopes[:r.windows][0], &intercepts[:r.windows][0]
	if u := t.reach.Units(of); u.ok {
		integerRows(&r.values[0], &r.at[0], r.samples, r.windows, &t.xs[0], t.back, t, &u, slope, intercept)
		return
	}
	b := basesOf(r.samples, of, of.times(Magnitudes{1e-3, t.reach.most(), true}))
	lineRows(&r.values[0], &r.at[0], r.samples, r.windows, &t.xs[0], t.back, t, &b, slope, intercept)
}
