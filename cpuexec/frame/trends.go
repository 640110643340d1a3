package frame

import (
	"math"
	"math/bits"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/plan"
)

// Trend is what the least-squares line through a window's samples depends on besides their
// values, in ms.
type Trend struct {
	Times    int64   // sum of the times since the first sample of all windows
	Variance float64 // of the times, times the number of samples
	Inverse  float64 // of the variance
	Center   float64 // mean time since the origin, which slopes count from
	Far      float64 // the same as a distance, or, where times lie around the origin, Reach
	Reach    float64 // the largest distance of a sample from the origin
	// Steepness is how far Prometheus's slope may be off, relative, for the times alone.
	Steepness float64
	// Seconds is the sum of the times since the window's first sample, and Deviations that of
	// their squares less the square of the sum over n, as Prometheus computes both; 0 unless all
	// times are whole seconds apart.
	Seconds, Deviations float64
}

// Trends returns f's, by step. The origin of each is its step, if predict is set, or its first sample.
func (f *Frame) Trends(predict bool) []Trend {
	f.lineMade.Do(func() {
		f.line = slices.Grow(f.line[:0], len(f.Lo))[:len(f.Lo)]
		var steps *plan.Grid
		if predict {
			steps = &f.Span.Grid
		}
		MakeTrends(f.line, f.List(), &f.Bounds, steps)
	})
	return f.line
}

// MakeTrends makes the trend of each window of b with two samples or more at ts.
// Their origins are steps, or, where these are nil, first samples.
func MakeTrends(out []Trend, ts []int64, b *Bounds, steps *plan.Grid) {
	var times int64
	var high, low uint64 // sum of the squares, of which a window's fit into 128 bits
	begin := b.First()
	first, next := begin, begin
	base := ts[min(int(first), len(ts)-1)]
	broken := begin // the last sample that is not whole seconds after the one before
	for k, hi := range b.Hi {
		lo := b.Lo[k]
		if steps == nil { // of the samples that are new the last counts
			for i := hi - 1; i >= next && i > begin; i-- {
				if (ts[i]-ts[i-1])%1000 != 0 {
					broken = i
					break
				}
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
		origin := ts[lo]
		if steps != nil {
			origin = steps.At(k)
		}
		start, end := float64(ts[lo]-origin), float64(ts[hi-1]-origin)
		t.Times, t.Center = times, float64(times-int64(hi-lo)*(origin-base))/n
		t.Variance = exact.NumeratorOf(high, low, times, int(hi-lo)) / n
		t.Inverse = 1 / t.Variance
		if t.Reach = math.Abs(start); t.Reach < math.Abs(end) {
			t.Reach = math.Abs(end)
		}
		if t.Far = math.Abs(t.Center); start*end < 0 {
			t.Far = t.Reach
		}
		t.Steepness = exact.Rounding * (float64(10*n*t.Reach*t.Reach*t.Inverse) + 4)
		t.Deviations = 0
		if since := end - start; steps == nil && broken <= lo && n*since*since <= exact.MaxInteger*1e6 {
			from, samples := ts[lo]-base, int64(hi-lo)
			t.Seconds = float64((times - samples*from) / 1000)
			t.Deviations = float64(squaresSince(high, low, from, times, samples)) - float64(t.Seconds*t.Seconds)/n
		}
	}
}

// squaresSince is the sum of the squares of the times of the samples since from, divided by 1e6.
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
