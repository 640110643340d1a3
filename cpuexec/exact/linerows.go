package exact

import (
	"math"
	"slices"
)

// Times are the times of the samples of windows that lie in rows, which lines through these depend on
// besides values.
type Times struct {
	x, deviations []float64 // of each window: see timeRows
	n             float64   // samples of a window
	reach

	// xs are the distances of samples from the windows' origins, in seconds, as kernels go through them: of
	// as many windows as two vectors hold, first those of the first samples. back is 0 there, or, where
	// all windows are alike, what leads from the end of the only ones back to their begin, in bytes.
	xs   []float64
	back int

	of          Rows // memory
	ms, origins []float64
}

// TimedWindows are windows whose samples lie in rows, as Rows.Set has them.
type TimedWindows struct {
	Times, Origins []int64 // ms; each window has an origin that its times count from
	Every, Samples int
	Gap            float64 // seconds between two samples, at least
	Alike          bool    // samples of all windows are as far from their origins
}

// Set makes t the times of windows. All must be less than 2^51 ms from each other.
func (t *Times) Set(w *TimedWindows) {
	since := func(list []float64, all []int64) []float64 {
		list = slices.Grow(list[:0], len(all))[:len(all)]
		for i, at := range all {
			list[i] = float64(at - w.Times[0])
		}
		return list
	}
	all, n, atOnce := len(w.Origins), len(w.Origins), LeastRows/2
	if w.Alike {
		n = LeastRows
	}
	if hasWide {
		atOnce = LeastRows
	}
	t.ms, t.origins, t.n = since(t.ms, w.Times[:(n-1)*w.Every+w.Samples]), since(t.origins, w.Origins[:n]), float64(w.Samples)
	t.x, t.deviations = slices.Grow(t.x[:0], all)[:all], slices.Grow(t.deviations[:0], all)[:all]
	t.of.Set(t.ms, w.Every, w.Samples, n)
	t.reach = reach{samples: w.Samples, gap: w.Gap}
	for i, origin := range w.Origins[:n] {
		t.add(w.Times[i*w.Every]-origin, w.Times[i*w.Every+w.Samples-1]-origin)
	}
	if t.back = 0; w.Alike {
		t.back = 8 * atOnce * w.Samples
	}
	length := (n + atOnce - 1) / atOnce * atOnce * w.Samples
	t.xs = slices.Grow(t.xs[:0], length)[:length]
	b := basesOf(w.Samples, t.far, t.far.times(t.far))
	timeRows(&t.of.values[0], &t.of.at[0], w.Samples, n, &t.xs[0], &t.origins[0], t, &b)
	t.finish(max(math.Abs(Extreme(t.x[:n], true)), math.Abs(Extreme(t.x[:n], false))))
	for i := n; i < all; i++ {
		t.x[i], t.deviations[i] = t.x[0], t.deviations[0]
	}
}

// Lines fills slopes and intercepts with the least-squares line through the samples of each window, as
// Line does: a slope is infinite or NaN where values are too large or none, all of them may be
// equal, or Prometheus's bits are uncertain. Values are of those magnitudes.
func (r *Rows) Lines(t *Times, of Magnitudes, slopes, intercepts []float64) {
	slope, intercept := &slopes[:r.windows][0], &intercepts[:r.windows][0]
	if u, ok := t.units(of); ok {
		integerRows(&r.values[0], &r.at[0], r.samples, r.windows, &t.xs[0], t.back, t, &u, slope, intercept)
		return
	}
	b := basesOf(r.samples, of, of.times(t.far))
	lineRows(&r.values[0], &r.at[0], r.samples, r.windows, &t.xs[0], t.back, t, &b, slope, intercept)
}
