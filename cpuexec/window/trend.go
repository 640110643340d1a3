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
		makeTrends(f.line, f.list(), &f.bounds, &line{predict: predict, grid: f.span.Grid})
	})
	return f.line
}

// makeTrends makes the trend of each window with two samples or more at ts.
func makeTrends(out []trend, ts []int64, b *bounds, l *line) {
	var times int64
	var high, low uint64 // sum of the squares, of which a window's fit into 128 bits
	next := b.first()
	first := next
	base := ts[min(int(first), len(ts)-1)]
	broken := first // the last sample that is not whole seconds after the one before
	for k, hi := range b.hi {
		lo := b.lo[k]
		for ; next < hi; next++ {
			t := ts[next] - base
			if t > 0 && (ts[next]-ts[next-1])%1000 != 0 {
				broken = next
			}
			times += t
			h, l := bits.Mul64(uint64(t), uint64(t))
			carry := uint64(0)
			low, carry = bits.Add64(low, l, 0)
			high += h + carry
		}
		for ; first < lo; first++ {
			t := ts[first] - base
			times -= t
			h, l := bits.Mul64(uint64(t), uint64(t))
			borrow := uint64(0)
			low, borrow = bits.Sub64(low, l, 0)
			high -= h + borrow
		}
		if hi-lo < 2 {
			continue
		}
		n := float64(hi - lo)
		origin := l.origin(ts[lo], k)
		start, end := float64(ts[lo]-origin), float64(ts[hi-1]-origin)
		t := trend{times: times, center: float64(times-int64(hi-lo)*(origin-base)) / n}
		t.variance = exact.NumeratorOf(high, low, times, int(hi-lo)) / n
		t.inverse = 1 / t.variance
		t.reach = max(math.Abs(start), math.Abs(end))
		if t.far = math.Abs(t.center); start*end < 0 {
			t.far = t.reach
		}
		t.steepness = exact.Rounding * (10*n*t.reach*t.reach*t.inverse + 4)
		if since := end - start; broken <= lo && n*since*since <= exact.MaxInteger*1e6 {
			from := uint64(ts[lo] - base)
			h, l := bits.Mul64(2*from, uint64(times))
			l, borrow := bits.Sub64(low, l, 0)
			h = high - h - borrow
			more, rest := bits.Mul64(from*uint64(hi-lo), from)
			l, carry := bits.Add64(l, rest, 0)
			squares, _ := bits.Div64(h+more+carry, l, 1e6)
			t.seconds = float64((times - int64(hi-lo)*int64(from)) / 1000)
			t.deviations = float64(squares) - float64(t.seconds*t.seconds)/n
		}
		out[k] = t
	}
}
