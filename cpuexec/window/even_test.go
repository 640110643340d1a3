package window

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/promwarp/promwarp/cpuexec/column"
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
		even.Even = even.Even.Cut(int32(cut), int32(end), nil)
		if rapid.Bool().Draw(t, "late") { // by less than 40 ms, and nobody overtakes another
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
			instant: rapid.Bool().Draw(t, "instant"),
		}
		anyOf := func() []uint64 { return make([]uint64, (s.Grid.Steps+63)/64) }
		var want, got bounds
		wantAny, gotAny := anyOf(), anyOf()
		wantCounts := want.find(timesOf(all, column.Runs{}), s, wantAny)
		gotCounts := got.find(timesOf(all, even), s, gotAny)
		require.Equal(t, wantAny, gotAny)
		require.Equal(t, wantCounts, gotCounts)
		require.Equal(t, want.total, got.total)
		rest, next := even.Even, got.from
		for k := got.from; k < got.to; k++ {
			if k == next {
				next += got.alike(k, &rest, s.Grid.Interval)
				continue
			}
			lo, hi, end := got.lo[k], got.hi[k], s.Grid.At(k)
			lo0, hi0, end0 := got.lo[k-1], got.hi[k-1], s.Grid.At(k-1)
			if require.Equal(t, hi0-lo0, hi-lo, "step %d", k); lo < hi {
				require.Equal(t, all[lo0]-end0, all[lo]-end, "step %d", k)
				require.Equal(t, all[hi0-1]-end0, all[hi-1]-end, "step %d", k)
			}
		}
		for k := range want.lo {
			end := s.Grid.At(k)
			hi := countNotAfter(all, end)
			require.Equal(t, hi, want.hi[k])
			require.Equal(t, hi, got.hi[k])
			lo := countNotAfter(all, end-s.Width)
			if s.instant {
				lo = max(lo, hi-1)
			}
			require.Equal(t, lo, want.lo[k])
			require.Equal(t, lo, got.lo[k])
		}
		for i := range all {
			require.Equal(t, all[i], timesOf(all, even).at(i))
		}
		for _, before := range []int32{0, 1} {
			since := make([]float64, len(got.hi))
			even.Since(got.hi, before, s.Grid.Start, s.Grid.Interval, since)
			for k, i := range got.hi {
				if i -= before; i >= 0 && int(i) < len(all) {
					require.Equal(t, float64(all[i]-s.Grid.At(k)), since[k])
				}
			}
		}
	})
}

// timesOf are times that runs are those of, if there are any.
func timesOf(ts []int64, runs column.Runs) *times {
	t := &times{}
	t.set(column.Times{Own: ts}, ts)
	t.runs = runs
	return t
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
