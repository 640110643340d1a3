package cpuexec

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// TestByGroup: answers, statistics and errors are the same whether groups are left to
// cores or batches are added by all of them.
func TestByGroup(t *testing.T) {
	const series, samples = 60, 600
	b := selection.NewBuilder(0)
	for s := range series {
		b.Series(labels.FromStrings("__name__", "m", "few", fmt.Sprint(s%4), "s", fmt.Sprintf("%02d", s)))
		partOf(b, t, s, s*7, samples)
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	require.Greater(t, int(sel.NumSamples()), operator.InlineSamples)
	grid := plan.NewGrid(0, samples*15_000, 60_000)
	for _, f := range aggregate.Functions() {
		op, name := &f.AggregateFunc, f.Name
		if !op.Adds() {
			continue
		}
		for _, most := range []int{0, 1000} { // samples
			var want string
			for _, workers := range []int{1, 2, 4, 16} {
				x := New(Options{Workers: workers})
				m, err := x.Run(t.Context(), Job{
					Node: &plan.Aggregate{
						Func: op, Grouping: []string{"few"},
						Input: &plan.Window{Scan: &plan.Scan{}, Width: 300_000, Func: window.Named("last_over_time")},
					},
					Grid: grid, MaxSamples: most,
					Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
						return sel, nil, nil
					},
				})
				got := fmt.Sprint(err)
				if most > 0 {
					require.ErrorIs(t, err, promql.ErrTooManySamples("query execution"))
				} else {
					require.NoError(t, err)
					got = fmt.Sprint(m.Peak, m.SamplesAtStep, m.NewSamplesAtStep)
					for _, row := range m.Rows {
						got += fmt.Sprint(row.Labels, row.Runs)
						for _, v := range row.Values {
							got += fmt.Sprintf(" %x", math.Float64bits(v))
						}
					}
					require.Len(t, m.Rows, 4)
					m.Release()
				}
				if workers == 1 {
					want = got
				}
				require.Equal(t, want, got, "%s by %d", name, workers)
			}
		}
	}
}

// TestGroupsSize: groups say how much memory they take, as notes on a selection.
func TestGroupsSize(t *testing.T) {
	const series, perGroup = 6000, 3
	at := func(i int) labels.Labels {
		return labels.FromStrings("instance", fmt.Sprintf("%06d", i/perGroup), "cpu", fmt.Sprint(i%perGroup))
	}
	g := operator.Group(t.Context(), &plan.Aggregate{Grouping: []string{"instance"}}, series, at)
	require.Len(t, g.Labels, series/perGroup)
	require.Equal(t, slices.Repeat([]int32{perGroup}, series/perGroup), g.Sizes)
	want := 4*series + series/perGroup*int64(4+uint64(unsafe.Sizeof(labels.Labels{}))+labels.FromStrings("instance", "000000").ByteSize())
	require.EqualValues(t, want, g.SizeBytes())

	notes := selection.Empty().Notes
	before := notes.SizeBytes()
	selection.Note(notes, groupsKey{by: "instance"}, func() operator.Groups { return g })
	require.Greater(t, notes.SizeBytes()-before, int64(want))
}

// TestTold: the progress of a query counts every sample that a window function was evaluated over.
func TestTold(t *testing.T) {
	const samples = 600
	b := selection.NewBuilder(0)
	for i, s := range []int{2, 8, 10} { // without gaps and stale markers
		b.Series(labels.FromStrings("__name__", "m", "s", fmt.Sprint(i)))
		partOf(b, t, s, 0, samples)
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	var told selection.Progress
	_, err = New(Options{Workers: 2}).Run(t.Context(), Job{
		Progress: &told,
		Node:     &plan.Window{Scan: &plan.Scan{}, Width: 300_000, Func: window.Named("sum_over_time")},
		Grid:     plan.NewGrid(0, samples*15_000, 60_000),
		Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return sel, nil, nil
		},
	})
	require.NoError(t, err)
	require.EqualValues(t, 3*samples, told.Evaluated())
}

// TestChainsLetGo: in a deep chain of operators no more memory is alive than is charged,
// whenever a leaf is fetched.
func TestChainsLetGo(t *testing.T) {
	const series, steps, levels = 50, 1000, 150
	b := selection.NewBuilder(0)
	for i := range series {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprintf("%02d", i)))
		var ts []int64
		var vs []float64
		for k := range 100 {
			ts, vs = append(ts, int64(k)*600_000), append(vs, float64(i+k%7))
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[len(ts)-1], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
	}
	sel, err := b.Finish()
	require.NoError(t, err)

	leaf := func() plan.Node {
		return &plan.Window{Scan: &plan.Scan{Origin: plan.Origin{Text: "m"}}, Func: window.Named("last_over_time"), Width: 600_000, Origin: plan.Origin{Text: "last_over_time(m)"}}
	}
	matching := &parser.VectorMatching{Card: parser.CardManyToMany}
	either := func(n plan.Node) plan.Node {
		return &plan.Set{Op: plan.Or, LHS: n, RHS: leaf(), Matching: matching, Origin: plan.Origin{Text: "or"}}
	}
	for name, level := range map[string]func(plan.Node) plan.Node{
		"set": either,
		"sum": func(n plan.Node) plan.Node {
			return either(&plan.Aggregate{Func: aggregate.Named("sum"), Input: n, Grouping: []string{"i"}, Origin: plan.Origin{Text: "sum"}})
		},
		"quantile": func(n plan.Node) plan.Node {
			return either(&plan.Aggregate{Func: aggregate.Named("quantile"), Param: 0.5, Input: n, Grouping: []string{"i"}, Origin: plan.Origin{Text: "quantile"}})
		},
		"binary": func(n plan.Node) plan.Node {
			return &plan.Binary{Func: vector.Named("+"), LHS: n, RHS: leaf(), Matching: &parser.VectorMatching{Card: parser.CardOneToOne}, Origin: plan.Origin{Text: "+"}}
		},
		"merged": func(n plan.Node) plan.Node {
			return either(&plan.Map{Func: vector.Named("abs"), Unary: plan.Unary{Input: n, Origin: plan.Origin{Text: "abs"}}})
		},
		"step map": func(n plan.Node) plan.Node {
			return either(&plan.StepMap{Func: vector.Named("round"), Operands: []plan.Node{n, &plan.Time{}}, Origin: plan.Origin{Text: "round"}})
		},
		"absent": func(n plan.Node) plan.Node {
			return either(&plan.Absent{Unary: plan.Unary{Input: n, Origin: plan.Origin{Text: "absent"}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := leaf()
			for range levels {
				n = level(n)
			}
			pool := memory.New(memory.Options{Limit: 1 << 40})
			lease := pool.Lease(memory.Evaluation)
			defer lease.Release()
			fetches, before := 0, uint64(0)
			live := func() uint64 {
				runtime.GC()
				runtime.GC() // what pools held, too
				var m runtime.MemStats
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			m, err := New(Options{Workers: 1}).Run(t.Context(), Job{
				merging: name == "merged",
				Node:    n, Grid: plan.Grid{Start: 600_000, Interval: 60_000, Steps: steps},
				Budget: &operator.Budget{Context: t.Context(), Lease: lease},
				Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
					fetches++
					switch {
					case fetches == 2:
						before = live()
					case fetches%50 == 0:
						require.Less(t, int64(live()-before), pool.Used()+4<<20, "at level %d", fetches)
					}
					return sel, nil, nil
				},
			})
			require.NoError(t, err)
			require.Equal(t, levels+1, fetches)
			m.Release()
		})
	}
}
