package results

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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
		for _, at := range m.byKey {
			e := at.Value.(*entry)
			bytes += e.size
			require.Less(t, e.values.size(), e.size)
			require.NotContains(t, e.values.Fresh[1:], int64(-1))
		}
		require.Equal(t, bytes, m.Bytes())
		require.Equal(t, m.order.Len(), len(m.byKey))
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
