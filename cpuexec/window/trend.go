package window

import (
	"math"
	"math/bits"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/exact"
)

// trend is what the least-squares line through a window's samples depends on besides their
// values, in ms.
type trend struct {
	times    int64   // sum of the times since the first sample of all windows
	variance float64 // of the times, times the number of samples
	inverse  float64 // of the variance
	center   float64 // mean time since the origin, which slopes count from
	far      float64 // the same as a distance, or, where times lie around the origin, reach
	reach    float64 // the largest distance of a sample from the origin
	// steepness is how far Prometheus's slope may be off, relative, for the times alone.
	steepness float64
	// seconds is the sum of the times since the window's first sample, and deviations that of
	// their squares less the square of the sum over n, as Prometheus computes both; 0 unless all
	// times are whole seconds apart.
	seconds, deviations float64
}

// trends returns f's, by step, with which origin l's slope counts from.
func (f *frame) trends(predict bool) []trend {
	f.lineMade.Do(func() {
		f.line = slices.Grow(f.line[:0], len(f.lo))[:len(f.lo)]
		makeTrends(f.line, f.list(), &f.bounds, f.span.Width, &line{predict: predict, grid: f.span.Grid})
	})
	return f.line
}

// makeTrends makes the trend of each window with two samples or more at ts.
func makeTrends(out []trend, ts []int64, b *bounds, width int64, l *line) {
	var times int64
	var high, low uint64 // sum of the squares, of which a window's fit into 128 bits
	begin := b.first()
	first, next := begin, begin
	base := ts[min(int(first), len(ts)-1)]
	broken := begin // the last sample that is not whole seconds after the one before
	narrow := 2*bits.Len(uint(b.most))+2*bits.Len64(uint64(width)) < 63
	for k, hi := range b.hi {
		lo := b.lo[k]
		if !l.predict { // of the samples that are new the last counts
			for i := hi - 1; i >= next && i > begin; i-- {
				if (ts[i]-ts[i-1])%1000 != 0 {
					broken = i
					break
				}
			}
		}
		if narrow {
			for ; next < hi; next++ {
				t := ts[next] - base
				times, low = times+t, low+uint64(t*t)
			}
			for ; first < lo; first++ {
				t := ts[first] - base
				times, low = times-t, low-uint64(t*t)
			}
		}
		for ; next < hi; next++ {
			t, carry := ts[next]-base, uint64(0)
			h, l := bits.Mul64(uint64(t), uint64(t))
			times += t
			low, carry = bits.Add64(low, l, 0)
			high += h + carry
		}
		for ; first < lo; first++ {
			t, borrow := ts[first]-base, uint64(0)
			h, l := bits.Mul64(uint64(t), uint64(t))
			times -= t
			low, borrow = bits.Sub64(low, l, 0)
			high -= h + borrow
		}
		if hi-lo < 2 {
			continue
		}
		t, n := &out[k], float64(hi-lo)
		origin := l.origin(ts[lo], k)
		start, end := float64(ts[lo]-origin), float64(ts[hi-1]-origin)
		t.times, t.center = times, float64(times-int64(hi-lo)*(origin-base))/n
		if narrow {
			t.variance = float64(int64(uint64(hi-lo)*low)-times*times) / n
		} else {
			t.variance = exact.NumeratorOf(high, low, times, int(hi-lo)) / n
		}
		t.inverse = 1 / t.variance
		if t.reach = math.Abs(start); t.reach < math.Abs(end) {
			t.reach = math.Abs(end)
		}
		if t.far = math.Abs(t.center); start*end < 0 {
			t.far = t.reach
		}
		t.steepness = exact.Rounding * (float64(10*n*t.reach*t.reach*t.inverse) + 4)
		t.deviations = 0
		if since := end - start; !l.predict && broken <= lo && n*since*since <= exact.MaxInteger*1e6 {
			from, samples := ts[lo]-base, int64(hi-lo)
			t.seconds = float64((times - samples*from) / 1000)
			t.deviations = float64(squaresSince(high, low, from, times, samples)) - float64(t.seconds*t.seconds)/n
		}
	}
}

// squaresSince is the sum of the squares of the times of so many samples since from, divided by 1e6.
// Since 0 the times add up to times, and their squares to high and low. It must be less than
// 1e6<<64 before it is divided.
func squaresSince(high, low uint64, from, times, samples int64) uint64 {
	h, l := bits.Mul64(uint64(2*from), uint64(times))
	low, borrow := bits.Sub64(low, l, 0)
	high -= h + borrow
	h, l = bits.Mul64(uint64(from), uint64(from*samples))
	low, carry := bits.Add64(low, l, 0)
	quotient, _ := bits.Div64(high+h+carry, low, 1e6)
	return quotient
}
