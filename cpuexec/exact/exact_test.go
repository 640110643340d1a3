package exact

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"sort"
	"testing"

	"github.com/prometheus/prometheus/util/kahansum"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
)

// TestRange: the least and the largest of some units, however many they are and wherever they lie.
func TestRange(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 8))
	for range 100 {
		for n := 1; n < 71; n++ {
			units, most := make([]uint32, n+r.IntN(8)), r.Uint32()
			for k := range units {
				units[k] = r.Uint32N(max(most, 1))
			}
			units[r.IntN(len(units))] = []uint32{0, math.MaxUint32, 1 << 31, most}[r.IntN(4)]
			units = units[len(units)-n:]
			low, high := Range(units)
			require.Equal(t, slices.Min(units), low)
			require.Equal(t, slices.Max(units), high)
		}
	}
}

// TestAddOdd: values added to sums many of which are infinite or NaN come to what Prometheus's come to.
func TestAddOdd(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 10))
	for n := range 20_000 {
		size := r.IntN(40)
		val, comp, want, wantComp, in := make([]float64, size), make([]float64, size), make([]float64, size), make([]float64, size), make([]float64, size)
		for range 5 {
			for k := range in {
				if in[k] = r.NormFloat64(); r.IntN(4+n%40) < 3 {
					in[k] = exacttest.Odd(r)
				}
				want[k], wantComp[k] = kahansum.Inc(in[k], want[k], wantComp[k])
			}
			Add(val, comp, in)
			exacttest.RequireSame(t, want, val, "sums")
			exacttest.RequireSame(t, wantComp, comp, "errors")
		}
	}
}

// TestAddFinite: values added several at once have the sums and errors of those added one by one, up
// to four of which one error is not finite; those and what is behind them stay as they are.
func TestAddFinite(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 9))
	all, stopped := 0, 0
	for range 100 {
		for n := range 71 {
			at := r.IntN(4)
			val, comp, in := make([]float64, at+n+4), make([]float64, at+n+4), make([]float64, n)
			odd := r.IntN(2) == 0
			for k := range val {
				val[k], comp[k] = r.NormFloat64()*1e6, exacttest.Odd(r)
			}
			for k := range in {
				in[k] = r.NormFloat64() * math.Pow(10, float64(r.IntN(20)))
				if odd && r.IntN(16) == 0 {
					in[k], val[at+k] = exacttest.Odd(r), exacttest.Odd(r)
				}
			}
			wantVal, wantComp := slices.Clone(val), slices.Clone(comp)
			done := AddFinite(val[at:], comp[at:], in)
			require.Zero(t, done%Lanes)
			require.LessOrEqual(t, done, n)
			finite := func(k int) bool {
				_, e := twoSum(wantVal[at+k], in[k], 0)
				return e-e == 0
			}
			for k := range done {
				require.True(t, finite(k))
			}
			if next := done + Lanes; hasVectors && next <= n {
				require.False(t, finite(done) && finite(done+1) && finite(done+2) && finite(done+3))
				stopped++
			}
			for k := range done {
				wantVal[at+k], wantComp[at+k] = twoSum(wantVal[at+k], in[k], wantComp[at+k])
			}
			exacttest.RequireSame(t, wantVal, val, "sums")
			exacttest.RequireSame(t, wantComp, comp, "errors")
			all += done
		}
	}
	require.True(t, !hasVectors || all > 100_000 && stopped > 200, "%d, %d", all, stopped)
}

func TestInt192(t *testing.T) {
	number := func(w Int192) *big.Int {
		b := new(big.Int).SetUint64(w.w2)
		b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(w.w1))
		b.Lsh(b, 64).Or(b, new(big.Int).SetUint64(w.w0))
		if w.w2>>63 != 0 {
			b.Sub(b, new(big.Int).Lsh(big.NewInt(1), 192))
		}
		return b
	}
	float := func(b *big.Int) float64 {
		f, _ := new(big.Float).SetInt(b).Float64()
		return f
	}
	rapid.Check(t, func(t *rapid.T) {
		x, y := rapid.Int64().Draw(t, "x"), rapid.Int64().Draw(t, "y")
		n := rapid.IntRange(0, 1<<31).Draw(t, "n")
		a := Int192{rapid.Uint64().Draw(t, "w0"), rapid.Uint64().Draw(t, "w1"), rapid.Uint64().Draw(t, "w2")}
		bx, by := big.NewInt(x), big.NewInt(y)
		require.Equal(t, new(big.Int).Mul(bx, by).String(), number(Product(x, y)).String())
		require.Equal(t, new(big.Int).Add(new(big.Int).Mul(bx, by), bx).String(), number(Product(x, y).Plus(x)).String())
		require.Equal(t, new(big.Int).Add(new(big.Int).Mul(bx, by), bx).String(), number(Product(x, y).Add(Int192{}.Plus(x))).String())
		require.Equal(t, new(big.Int).Sub(new(big.Int).Mul(bx, by), bx).String(), number(Product(x, y).Sub(Int192{}.Plus(x))).String())
		require.Equal(t, new(big.Int).Mul(new(big.Int).Mul(bx, by), big.NewInt(int64(n))).String(), number(Product(x, y).Times(n)).String())
		small := Int192{}.Plus(x >> 2).Times(n)
		require.Equal(t, new(big.Int).Mul(number(small), number(small)).String(), number(small.Mul(small)).String())
		require.Equal(t, new(big.Int).Mul(number(small), by).String(), number(small.Mul(Int192{}.Plus(y))).String())
		for shift := 0; shift < 192; shift += 7 {
			v := number(a)
			v.Rsh(v, uint(shift))
			s := fromBig(v)
			require.Equal(t, v.String(), number(s).String())
			require.Equal(t, float(v), s.Float(), v)
		}
	})
}

// fromBig is b, which is within 192 bits, as an Int192.
func fromBig(b *big.Int) (w Int192) {
	mask := new(big.Int).SetUint64(math.MaxUint64)
	for i, word := range []*uint64{&w.w0, &w.w1, &w.w2} {
		part := new(big.Int).Rsh(b, uint(64*i)) // towards minus infinity, as in two's complement
		*word = part.And(part, mask).Uint64()
	}
	return w
}

// TestAbreast: what is added up of windows side by side has the bits of what is added up of each.
func TestAbreast(t *testing.T) {
	if !CanAbreast() {
		return // nothing calls it
	}
	r := rand.New(rand.NewPCG(8, 9))
	for range 1000 {
		n, vs := 1+r.IntN(40), make([]float64, 200)
		scale := math.Pow(10, float64(r.IntN(20)))
		for k := range vs {
			if vs[k] = r.NormFloat64() * scale; r.IntN(10) == 0 {
				vs[k] = math.Copysign(0, vs[k])
			}
		}
		var windows Windows
		for i := range windows {
			windows[i] = vs[r.IntN(len(vs)-n+1):]
		}
		var sums, variances, rises Sums
		sums.AddAbreast(&windows, n)
		variances.VarianceAbreast(&windows, n)
		rises.RisesAbreast(&windows, n)
		for i, window := range windows {
			last := len(window) - 1
			wantRise := window[last] - window[0]
			for k, v := range window[1:] {
				if v < window[k] {
					wantRise += window[k]
				}
			}
			rise, _ := rises.Of(0, i)
			exacttest.RequireSame(t, []float64{wantRise}, []float64{Rise(window, n, rise)}, "rises")
			var wantVariance Welford
			for _, v := range window[:n] {
				wantVariance.Add(v)
			}
			require.Equal(t, wantVariance, variances.Welford(i, n))
			wantSum, wantLost := Accumulate(window[:n], 0, 0)
			sum, lost := sums.Of(0, i)
			require.Equal(t, [2]float64{wantSum, wantLost}, [2]float64{sum, lost})
		}
	}
}

// TestFastLine: lines by vectors have the bits of those whose sums are made one by one, through values of
// all kinds, of any distance and length; most are found without these.
func TestFastLine(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 12))
	certain, integers := 0, 0
	for range 5000 {
		n, at := 2+r.IntN([]int{30, 500, 6000}[r.IntN(3)]), r.Int64N(1<<40)
		ts, vs := make([]int64, n), make([]float64, n)
		apart, scale := []int64{1, 30_000, 1 << 39}[r.IntN(3)], math.Pow(10, float64(r.IntN(600)-300))
		middle, late := []float64{0, 3, 1e6, -1e9}[r.IntN(4)], r.Int64N(apart+1)
		for k := range ts {
			at += 1 + apart - late + r.Int64N(late+1)
			ts[k], vs[k] = at, (middle+r.NormFloat64())*scale
			if r.IntN(20_000) == 0 {
				vs[k] = exacttest.Odd(r)
			}
		}
		origin := []int64{ts[0], ts[n-1] + r.Int64N(20_000), ts[n/2]}[r.IntN(3)]
		wantSlope, want := Line(ts, vs, origin)
		gap, of := int64(math.MaxInt64), MagnitudesOf(vs)
		for k, at := range ts[1:] {
			gap = min(gap, at-ts[k])
		}
		var d Distances
		reach := Reach{Samples: n, Gap: float64(gap) / 1e3}
		d.Set(ts, origin, make([]float64, n), &reach)
		require.Equal(t, secondsOf(ts, origin), d.Seconds)
		units := reach.Units(of)
		slope, got, ok := d.Line(vs, of, &units)
		if !ok {
			slope, got = Line(ts, vs, origin)
		}
		exacttest.RequireSame(t, []float64{wantSlope, want}, []float64{slope, got}, fmt.Sprint(n))
		b := basesOf(n, of, of.times(d.far))
		if _, _, ok := b.add(vs, d.xs); ok {
			certain++
		}
		if units.ok {
			integers++
		}
	}
	require.Greater(t, certain, 4000)
	require.True(t, !hasWide || integers > 500, "%d", integers)
}

// TestRows: what windows come to whose samples lie in rows has the bits of what each comes to. Few
// lines are uncertain.
func TestRows(t *testing.T) {
	if !CanAbreast() {
		return // nothing calls it
	}
	r := rand.New(rand.NewPCG(8, 11))
	var rows Rows
	all, uncertain, integers, means := 0, 0, 0, 0
	for range 1000 {
		n, windows := 2+r.IntN(40), LeastRows+r.IntN(40)
		every := 1 + r.IntN(n)
		vs, scale := make([]float64, (windows-1)*every+n+r.IntN(9)), math.Pow(10, float64(r.IntN(20)))
		middle := []float64{0, 5, 100}[r.IntN(3)]
		for k := range vs {
			vs[k] = (middle + r.NormFloat64()) * scale
		}
		ts, at, apart := make([]int64, len(vs)), r.Int64N(1<<40), []int64{30_000, 1 << 39}[r.IntN(2)]
		late := []int64{0, r.Int64N(apart)}[r.IntN(2)]
		for k := range ts {
			at += apart
			ts[k] = at + r.Int64N(late+1)
		}
		origins, since, alike := make([]int64, windows), r.Int64N(1<<20), r.IntN(2) == 0
		for k := range origins {
			origins[k] = ts[k*every] + since
			if !alike {
				origins[k] += r.Int64N(1 << 10)
			}
		}
		var times Times
		w := &TimedWindows{Times: ts, Origins: origins, Every: every, Samples: n, Number: windows, Gap: float64(apart-late) / 1e3}
		if alike && late == 0 {
			w.Origins = origins[:LeastRows]
		}
		if r.IntN(4) == 0 {
			w.Gap = 0 // not known
		}
		firsts := make([]int32, windows)
		for k := range firsts {
			firsts[k] = int32(k * every)
		}
		gathered := r.IntN(3) == 0
		if gathered {
			w.Origins, w.Firsts = origins, firsts
		}
		times.Set(w)
		q := []float64{0, r.Float64(), 1}[r.IntN(3)]
		var got [9][]float64
		for i := range got {
			got[i] = make([]float64, windows)
		}
		if rows.Set(vs, every, n, windows); gathered {
			rows.Gather(vs, firsts, n)
		}
		of := MagnitudesOf(vs)
		rows.Lines(&times, of, got[0], got[1])
		if times.reach.Units(of).ok {
			integers++
		}
		rows.Increases(got[2])
		rows.Extremes(false, got[3])
		rows.Extremes(true, got[4])
		rows.Quantiles(q, got[5])
		rooted := r.IntN(2) == 0
		rows.Variances(rooted, got[6])
		rows.Sums(1, got[7])
		rows.Sums(float64(n), got[8])
		if rows.Means(of, got[8]) {
			means++
		}
		for k := range windows {
			window := vs[k*every:][:n]
			increase := window[n-1] - window[0]
			for i, v := range window[1:] {
				if v < window[i] {
					increase += window[i]
				}
			}
			slope, intercept := Line(ts[k*every:][:n], window, origins[k])
			variance := Variance(window)
			if rooted {
				variance = math.Sqrt(variance)
			}
			want := [9]float64{slope, intercept, increase, slices.Max(window), slices.Min(window), Quantile(q, slices.Clone(window)), variance, Sum(window), Mean(window)}
			for i, v := range want {
				if all++; i <= 1 && math.IsNaN(got[i][k]) {
					uncertain++
					continue
				}
				require.True(t, v == got[i][k], "%d of window %d", i, k)
			}
		}
	}
	require.Less(t, uncertain, all/100)
	require.True(t, !hasWide || integers > 100 && means > 50, "%d, %d", integers, means)
}

// TestVariances: variances of windows in rows have the bits of Prometheus's, of values of all kinds and of
// any distance, however tiny or large; those that are not finite are made anew, and few others.
func TestVariances(t *testing.T) {
	if !CanAbreast() {
		return // nothing calls it
	}
	r := rand.New(rand.NewPCG(8, 16))
	var rows Rows
	all, anew := 0, 0
	for i := range 1200 {
		n := 1 + r.IntN([]int{8, 60, 3000}[min(r.IntN(8), 2)])
		every, windows, odd := 1+r.IntN(n), LeastRows+r.IntN(20), r.IntN(6) == 0
		scale := []float64{1, 1e6, 1e-300, 0x1p-1060, 1e-160, 1e150, 1e300}[i%7]
		middle, few := []float64{0, 1, 1e6, -1e12}[r.IntN(4)], r.IntN(3) == 0
		vs := make([]float64, (windows-1)*every+n)
		for k := range vs {
			if vs[k] = (middle + r.NormFloat64()) * scale; few {
				vs[k] = float64(r.IntN(3)-1) * scale // whose means nearly cancel
			}
			if odd && r.IntN(40) == 0 {
				vs[k] = exacttest.Odd(r)
			}
		}
		got, root := make([]float64, windows), r.IntN(2) == 0
		rows.Set(vs, every, n, windows)
		rows.Variances(root, got)
		for k, v := range got {
			want := Variance(vs[k*every:][:n])
			if root {
				want = math.Sqrt(want)
			}
			if all++; v-v != 0 {
				if want-want == 0 && !odd && scale > 1e-200 {
					anew++
				}
				continue
			}
			require.Equal(t, math.Float64bits(want), math.Float64bits(v), "%v, %v: window %d of %d, every %d, scale %g", want, v, k, n, every, scale)
		}
	}
	require.Less(t, anew, all/50)
}

// TestReciprocals: the quotient that wideWelford in build/ makes of a reciprocal and what that quotient
// lacks has the bits of the one that a division makes, unless it is less than the least normal number.
func TestReciprocals(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 17))
	normal := 0
	for n := 1; n < 1<<13; n++ {
		k := float64(n)
		if n > 1<<12 {
			k = float64(r.Int64N(1 << 40))
		}
		for i := range 300 {
			d := math.Float64frombits(r.Uint64())
			switch i % 4 {
			case 1: // near the middle of two quotients
				q := 1 + r.Float64()
				d = math.Nextafter(k*math.Nextafter(q, 2), float64(r.IntN(3)-1)*10)
				d -= d * 0x1p-53 * float64(r.IntN(3))
			case 2:
				d = math.Ldexp(r.NormFloat64(), r.IntN(100)-1074)
			case 3:
				d = exacttest.Odd(r)
			}
			reciprocal, want := 1/k, d/k
			got := d * reciprocal
			got = math.FMA(math.FMA(-got, k, d), reciprocal, got)
			if math.IsInf(d, 0) {
				require.NotZero(t, got-got, "%v / %v", d, k) // a window with it is made anew
				continue
			}
			if tiny := math.Abs(got) < 0x1p-1022; tiny && got != 0 {
				continue
			}
			normal++
			require.True(t, want == got || want != want && got != got, "%v / %v: %v, not %v", d, k, got, want)
		}
	}
	require.Greater(t, normal, 1_000_000)
}

// TestMagnitudes: they are those of all values that are finite and not 0.
func TestMagnitudes(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 14))
	for range 5000 {
		vs, odd := make([]float64, 1+r.IntN(40)), r.IntN(3) == 0
		want := Magnitudes{math.MaxFloat64, 0, true}
		for k := range vs {
			if vs[k] = r.NormFloat64(); odd {
				vs[k] = exacttest.Odd(r)
			}
			switch v := math.Abs(vs[k]); {
			case !(v <= math.MaxFloat64):
				want.finite = false
			case v > 0:
				want.Least, want.Most = min(want.Least, v), max(want.Most, v)
			}
		}
		got := MagnitudesOf(vs)
		if want.Most == 0 {
			want.Least = got.Least // which means nothing
		}
		if !hasWide {
			got.finite = want.finite
		}
		require.Equal(t, want, got, "%v", vs)
	}
}

// TestRunning: sums of windows that are differences of running ones have the bits of Prometheus's, for
// values of all kinds and any lengths. There are such of all series whose values differ little.
func TestRunning(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 13))
	found := 0
	for range 3000 {
		vs, from := make([]float64, 1+r.IntN(600)), r.IntN(4)
		scale, spread := math.Pow(10, float64(r.IntN(600)-300)), []float64{0, 0.01, 0.1, 10}[r.IntN(4)]
		middle, decimals, sign := 1+2*r.Float64(), math.Pow(10, float64(r.IntN(4))), 1-2*float64(r.IntN(2))
		odd, all := r.IntN(4) == 0, r.IntN(2) == 0
		for k := range vs {
			if vs[k] = sign * (middle + spread*r.NormFloat64()) * scale; !all {
				vs[k] = math.Round((middle+spread*r.NormFloat64())*decimals) / decimals
			}
			if odd && r.IntN(200) == 0 {
				vs[k] = exacttest.Odd(r)
			}
		}
		var running Running
		samples, to := 1+r.IntN(300), len(vs)
		ok := from < to && running.Set(vs, from, to, samples)
		finite := !slices.ContainsFunc(vs[min(from, to):], func(v float64) bool { return v-v != 0 || v == 0 && math.Signbit(v) })
		require.True(t, finite || !ok)
		if !ok {
			require.False(t, finite && from < to && spread <= 0.01 && !odd && scale < 1e250 && scale > 1e-250, "%d samples of %v", samples, vs)
			continue
		}
		for range 50 {
			lo := from + r.IntN(to-from)
			hi := lo + 1 + r.IntN(min(samples, to-lo))
			require.Equal(t, Sum(vs[lo:hi]), running.Sum(int32(lo), int32(hi)), "%v", vs[lo:hi])
			found++
		}
	}
	require.Greater(t, found, 50*1500)
}

// Lines through values of all kinds are those of sums made one by one, as Prometheus makes them.
func TestLine(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 10))
	for range 3000 {
		n := 2 + r.IntN(30)
		ts, vs := make([]int64, n), make([]float64, n)
		for k := range ts {
			if ts[k], vs[k] = int64(k)*15_000, r.NormFloat64(); r.IntN(20) == 0 {
				vs[k] = exacttest.Odd(r)
			}
		}
		var x, x2, y, xy [2]float64
		for k, v := range vs {
			at := float64(ts[k]-7) / 1e3
			x[0], x[1] = kahansum.Inc(at, x[0], x[1])
			x2[0], x2[1] = kahansum.Inc(at*at, x2[0], x2[1])
			y[0], y[1] = kahansum.Inc(v, y[0], y[1])
			xy[0], xy[1] = kahansum.Inc(at*v, xy[0], xy[1])
		}
		seconds := Seconds{x[0] + x[1], x2[0] + x2[1]}
		wantSlope, want := seconds.line(y[0]+y[1], xy[0]+xy[1], float64(n))
		if slope, intercept, ok := flatLine(vs); ok {
			wantSlope, want = slope, intercept
		}
		slope, got := Line(ts, vs, 7)
		exacttest.RequireSame(t, []float64{wantSlope, want}, []float64{slope, got}, fmt.Sprint(vs))
	}
}

// valueHeap sorts as Prometheus does, to which a NaN is less than a NaN, too.
type valueHeap []float64

func (s valueHeap) Len() int           { return len(s) }
func (s valueHeap) Less(i, j int) bool { return math.IsNaN(s[i]) || s[i] < s[j] }
func (s valueHeap) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

// A quantile that is found among the few largest or smallest values has the bits that it has among all of
// them as Prometheus sorts them: of many NaNs, too, which move zeros of both signs.
func TestQuantileOf(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	odd := []float64{math.NaN(), math.Copysign(0, -1), math.Inf(1), math.Inf(-1), 0}
	for round := range 20_000 {
		vs := make([]float64, 1+r.IntN([]int{60, 400}[r.IntN(2)]))
		for k := range vs {
			vs[k] = float64(r.IntN(20) - 10) // with equal ones
			if r.IntN(2) == 0 {
				vs[k] = r.NormFloat64()
			}
			if r.IntN([]int{200, 2}[round%2]) == 0 {
				vs[k] = odd[r.IntN(len(odd))]
			}
		}
		q := []float64{0, 1, 0.5, 0.9, r.Float64()}[r.IntN(5)]
		sorted := slices.Clone(vs)
		sort.Sort(valueHeap(sorted))
		lower, upper, weight := position(q, len(vs))
		want := between(sorted[lower], sorted[upper], weight)
		exacttest.RequireSame(t, []float64{want}, []float64{innerQuantile(q, vs)}, fmt.Sprint(q, " of ", vs))
	}
}

// TestFastSum: sums by vectors have the bits of those whose values are added up one by one, of values of
// all kinds, whatever encloses their magnitudes.
func TestFastSum(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 13))
	for round := range 8000 {
		scale, middle := math.Pow(10, float64(r.IntN(600)-300)), []float64{0, 3, 1e6, -1e9}[r.IntN(4)]
		vs := make([]float64, 1+r.IntN([]int{30, 500, 3000}[r.IntN(3)]))
		for k := range vs {
			switch v := middle + r.NormFloat64(); round % 8 {
			case 0:
				vs[k] = math.Round(v*100) / 100
			case 1:
				vs[k] = math.Round(v * 1e6)
			case 2:
				vs[k] = math.Pow(v, float64(1+r.IntN(9)))
			default:
				vs[k] = v * scale
			}
			if round%10 == 9 && r.IntN(len(vs)) == 0 {
				vs[k] = exacttest.Odd(r)
			}
		}
		of := MagnitudesOf(vs)
		if round%5 == 4 {
			of.Most *= math.Pow(10, float64(r.IntN(20)))
		}
		exacttest.RequireSame(t, []float64{Sum(vs)}, []float64{FastSum(vs, of)}, fmt.Sprint("round ", round))
	}
}

// TestDiffer: words tell of each value whether it is not the one before, and there are none where a value
// is NaN.
func TestDiffer(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 14))
	for range 3000 {
		vs, odd := make([]float64, r.IntN(400)), false
		for i := range vs {
			if vs[i] = float64(r.IntN(3)-1) * math.Copysign(1, r.Float64()-0.5); r.IntN(5000) == 0 {
				vs[i], odd = math.NaN(), true
			}
		}
		out := Differ(vs, nil)
		words := len(out)
		switch {
		case odd && slices.ContainsFunc(vs[:max(0, len(vs)-1)/64*64], math.IsNaN):
			require.Zero(t, words)
		case hasWide && !odd:
			require.Equal(t, max(0, len(vs)-1)/64, words)
		}
		for i := range 64 * words {
			require.Equal(t, vs[i+1] != vs[i], out[i/64]>>(i%64)&1 == 1, "%v %v", vs[i], vs[i+1])
		}
	}
}

// TestMeans: means of windows in rows that know the magnitudes of the values have the bits of Prometheus's,
// however far values are from each other, of both signs, with zeros, large and tiny.
func TestMeans(t *testing.T) {
	if !hasWide {
		return // nothing calls it
	}
	r := rand.New(rand.NewPCG(3, 14))
	var rows Rows
	made, lossy := 0, 0
	for range 3000 {
		every, windows := 1+r.IntN(20), LeastRows+r.IntN(30)
		n := every * (1 + r.IntN(60/every+1))
		spread, exponent, negative, zeros := r.IntN(12), r.IntN(1700)-850, r.IntN(3) == 0, r.IntN(4) == 0
		vs := make([]float64, (windows-1)*every+n)
		for k := range vs {
			vs[k] = math.Ldexp(1+r.Float64(), exponent+r.IntN(spread+1))
			if negative && r.IntN(2) == 0 {
				vs[k] = -vs[k]
			}
			if zeros && r.IntN(3) > 0 {
				vs[k] = math.Copysign(0, vs[k])
			}
		}
		got := make([]float64, windows)
		rows.Set(vs, every, n, windows)
		if !rows.Means(MagnitudesOf(vs), got) {
			require.Greater(t, float64(n)*math.Ldexp(2, spread), 0x1p8, "exponent %d", exponent)
			continue
		}
		made++
		for k, v := range got {
			window := vs[k*every:][:n]
			require.Equal(t, math.Float64bits(Mean(window)), math.Float64bits(v), "window %d of %v", k, window)
			if _, c := Accumulate(window, 0, 0); c != 0 {
				lossy++
			}
		}
	}
	require.Greater(t, made, 1000)
	require.Greater(t, lossy, 10_000)
}

// TestUncertain: where Prometheus's errors may decide how a sum is rounded, it is uncertain.
func TestUncertain(t *testing.T) {
	sumOfTwo := func(large, little float64) (float64, bool) {
		var total Total
		require.True(t, total.Add(large))
		require.True(t, total.Add(little))
		return total.Sum(1e5)
	}
	const half = 1 << 7 // of the distance of floats at 2^60
	for _, little := range []float64{half - 10, half, half + 10} {
		_, ok := sumOfTwo(1<<60, little)
		require.False(t, ok, "%v", little)
	}
	v, ok := sumOfTwo(1<<60, half/2)
	require.True(t, ok)
	require.Equal(t, float64(1<<60), v)
	v, ok = sumOfTwo(1<<60, 2*half+half/2)
	require.True(t, ok)
	require.Equal(t, float64(1<<60+2*half), v)
}

// TestTotal: values are added without rounding, or declined where the unit does not divide them or they are
// too large.
func TestTotal(t *testing.T) {
	unit := new(big.Float).SetMantExp(big.NewFloat(1), totalBits)
	rapid.Check(t, func(t *rapid.T) {
		var total Total
		sum, most := new(big.Int), 0.0
		for _, exponent := range rapid.SliceOfN(rapid.IntRange(-1080, 1023), 1, 40).Draw(t, "exponents") {
			if rapid.Bool().Draw(t, "near") {
				exponent %= 100
			}
			v := math.Ldexp(rapid.Float64Range(-2, 2).Draw(t, "v"), exponent)
			x, accuracy := new(big.Float).Mul(big.NewFloat(v), unit).Int(nil)
			suits := accuracy == big.Exact && math.Abs(v) < 0x1p72
			require.Equal(t, suits, total.Add(v), "%x", v)
			if suits {
				sum.Add(sum, x)
				most = max(most, math.Abs(v))
			}
		}
		require.Equal(t, fromBig(sum), total.Units)
		require.Equal(t, most, total.most)
	})
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		require.False(t, new(Total).Add(v))
	}
}
