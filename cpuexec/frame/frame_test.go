package frame

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
	"github.com/promwarp/promwarp/plan"
)

// Windows found by arithmetic are those found by looking at every sample.
func TestEvenRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ts := rapid.SliceOfN(rapid.Custom(drawRun), 1, 5).Draw(t, "runs")
		var all []int64
		at := int64(rapid.IntRange(-2000, 2000).Draw(t, "first"))
		for _, r := range ts {
			for _, d := range r {
				at += d
				all = append(all, at)
			}
		}
		cut := rapid.IntRange(0, len(all)-1).Draw(t, "cut")
		end := rapid.IntRange(cut, len(all)).Draw(t, "end")
		known, tail := all[:end], all[end:]
		even := column.Runs{}.Add(known)
		even = cutRuns(even, int32(cut))
		if rapid.Bool().Draw(t, "late") { // by less than 40 ms, and none overtakes another
			at := int32(0)
			for _, r := range even.Even {
				for ; at < r.To; at++ {
					i, most := cut+int(at), min(r.Every-1, 40)
					if i+1 < len(all) { // which is of another run, maybe
						most = min(most, all[i+1]-all[i]-1)
					}
					all[i] += rapid.Int64Range(0, most).Draw(t, "ms")
				}
			}
			even = column.Runs{Late: []uint16{}}.Add(all[cut:end])
		}
		even = even.Add(tail)
		all = all[cut:]
		requireRuns(t, all, even)
		if len(all) == 0 {
			return
		}
		s := Span{
			Grid: plan.Grid{
				Start:    all[0] + int64(rapid.IntRange(-500, 500).Draw(t, "start")),
				Interval: drawInterval(t),
				Steps:    rapid.IntRange(1, 200).Draw(t, "steps"),
			},
			Scan:    &plan.Scan{},
			Width:   int64(rapid.IntRange(1, 400).Draw(t, "width")),
			Instant: rapid.Bool().Draw(t, "instant"),
		}
		anyOf := func() []uint64 { return make([]uint64, (s.Grid.Steps+63)/64) }
		var want, got Bounds
		wantAny, gotAny := anyOf(), anyOf()
		wantCounts := want.find(timesOf(all, column.Runs{}), s, wantAny)
		gotCounts := got.find(timesOf(all, even), s, gotAny)
		require.Equal(t, wantAny, gotAny)
		require.Equal(t, wantCounts, gotCounts)
		require.Equal(t, want.total, got.total)
		rest, next := even.Even, got.From
		for k := got.From; k < got.To && even.Late == nil; k++ {
			if k == next {
				next += got.alike(k, &rest, s.Grid.Interval)
				continue
			}
			lo, hi, end := got.Lo[k], got.Hi[k], s.Grid.At(k)
			lo0, hi0, end0 := got.Lo[k-1], got.Hi[k-1], s.Grid.At(k-1)
			if require.Equal(t, hi0-lo0, hi-lo, "step %d", k); lo < hi {
				require.Equal(t, all[lo0]-end0, all[lo]-end, "step %d", k)
				require.Equal(t, all[hi0-1]-end0, all[hi-1]-end, "step %d", k)
			}
		}
		for k := range want.Lo {
			end := s.Grid.At(k)
			hi := countNotAfter(all, end)
			require.Equal(t, hi, want.Hi[k])
			require.Equal(t, hi, got.Hi[k])
			lo := countNotAfter(all, end-s.Width)
			if s.Instant {
				lo = max(lo, hi-1)
			}
			require.Equal(t, lo, want.Lo[k])
			require.Equal(t, lo, got.Lo[k])
		}
		for i := range all {
			require.Equal(t, all[i], timesOf(all, even).At(i))
		}
		for _, before := range []int32{0, 1} {
			since := make([]float64, len(got.Hi))
			even.Since(got.Hi, before, s.Grid.Start, s.Grid.Interval, since)
			for k, i := range got.Hi {
				if i -= before; i >= 0 && int(i) < len(all) {
					require.Equal(t, float64(all[i]-s.Grid.At(k)), since[k])
				}
			}
		}
	})
}

// timesOf are times that runs are those of, if there are any.
func timesOf(ts []int64, runs column.Runs) *times {
	return &times{of: column.Times{Own: ts}, tail: ts, n: len(ts), runs: runs}
}

// cutRuns are runs from sample from on.
func cutRuns(runs column.Runs, from int32) (out column.Runs) {
	for k, e := range runs.Even {
		if lo := max(e.From, from); lo < e.To {
			out.Even = append(out.Even, column.EvenRun{From: lo - from, To: e.To - from, First: runs.At(k, lo), Every: e.Every})
		}
	}
	return out
}

func drawRun(t *rapid.T) []int64 {
	n, every := rapid.IntRange(1, 80).Draw(t, "samples"), int64(rapid.IntRange(1, 40).Draw(t, "every"))
	return slices.Repeat([]int64{every}, n)
}

// requireRuns checks that runs, without gaps between them, are those of ts.
func requireRuns(t require.TestingT, ts []int64, runs column.Runs) {
	at := int32(0)
	for k, r := range runs.Even {
		require.Equal(t, at, r.From)
		require.Less(t, r.From, r.To)
		for ; at < r.To; at++ {
			require.Equal(t, ts[at], runs.At(k, at))
		}
	}
	require.Len(t, ts, int(at))
}

func countNotAfter(ts []int64, t int64) int32 {
	n := int32(0)
	for n < int32(len(ts)) && ts[n] <= t {
		n++
	}
	return n
}

// drawInterval draws a distance of steps: any, or one that many distances of samples
// are a divisor of.
func drawInterval(t *rapid.T) int64 {
	if rapid.Bool().Draw(t, "divisible") {
		return 60
	}
	return int64(rapid.IntRange(1, 90).Draw(t, "interval"))
}

// TestNone: a sample that turns out to be none is subtracted, where somebody asks.
func TestNone(t *testing.T) {
	counts := NewStepCounts(3)
	counts.None(1)
	require.Equal(t, &StepCounts{[]int64{0, -1, 0}, []int64{0, -1, 0}}, counts)
	counts = nil
	counts.None(1)
}

// TestExtrapolations: of windows whose ends are not far from their samples the factors are those that
// each by itself has, and the nears a little more.
func TestExtrapolations(t *testing.T) {
	d := exacttest.Abreast{Vectors: hasVectors}
	r := rand.New(rand.NewPCG(18, 4))
	for range 50 {
		for n := range 71 {
			width, odd := 1+r.Int64N(1<<[]int{12, 20, 31}[r.IntN(3)]-1), r.IntN(2) == 0
			seconds := []float64{0, SecondsOf(width)}[r.IntN(2)]
			lo, hi := make([]int32, n), make([]int32, n)
			lasts, firsts, factors, nears := make([]float64, n+4), make([]float64, n), make([]float64, n), make([]float64, n)
			for k := range n {
				lo[k] = r.Int32N(1000)
				hi[k] = lo[k] + 2 + r.Int32N(1<<r.IntN(10))
				spacing := width / int64(hi[k]-lo[k])
				lead, trail := r.Int64N(spacing+1)*9/10, r.Int64N(spacing+1)*9/10
				if odd && r.IntN(40) == 0 {
					hi[k], lead, trail = lo[k]+r.Int32N(3), r.Int64N(width/2+1), r.Int64N(width/2+1)
				}
				firsts[k], lasts[k] = float64(lead), -float64(trail)
			}
			copy(factors, lasts)
			copy(nears, firsts)
			made := extrapolations(factors, nears, lo, hi, width, seconds)
			out := make([]float64, n+4)
			for k := range out {
				if out[k] = 0.5; k < made {
					out[k] = factors[k]
				}
			}
			shapeOf := func(k int) shape {
				lead, trail := int64(firsts[k]), -int64(lasts[k])
				return newShape(int(hi[k]-lo[k]), lead, trail, width-lead-trail, seconds)
			}
			d.Require(t, made, out, func(k int) bool {
				covered := float64(width) - firsts[k] + lasts[k]
				return hi[k]-lo[k] < 2 || max(firsts[k], -lasts[k])*float64(hi[k]-lo[k]-1) >= covered*1.0999
			}, func(k int) float64 { sh := shapeOf(k); return sh.extrapolate(sh.toStart) })
			for k := range n {
				if k >= made {
					require.Equal(t, []float64{lasts[k], firsts[k]}, []float64{factors[k], nears[k]})
					continue
				}
				sh := shapeOf(k)
				sh.seconds = 0
				require.Equal(t, float64((sh.extrapolate(sh.toStart)-1)*(1+slack))+1e-14, nears[k])
				require.GreaterOrEqual(t, nears[k], sh.near())
			}
		}
	}
	d.Enough(t)
}

// TestSpread: the least and the most samples of windows, and all.
func TestSpread(t *testing.T) {
	r := rand.New(rand.NewPCG(18, 5))
	for range 60 {
		for n := range 71 {
			at := r.IntN(4)
			lo, hi := make([]int32, at+n)[at:], make([]int32, at+n)[at:]
			for k := range n {
				hi[k] = r.Int32N(300)
				lo[k] = hi[k] - r.Int32N(hi[k]+1)
			}
			if n > 0 && r.IntN(4) == 0 {
				k := r.IntN(n)
				lo[k], hi[k] = 0, math.MaxInt32
			}
			least, most, total, made := spread(lo, hi)
			if !hasVectors {
				n = 0
			}
			require.Equal(t, n&^7, made)
			wantLeast, wantMost, want := int32(math.MaxInt32), int32(0), int64(0)
			for k := range made {
				in := hi[k] - lo[k]
				wantLeast, wantMost, want = min(wantLeast, in), max(wantMost, in), want+int64(in)
			}
			require.Equal(t, []int64{int64(wantLeast), int64(wantMost), want}, []int64{int64(least), int64(most), total})
		}
	}
}

// TestMark: the steps are marked whose windows have enough samples.
func TestMark(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		steps := 1 + r.IntN(300)
		b := Bounds{Lo: make([]int32, steps), Hi: make([]int32, steps), From: r.IntN(steps + 1), least: math.MinInt32}
		b.To = b.From + r.IntN(steps+1-b.From)
		samples := int32(1 + r.IntN(3))
		want, points := make([]uint64, (steps+63)/64), 0
		for k := range steps {
			b.Lo[k] = int32(r.IntN(1000))
			b.Hi[k] = b.Lo[k] + int32(r.IntN(5))
			if k >= b.From && k < b.To && b.Hi[k]-b.Lo[k] >= samples {
				want[k>>6] |= 1 << (k & 63)
				points++
			}
		}
		got := make([]uint64, len(want))
		require.Equal(t, points, b.mark(got, samples))
		require.Equal(t, want, got)
	}
}

// TestBunches: each step with samples is in one stride, one bunch or the rest, windows are what these say,
// and of late samples most are in bunches.
func TestBunches(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 7))
	bunched, all := 0, 0
	for range 200 {
		const minute = 60_000
		late, ts := []int64{0, 700, 7000}[r.IntN(3)], []int64{}
		for at := int64(0); at < 300*minute; at += 15_000 {
			if r.IntN(200) > 0 {
				ts = append(ts, at+r.Int64N(late+1)-late/2)
			}
		}
		w := Span{Grid: plan.Grid{Start: 2 * minute, Interval: minute, Steps: 290}, Scan: &plan.Scan{}, Width: (1 + r.Int64N(8)) * minute}
		f := &Frame{}
		of := column.NewSamples(ts, make([]float64, len(ts))).Times
		f.reset(w, of, of.Own)
		strides, rest := f.Bunches()
		if strides == nil {
			continue // all steps are the rest
		}
		var found []int
		for i := range strides {
			s := &strides[i]
			require.GreaterOrEqual(t, s.Number(), exact.LeastRows)
			for i := range s.Number() {
				k := s.Step(i)
				found = append(found, k)
				require.EqualValues(t, s.Samples, f.Hi[k]-f.Lo[k])
				if s.Steps != nil {
					require.Equal(t, f.Lo[k], s.Firsts[i])
					bunched++
				} else {
					require.EqualValues(t, i*s.Every, f.Lo[k]-f.Lo[s.From])
				}
			}
		}
		for _, k := range rest {
			found = append(found, int(k))
		}
		slices.Sort(found)
		var want []int
		for k, hi := range f.Hi {
			if hi > f.Lo[k] {
				want = append(want, k)
			}
		}
		require.Equal(t, want, found)
		all += len(want)
	}
	require.True(t, !exact.CanAbreast() || bunched > all/3, "%d of %d", bunched, all)
}
