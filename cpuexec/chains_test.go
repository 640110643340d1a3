package cpuexec

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
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
			return either(&plan.Map{Func: vector.Named("abs"), Input: n, Merges: true, Origin: plan.Origin{Text: "abs"}})
		},
		"step map": func(n plan.Node) plan.Node {
			return either(&plan.StepMap{Func: vector.Named("round"), Operands: []plan.Node{n, &plan.Time{}}, Origin: plan.Origin{Text: "round"}})
		},
		"absent": func(n plan.Node) plan.Node {
			return either(&plan.Absent{Input: n, Origin: plan.Origin{Text: "absent"}})
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
				Node: n, Grid: plan.Grid{Start: 600_000, Interval: 60_000, Steps: steps},
				Budget: operator.NewBudget(t.Context(), 0, lease),
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
