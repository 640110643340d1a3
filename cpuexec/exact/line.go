package exact

import (
	"math"
	"slices"

	"github.com/prometheus/prometheus/util/kahansum"
)

// Line is Prometheus's least-squares line through the samples at ts (ms): its slope per
// second, and its value at the time origin (ms).
func Line(ts []int64, vs []float64, origin int64) (slope, intercept float64) {
	if slope, intercept, ok := flatLine(vs); ok {
		return slope, intercept
	}
	var y, cy, xy, cxy float64
	for k, v := range vs {
		y, cy = twoSum(y, v, cy)
		xy, cxy = twoSum(xy, float64(float64(ts[k]-origin)/1e3*v), cxy)
	}
	if c := cy + cxy; c-c != 0 {
		y, cy, xy, cxy = 0, 0, 0, 0
		for k, v := range vs {
			y, cy = kahansum.Inc(v, y, cy)
			xy, cxy = kahansum.Inc(float64(float64(ts[k]-origin)/1e3*v), xy, cxy)
		}
	}
	seconds := secondsOf(ts, origin)
	return seconds.line(y+cy, xy+cxy, float64(len(vs)))
}

// flatLine is the line through values that are equal, if they are.
func flatLine(vs []float64) (slope, intercept float64, ok bool) {
	switch {
	case vs[len(vs)-1] != vs[0], slices.ContainsFunc(vs, func(v float64) bool { return v != vs[0] }):
		return 0, 0, false
	case math.IsInf(vs[0], 0):
		return math.NaN(), math.NaN(), true
	}
	return 0, vs[0], true
}

// Seconds are the sums of a regression that depend on the times of samples alone: of these, in seconds
// since an origin, and of their squares.
type Seconds struct{ X, X2 float64 }

// secondsOf adds up times in ms.
func secondsOf(ts []int64, origin int64) Seconds {
	var x, c, x2, c2 float64
	for _, at := range ts {
		t := float64(at-origin) / 1e3
		x, c = twoSum(x, t, c)
		x2, c2 = twoSum(x2, float64(t*t), c2)
	}
	return Seconds{x + c, x2 + c2}
}

// line is the least-squares line of n samples whose values add up to y, and whose products with the
// seconds to xy.
func (s *Seconds) line(y, xy, n float64) (slope, intercept float64) {
	slope = (xy - float64(s.X*y)/n) / (s.X2 - float64(s.X*s.X)/n)
	return slope, y/n - float64(slope*s.X)/n
}

// Distances are those of the samples of a window from an origin, in seconds, and what lines through the
// samples depend on besides values.
type Distances struct {
	Seconds
	xs          []float64
	first, last int64 // of the distances, ms
	far         Magnitudes
}

// Set makes d the distances of the samples at ts, two at least, from an origin, ms. There must be room for
// them in memory. A reach knows of the window then.
func (d *Distances) Set(ts []int64, origin int64, memory []float64, r *Reach) {
	d.xs, d.first, d.last = memory[:len(ts)], ts[0]-origin, ts[len(ts)-1]-origin
	n := len(ts) &^ 7
	if !hasVectors || max(-d.first, d.last) >= 1<<50 {
		n = 0
	}
	if n > 0 {
		secondsVector(&ts[0], n, origin, &d.xs[0])
	}
	for k := n; k < len(ts); k++ {
		d.xs[k] = float64(ts[k]-origin) / 1e3
	}
	d.far = Magnitudes{1e-3, max(float64(-d.first), float64(d.last)) / 1e3, true}
	b := basesOf(len(ts), d.far, d.far.times(d.far))
	x, x2, ok := b.add(d.xs, d.xs)
	if d.Seconds = (Seconds{x, x2}); !ok {
		d.Seconds = secondsOf(ts, origin)
	}
	d.Reached(r)
}

// Reached has a reach know of the window.
func (d *Distances) Reached(r *Reach) {
	r.add(d.first, d.last)
	r.total = max(r.total, math.Abs(d.X))
}

// Move has the distances lie at the begin of memory, if there is room, and returns it up to their end.
func (d *Distances) Move(memory []float64) []float64 {
	if memory = slices.Grow(memory[:0], len(d.xs))[:len(d.xs)]; &memory[0] != &d.xs[0] {
		copy(memory, d.xs)
		d.xs = memory
	}
	return memory
}

// Line is the line through the samples, by vectors, of values of those magnitudes. It reports false where
// Prometheus's bits are uncertain.
func (d *Distances) Line(vs []float64, of Magnitudes, u *Units) (slope, intercept float64, ok bool) {
	if slope, intercept, ok := flatLine(vs); ok {
		return slope, intercept, true
	}
	if u.ok {
		var sums [2]int64
		integersOf(&vs[0], &d.xs[0], len(vs), u, &sums)
		if xy := float64(sums[1] - u.off); xy == float64(sums[1]+u.off) {
			slope, intercept = d.line(float64(float64(sums[0])*u.value), float64(xy*u.product), float64(len(vs)))
			return slope, intercept, true
		}
	}
	b := basesOf(len(vs), of, of.times(d.far))
	y, xy, ok := b.add(vs, d.xs)
	slope, intercept = d.line(y, xy, float64(len(vs)))
	return slope, intercept, ok
}
