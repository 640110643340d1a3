package aggregate

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// queryOf is a query over a number of steps, without limits.
func queryOf(workers, steps int) *operator.Query {
	return &operator.Query{Context: context.Background(), Grid: plan.NewGrid(0, int64(steps-1)*60_000, 60_000), Workers: workers, Matrix: &plan.Matrix{}}
}

// numbered are the series {n="0"}, {n="1"} …, in groups of neighbours by label g.
func numbered(n, inGroup int) *operator.Series {
	ls := make([]labels.Labels, n)
	for i := range ls {
		ls[i] = labels.FromStrings("g", fmt.Sprint(i/inGroup), "n", fmt.Sprint(i))
	}
	return &operator.Series{N: n, Labels: func(i int) labels.Labels { return ls[i] }}
}

// stockHeap is a heap of samples as Prometheus's engine builds it.
type stockHeap []stockSample

type stockSample struct {
	f      float64
	series int
}

func (h stockHeap) Len() int { return len(h) }

func (h stockHeap) Less(i, j int) bool { return math.IsNaN(h[i].f) || h[i].f < h[j].f }

func (h stockHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h *stockHeap) Push(x any) { *h = append(*h, x.(stockSample)) }

func (h *stockHeap) Pop() any { panic("never popped") }

// TestRankerHeaps: which of several equal values stays, and in what order, is
// as with Go's own heap, for any number of goroutines.
func TestRankerHeaps(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	value := func() float64 {
		if r.IntN(5) == 0 {
			return []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), 0}[r.IntN(5)]
		}
		return float64(r.IntN(8))
	}
	for range 200 {
		n, inGroup, steps, k := 1+r.IntN(60), 1+r.IntN(40), []int{1, 2, 64, 130}[r.IntN(4)], 1+r.IntN(20)
		vals := make([][]float64, n)
		present := make([][]bool, n)
		sparse := r.IntN(3)
		for i := range vals {
			vals[i], present[i] = make([]float64, steps), make([]bool, steps)
			for s := range steps {
				vals[i][s], present[i][s] = value(), r.IntN(4) >= sparse
			}
		}
		for _, name := range []string{"topk", "bottomk"} {
			node := &plan.Aggregate{Func: Named(name), Param: float64(k), Grouping: []string{"g"}}
			want := make([]map[int]float64, steps) // by step, the values that stay by series
			var first []string                     // the first step's, in order
			for s := range steps {
				want[s] = map[int]float64{}
				groups := map[int]*stockHeap{}
				var order []int
				for i := range n {
					if !present[i][s] {
						continue
					}
					f := vals[i][s]
					if name == "bottomk" {
						f = -f
					}
					h, ok := groups[i/inGroup]
					if !ok {
						h = &stockHeap{}
						groups[i/inGroup] = h
						order = append(order, i/inGroup)
					}
					switch top := *h; {
					case len(top) < k:
						heap.Push(h, stockSample{f, i})
					case top[0].f < f || (math.IsNaN(top[0].f) && !math.IsNaN(f)):
						top[0] = stockSample{f, i}
						heap.Fix(h, 0)
					}
				}
				for _, g := range order {
					h := groups[g]
					sort.Sort(sort.Reverse(h))
					for _, x := range *h {
						want[s][x.series] = vals[x.series][s]
						if s == 0 {
							first = append(first, fmt.Sprint(x.series))
						}
					}
				}
			}
			for workers := 1; workers < 4; workers++ {
				q := queryOf(workers, steps)
				a := newRanker(node, newParameter(slices.Repeat([]float64{node.Param}, steps)), q, numbered(n, inGroup), node.Func.Name == "bottomk")
				l := &operator.Loop{Query: q, Out: a, N: n, Fill: func(_, i int, out dense.Row, c *dense.Counts) error {
					for s, ok := range present[i] {
						if ok {
							out.Set(s, vals[i][s])
							c.Points++
						}
					}
					return nil
				}}
				require.NoError(t, l.Run())
				got := make([]map[int]float64, steps)
				for s := range got {
					got[s] = map[int]float64{}
				}
				var order []string
				for _, row := range a.Rows(q) {
					order = append(order, row.Labels.Get("n"))
					var i, at int
					_, _ = fmt.Sscan(row.Labels.Get("n"), &i)
					for _, run := range row.Runs {
						for s := run.First; s < run.First+run.Len; s++ {
							got[s][i] = row.Values[at]
							at++
						}
					}
					require.Len(t, row.Values, at)
				}
				require.Equal(t, fmt.Sprint(want), fmt.Sprint(got), "%s %d of %d in groups of %d, %d workers", name, k, n, inGroup, workers)
				if steps == 1 {
					require.Equal(t, first, order)
				}
			}
		}
	}
}

// BenchmarkRanker ranks 1300 series at 1440 steps: independent random values,
// and random walks, which keep their rank for a while as gauges do.
func BenchmarkRanker(b *testing.B) {
	const n, steps = 1300, 1440
	for _, walk := range []bool{false, true} {
		r := rand.New(rand.NewPCG(3, 4))
		vals := make([][]float64, n)
		for i := range vals {
			vals[i] = make([]float64, steps)
			v := r.NormFloat64() * 50
			for k := range vals[i] {
				if v += r.NormFloat64(); !walk {
					v = r.NormFloat64()
				}
				vals[i][k] = v
			}
		}
		for _, name := range []string{"topk", "bottomk", "limitk"} {
			for _, k := range []float64{1, 5, 10, 100} {
				node := &plan.Aggregate{Func: Named(name), Param: k}
				in := numbered(n, n)
				b.Run(fmt.Sprintf("%s/k=%v/walk=%v", name, k, walk), func(b *testing.B) {
					q := queryOf(runtime.GOMAXPROCS(0), steps)
					for b.Loop() {
						s := Of(node.Func).selector(node, newParameter(slices.Repeat([]float64{node.Param}, steps)), q, in)
						l := &operator.Loop{Query: q, Out: s, N: n, Fill: func(_, i int, out dense.Row, c *dense.Counts) error {
							copy(out.Values, vals[i])
							for w := range out.Present {
								out.Present[w] = ^uint64(0)
							}
							out.Present[len(out.Present)-1] >>= 64*len(out.Present) - steps
							c.Points = steps
							return nil
						}}
						if l.Run() != nil || len(s.Rows(q)) == 0 {
							b.Fatal("no rows")
						}
					}
				})
			}
		}
	}
}

// TestFullWords: adding stretches of values yields the same bits as adding them
// one by one, and the same in any order where the operator says so.
func TestFullWords(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, f := range Functions() {
		if name := f.Name; f.Adds() {
			for range 3000 {
				const n = 70
				one, all, backwards := newCells(f.adds, n), newCells(f.adds, n), newCells(f.adds, n)
				var values [][]float64
				usual := r.IntN(2) == 0 // values that overflow nowhere
				for series := range 1 + r.IntN(12) {
					in := make([]float64, n)
					for k := range in {
						if in[k] = exacttest.Odd(r); usual {
							in[k] = r.NormFloat64()
						}
						if series == 0 {
							f.adds.first(one, k, k+1, in[k:k+1])
						} else if k >= 3 && k < 67 {
							f.adds.more(one, k, k+1, in[k:k+1])
						}
					}
					values = append(values, in)
					if series > 0 {
						f.adds.more(all, 3, 67, in[3:67])
					} else {
						f.adds.first(all, 0, n, in)
					}
				}
				if f.AnyOrder {
					f.adds.first(backwards, 0, n, values[len(values)-1])
					for _, in := range slices.Backward(values[:len(values)-1]) {
						f.adds.more(backwards, 3, 67, in[3:67])
					}
					exacttest.RequireSame(t, one.val, backwards.val, name)
				}
				exacttest.RequireSame(t, one.val, all.val, name)
				exacttest.RequireSame(t, one.comp, all.comp, name)
				exacttest.RequireSame(t, one.n, all.n, name)
				require.Equal(t, one.incr, all.incr)
				want, got := make([]float64, n), make([]float64, n)
				f.adds.results(one, 0, want)
				f.adds.results(all, 0, got)
				exacttest.RequireSame(t, want, got, name)
			}
		}
	}
}

// BenchmarkAdd measures adding series of 1440 steps to one group, all with a
// value at every step, and of words of 64 steps by themselves.
func BenchmarkAdd(b *testing.B) {
	for _, steps := range []int{64, 1440} {
		r := rand.New(rand.NewPCG(1, 2))
		rows := make([]dense.Row, 16)
		for i := range rows {
			rows[i] = dense.New(steps)
			for k := range rows[i].Values {
				rows[i].Values[k] = float64(r.IntN(1_000_000)) / 7
			}
			rows[i].Mark(0, steps)
		}
		for _, op := range []string{"sum", "avg", "min", "max", "count", "stddev"} {
			b.Run(fmt.Sprintf("%s/%d", op, steps), func(b *testing.B) {
				a := NewAdder(&plan.Aggregate{Func: Named(op)}, queryOf(1, steps), numbered(1, 1), false)
				a.Allocate()
				b.SetBytes(int64(8 * steps * len(rows)))
				for b.Loop() {
					for i := range rows {
						a.AddSteps(0, rows[i], 0, a.words)
					}
				}
			})
		}
	}
}
