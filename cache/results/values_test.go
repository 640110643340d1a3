package results

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// truth is what a leaf comes to at a step: values of some of its rows, which depend
// on nothing but the time and the revision of the samples.
func truth(row int, t int64, revision uint64) (v float64, ok bool) {
	h := uint64(t)*7919 + uint64(row)*104729 + revision*1299709
	h ^= h >> 13
	return float64(h % 1000), h%5 > 0 && (row != 3 || t > 5000)
}

// evaluate computes values on a grid; fresh is known of all steps but the first.
func evaluate(g plan.Grid, revision uint64) *Values {
	v := &Values{Grid: g}
	for row := range 4 {
		out := plan.Row{Labels: labels.FromStrings("row", fmt.Sprint(row))}
		for k := range g.Steps {
			x, ok := truth(row, g.At(k), revision)
			if !ok {
				continue
			}
			out.Values = append(out.Values, x)
			if n := len(out.Runs) - 1; n >= 0 && int(out.Runs[n].First+out.Runs[n].Len) == k {
				out.Runs[n].Len++
			} else {
				out.Runs = append(out.Runs, plan.Run{First: int32(k), Len: 1})
			}
		}
		if len(out.Values) > 0 {
			v.Rows = append(v.Rows, out)
		}
	}
	for k := range g.Steps {
		v.All = append(v.All, g.At(k))
		v.Fresh = append(v.Fresh, g.At(k)*2)
	}
	v.Fresh[0] = -1
	return v
}

func sortedRows(v *Values) []plan.Row {
	rows := slices.Clone(v.Rows)
	slices.SortFunc(rows, func(a, b plan.Row) int { return labels.Compare(a.Labels, b.Labels) })
	return rows
}

func TestJoin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 500 {
		g := plan.Grid{Start: r.Int64N(10_000), Interval: 1 + r.Int64N(100), Steps: 1 + r.IntN(40)}
		whole := evaluate(g, 1)
		whole.Fresh[0] = whole.All[0] * 2
		var ranges []StepRange
		for at := 0; at < g.Steps; {
			before, after, n := r.IntN(5), r.IntN(5), 1+r.IntN(g.Steps-at)
			p := evaluate(plan.Grid{Start: g.At(at - before), Interval: g.Interval, Steps: before + n + after}, 1)
			p.Fresh[0] = p.All[0] * 2
			ranges = append(ranges, StepRange{p, before, before + n})
			at += n
		}
		got := Join(ranges...)
		require.Equal(t, g, got.Grid)
		require.Equal(t, whole.All, got.All)
		require.Equal(t, whole.Fresh, got.Fresh)
		require.Equal(t, sortedRows(whole), sortedRows(got))
		for _, row := range got.Rows {
			require.Equal(t, len(row.Values), cap(row.Values), "rows lie in one piece of memory")
		}
	}
}

// someSettled are stretches with gaps.
func someSettled(r *rand.Rand, revisions uint64) (out []selection.Settled) {
	for at := r.Int64N(300); at < 3000; {
		to := at + 1 + r.Int64N(600)
		out = append(out, selection.Settled{From: at, To: to, Revision: 1 + r.Uint64N(revisions)})
		if at = to; r.IntN(2) == 0 {
			at += r.Int64N(50)
		}
	}
	return out
}

// revisionOf is the revision at a time, 0 for none.
func revisionOf(ss []selection.Settled, t int64) uint64 {
	for _, s := range ss {
		if s.From <= t && t < s.To {
			return s.Revision
		}
	}
	return 0
}

// longest is the length of the longest run of steps of which all is true.
func longest(n int, is func(k int) bool) (most int) {
	run := 0
	for k := range n {
		if run++; !is(k) {
			run = 0
		}
		most = max(most, run)
	}
	return most
}

func TestSettled(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 2000 {
		p := &selection.Provenance{Settled: someSettled(r, 3)}
		g := plan.Grid{Start: r.Int64N(3000) - 500, Interval: 1 + r.Int64N(200), Steps: 1 + r.IntN(40)}
		reach := Reach{Width: 1 + r.Int64N(300), Offset: r.Int64N(400) - 200}
		within := func(k int) bool {
			for ts := g.At(k) - reach.Offset - reach.Width + 1; ts <= g.At(k)-reach.Offset; ts++ {
				if revisionOf(p.Settled, ts) == 0 {
					return false
				}
			}
			return true
		}
		from, to := reach.Settled(g, p)
		require.Equal(t, longest(g.Steps, within), to-from)
		for k := from; k < to; k++ {
			require.True(t, within(k))
		}
	}
}

func TestCommon(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 1000 {
		a, b := someSettled(r, 2), someSettled(r, 2)
		both := common(a, b)
		for ts := int64(0); ts < 4000; ts += 7 {
			rev := revisionOf(a, ts)
			want := rev != 0 && rev == revisionOf(b, ts)
			require.Equal(t, want, slices.ContainsFunc(both, func(s selection.Settled) bool { return s.From <= ts && ts < s.To }))
		}
		for i := 1; i < len(both); i++ {
			require.Less(t, both[i-1].To, both[i].From)
		}
	}
}

// Rows come in the order of the first of their first series.
func TestOrder(t *testing.T) {
	series := func(names ...string) (ls []labels.Labels) {
		for _, n := range names {
			ls = append(ls, labels.FromStrings("s", n))
		}
		return ls
	}
	rowOf := func(name string, first, n int32) plan.Row {
		return plan.Row{Labels: labels.FromStrings("g", name), Values: make([]float64, n), Runs: []plan.Run{{First: first, Len: n}}}
	}
	a := &Values{
		Grid: plan.Grid{Interval: 1, Steps: 3}, All: make([]int64, 3), Fresh: make([]int64, 3),
		Rows: []plan.Row{rowOf("x", 0, 3), rowOf("y", 1, 2)}, First: [][]int32{{0, 2, 2}, {1, 1}}, Series: series("a", "d", "e"),
	}
	b := &Values{
		Grid: plan.Grid{Start: 3, Interval: 1, Steps: 2}, All: make([]int64, 2), Fresh: make([]int64, 2),
		Rows: []plan.Row{rowOf("z", 0, 2), rowOf("x", 0, 2), rowOf("y", 0, 1)}, First: [][]int32{{1, 0}, {3, 3}, {2}}, Series: series("b", "c", "d", "e"),
	}
	for _, test := range []struct {
		ranges []StepRange
		want   []string
	}{
		{[]StepRange{{a, 0, 3}, {b, 0, 2}}, []string{"x", "z", "y"}}, // a, b, d
		{[]StepRange{{a, 1, 3}, {b, 0, 2}}, []string{"z", "y", "x"}}, // b, d, e
		{[]StepRange{{a, 1, 3}, {b, 0, 0}}, []string{"y", "x"}},
	} {
		v := Join(test.ranges...)
		for i := range v.Rows {
			require.Len(t, v.First[i], len(v.Rows[i].Values))
		}
		require.Positive(t, Join(StepRange{v, 0, v.Grid.Steps}).size())
		v.Order()
		var got []string
		for _, row := range v.Rows {
			got = append(got, row.Labels.Get("g"))
		}
		require.Equal(t, test.want, got)
	}
}
