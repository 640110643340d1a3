package results

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// What is recalled is what an evaluation over the samples of the present revisions
// gives, and as many steps as there may be are known after they were evaluated.
func TestMemory(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(4, seed))
		reg := prometheus.NewPedanticRegistry()
		limit := []int64{1 << 20, 30_000}[seed%2]
		m := New(limit, reg)
		reach := Reach{Width: 50, Offset: 10}
		// Each tile of 200 ms has a revision, and values are those of the last one read.
		tiles := make([]uint64, 60)
		for i := range tiles {
			tiles[i] = uint64(i + 1)
		}
		revision := uint64(len(tiles))
		recalled := 0
		for range 300 {
			if r.IntN(4) == 0 {
				revision++
				tiles[r.IntN(len(tiles))] = revision
			}
			p := &selection.Provenance{Selector: fmt.Sprint(r.IntN(3))}
			until := r.IntN(len(tiles))
			for i, rev := range tiles[:until] {
				p.Settled = append(p.Settled, selection.Settled{From: int64(i) * 200, To: int64(i+1) * 200, Revision: rev})
			}
			now := func(g plan.Grid) *Values { // evaluates with the present revisions
				v := evaluate(g, 0)
				for i := range v.Rows {
					at := 0
					for _, run := range v.Rows[i].Runs {
						for k := run.First; k < run.First+run.Len; k++ {
							last, first := g.At(int(k))-reach.Offset, g.At(int(k))-reach.Offset-reach.Width+1
							v.Rows[i].Values[at] += float64(1000*tiles[min(last/200, 59)] + tiles[min(max(first, 0)/200, 59)])
							at++
						}
					}
				}
				return v
			}
			g := plan.Grid{Start: 100 + r.Int64N(8000), Interval: []int64{20, 70}[r.IntN(2)], Steps: 2 + r.IntN(100)}
			g.Start -= g.Start % 10
			key := Key{p.Selector, "leaf", g.Interval, g.Start % g.Interval}
			whole := now(g)
			if found, from := m.Lookup(key, reach, g, p); found != nil {
				n := found.To - found.From
				recalled += n
				require.LessOrEqual(t, from+n, g.Steps)
				got, want := Join(*found), Join(StepRange{whole, from, from + n})
				if from > 0 {
					require.NotEqual(t, int64(-1), got.Fresh[0])
				} else {
					got.Fresh[0], want.Fresh[0] = 0, 0
				}
				require.Equal(t, want.Grid, got.Grid)
				require.Equal(t, want.All, got.All)
				require.Equal(t, want.Fresh, got.Fresh)
				require.Equal(t, sortedRows(want), sortedRows(got))
			}
			m.Store(key, reach, whole, p)
			require.LessOrEqual(t, m.Bytes(), limit)
		}
		require.Positive(t, recalled)
		var bytes int64
		for _, e := range m.byKey.Values() {
			bytes += e.size
			require.Less(t, e.values.size(), e.size)
			require.NotContains(t, e.values.Fresh[1:], int64(-1))
		}
		require.Equal(t, bytes, m.Bytes())
		if limit < 1<<20 {
			require.Positive(t, testutil.ToFloat64(m.evicted))
		}
	}
}

// What is used least recently goes first, and what is too large for the limit is not
// remembered.
func TestMemoryForgets(t *testing.T) {
	p := &selection.Provenance{Settled: []selection.Settled{{From: -1 << 40, To: 1 << 40, Revision: 1}}}
	g := plan.Grid{Interval: 10, Steps: 100}
	reach := Reach{Width: 10}
	one := New(1<<20, nil)
	one.Store(Key{Leaf: "0", Interval: 10}, reach, evaluate(g, 1), p)
	m := New(5*one.Bytes(), nil)
	knows := func(leaf string) bool {
		found, _ := m.Lookup(Key{Leaf: leaf, Interval: 10}, reach, g, p)
		return found != nil
	}
	for i := range 6 {
		m.Store(Key{Leaf: fmt.Sprint(i), Interval: 10}, reach, evaluate(g, 1), p)
		require.True(t, knows("0"))
	}
	require.True(t, knows("5"))
	require.False(t, knows("1"))
	m.Store(Key{Leaf: "5", Interval: 10}, reach, evaluate(plan.Grid{Interval: 10, Steps: 1000}, 1), p)
	require.False(t, knows("5"))
	require.True(t, knows("0"))
	require.Nil(t, New(0, nil))
}

// A dashboard that moves on and on needs no more memory than at the start.
func TestMemoryOfMovingOn(t *testing.T) {
	m := New(1<<20, nil)
	reach := Reach{Width: 10}
	most := int64(0)
	for k := range int64(2000) {
		p := &selection.Provenance{Settled: []selection.Settled{{From: -1 << 40, To: 1000 + k*10, Revision: 1}}}
		g := plan.Grid{Start: k * 10, Interval: 10, Steps: 100}
		m.Store(Key{Interval: 10}, reach, evaluate(g, 1), p)
		if k < 200 {
			most = max(most, m.Bytes())
		}
	}
	require.Less(t, m.Bytes(), most*3/2)
}

func TestMemoryConcurrently(t *testing.T) {
	m := New(40_000, nil)
	reach := Reach{Width: 10}
	p := &selection.Provenance{Settled: []selection.Settled{{From: -1 << 40, To: 1 << 40, Revision: 1}}}
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(5, uint64(n)))
			for range 200 {
				g := plan.Grid{Start: r.Int64N(100) * 10, Interval: 10, Steps: 2 + r.IntN(100)}
				key := Key{Leaf: fmt.Sprint(r.IntN(4)), Interval: 10}
				if found, from := m.Lookup(key, reach, g, p); found != nil {
					got, want := Join(*found), Join(StepRange{evaluate(g, 1), from, from + found.To - found.From})
					if !slices.EqualFunc(sortedRows(got), sortedRows(want), func(a, b plan.Row) bool {
						return slices.Equal(a.Values, b.Values) && slices.Equal(a.Runs, b.Runs)
					}) {
						t.Error("other values")
					}
				}
				m.Store(key, reach, evaluate(g, 1), p)
			}
		})
	}
	all.Wait()
}

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
		from, to := reach.Settled(g, p.Settled, p.Settled)
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
