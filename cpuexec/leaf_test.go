package cpuexec

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
	"github.com/promwarp/promwarp/selection/synthetic"
)

// windower is an accelerator that computes windows alone, with a function that may say
// why it declines the rest.
type windower func(consume func(*offload.Rows) error) (declined string, err error)

func (f windower) Suits(offload.Leaf) string           { return "" }
func (f windower) OnCores(offload.Leaf, time.Duration) {}

func (f windower) Evaluate(_ context.Context, _ offload.Leaf, consume func(*offload.Rows) error) (o offload.Outcome, err error) {
	o.Declined, err = f(consume)
	return o, err
}

// countedBy runs a count_over_time of two steps over three series whose windows f
// computes.
func countedBy(t *testing.T, f windower) (*plan.Matrix, error) {
	b := selection.NewBuilder(0)
	for i := range 3 {
		b.Series(labels.FromStrings("__name__", "m", "i", fmt.Sprint(i)))
		var ts []int64
		var vs []float64
		for k := range 12 {
			ts, vs = append(ts, int64(k)*15_000), append(vs, 1)
		}
		require.NoError(t, b.Chunk(chunkenc.EncXOR, ts[0], ts[11], selectiontest.Chunk(t, chunkenc.EncXOR, nil, ts, vs)))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	w := &plan.Window{Scan: &plan.Scan{Origin: plan.Origin{Text: "m"}}, Func: window.Named("count_over_time"), Width: 60_000, Origin: plan.Origin{Text: "count_over_time(m)"}}
	return New(Options{}).Run(t.Context(), Job{
		CountSamples: true,
		Node:         w, Grid: plan.Grid{Start: 60_000, Interval: 60_000, Steps: 2}, Accelerator: f,
		Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return sel, nil, nil
		},
	})
}

// TestConsumeRows: rows are consumed in the order in which they come, and the cores evaluate
// those that do not.
func TestConsumeRows(t *testing.T) {
	rows := &offload.Rows{
		Values: [][]float64{{1, 2, 3, 4}}, Each: 2, Present: [][]uint64{{3, 2}},
		Counts: []offload.SeriesCounts{{Points: 2, Most: 2, Last: 2}, {Points: 1, Most: 4, Last: 4}}, All: []int64{1, 6}, Fresh: []int64{1, 5},
	}
	m, err := countedBy(t, func(consume func(*offload.Rows) error) (string, error) { return "enough", consume(rows) })
	require.NoError(t, err)
	require.Len(t, m.Rows, 3)
	require.Equal(t, []float64{1, 2}, m.Rows[0].Values)
	require.Equal(t, []float64{4}, m.Rows[1].Values)
	require.Equal(t, []plan.Run{{First: 1, Len: 1}}, m.Rows[1].Runs)
	require.Equal(t, []float64{4, 4}, m.Rows[2].Values, "the cores'")
	require.Equal(t, []int64{1 + 4, 6 + 4}, m.SamplesAtStep)
}

// TestLentRows: values whose memory is lent stay there until the matrix is released,
// unless they are few or the query fails. In any case it is given back once.
func TestLentRows(t *testing.T) {
	released := 0
	lent := func(present ...uint64) (*offload.Rows, []float64) {
		x := &offload.Rows{Each: 2, Values: [][]float64{{1, 2, 3, 4}, {5, 6}}, Present: [][]uint64{present}, All: make([]int64, 2), Fresh: make([]int64, 2)}
		for _, p := range present {
			x.Counts = append(x.Counts, offload.SeriesCounts{Points: uint32(bits.OnesCount64(p))})
		}
		released = 0
		x.Release = func() { released++ }
		return x, x.Values[0]
	}
	values := func(m *plan.Matrix) (all [][]float64) {
		for _, row := range m.Rows {
			all = append(all, row.Values)
		}
		return all
	}
	for _, c := range []struct {
		name    string
		present []uint64
		stay    bool
		want    [][]float64
	}{
		{"all", []uint64{3, 3, 3}, true, [][]float64{{1, 2}, {3, 4}, {5, 6}}},
		{"most", []uint64{2, 3, 0}, true, [][]float64{{2}, {3, 4}}},
		{"few", []uint64{2, 0, 1}, false, [][]float64{{2}, {5}}},
	} {
		x, first := lent(c.present...)
		m, err := countedBy(t, func(consume func(*offload.Rows) error) (string, error) { return "", consume(x) })
		require.NoError(t, err)
		require.Equal(t, c.want, values(m), c.name)
		for _, row := range m.Rows {
			require.Equal(t, len(row.Values), cap(row.Values), c.name)
		}
		before := m.Rows[0].Values[0]
		first[0], first[1] = 8, 8
		require.Equal(t, c.stay, m.Rows[0].Values[0] != before, c.name)
		require.Equal(t, c.stay, released == 0, c.name)
		m.Release()
		m.Release()
		require.Equal(t, 1, released, c.name)
	}
	x, _ := lent(3, 3, 3)
	failed := errors.New("failed")
	_, err := countedBy(t, func(consume func(*offload.Rows) error) (string, error) { return "", errors.Join(consume(x), failed) })
	require.ErrorIs(t, err, failed)
	require.Equal(t, 1, released, "the query fails later")
	x, _ = lent(3, 3, 3)
	x.Fresh = x.Fresh[:1]
	require.Panics(t, func() {
		_, _ = countedBy(t, func(consume func(*offload.Rows) error) (string, error) { return "", consume(x) })
	})
	require.Equal(t, 1, released, "a panic")
}

// computed is an accelerator that has computed an aggregation.
type computed struct {
	windower
	offload.Results
}

func (c computed) Evaluate(context.Context, offload.Leaf, func(*offload.Rows) error) (offload.Outcome, error) {
	return offload.Outcome{Results: c.Results}, nil
}

// TestComputed: of an aggregation over many series that was computed, the limit on samples strikes as it
// does series by series, steps without a value are left out, and memory is given back once: with the matrix.
func TestComputed(t *testing.T) {
	const series, steps = 20_000, 3
	sel, err := synthetic.Counters("m", series, 1)
	require.NoError(t, err)
	r, one := rand.New(rand.NewPCG(1, 2)), operator.SampleLimit{Window: true}
	x := computed{Results: offload.Results{Values: []float64{1, 2, 3, 0, 5, 6, 7, 0, 9, 0, 0, 0}}}
	for i, v := range x.Values {
		if v == 0 {
			x.Values[i] = math.Float64frombits(value.StaleNaN)
		}
	}
	for len(x.Values) < 20*steps {
		x.Values = append(x.Values, 1)
	}
	for i := range series {
		c := offload.SeriesCounts{Points: r.Uint32N(steps + 1), Most: 10 + r.Uint32N(50_000), Last: r.Uint32N(10)}
		if i%20 == 3 { // the group without values
			c.Points = 0
		}
		x.Counts = append(x.Counts, c)
		one.Add(countsOf(c))
	}
	released := 0
	run := func(most int) (*plan.Matrix, error) {
		own := x
		own.Values, own.Release, released = slices.Clone(x.Values), func() { released++ }, 0
		w := &plan.Window{Scan: &plan.Scan{Origin: plan.Origin{Text: "m"}}, Func: window.Named("count_over_time"), Width: 60_000, Origin: plan.Origin{Text: "count_over_time(m)"}}
		return New(Options{}).Run(t.Context(), Job{
			Node: &plan.Aggregate{Func: aggregate.Named("sum"), Input: w, Grouping: []string{"job"}}, MaxSamples: most,
			Grid: plan.Grid{Start: synthetic.Start, Interval: 60_000, Steps: steps}, Accelerator: own,
			Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
				return sel, nil, nil
			},
		})
	}
	m, err := run(one.Peak)
	require.NoError(t, err)
	require.Equal(t, one.Peak, m.Peak)
	require.Len(t, m.Rows, 19)
	for _, row := range m.Rows {
		switch row.Labels.Get("job") {
		case "job-1":
			require.Equal(t, []float64{5, 6}, row.Values)
			require.Equal(t, []plan.Run{{First: 1, Len: 2}}, row.Runs)
		case "job-2":
			require.Equal(t, []float64{7, 9}, row.Values)
			require.Equal(t, []plan.Run{{First: 0, Len: 1}, {First: 2, Len: 1}}, row.Runs)
		default:
			require.Len(t, row.Values, steps)
		}
	}
	require.Zero(t, released)
	m.Release()
	m.Release()
	require.Equal(t, 1, released)
	_, err = run(one.Peak - 1)
	require.Equal(t, promql.ErrTooManySamples("query execution"), err)
	require.Equal(t, 1, released)
}

// part of a series: samples [lo, hi) of a longer one, 15 s apart.
func partOf(b *selection.Builder, t testing.TB, series, lo, hi int) {
	const perChunk = 20
	for from := lo; from < hi; {
		to := min(from-from%perChunk+perChunk, hi)
		var ts, sts []int64
		var vs []float64
		for k := from; k < to; k++ {
			r := rand.New(rand.NewPCG(uint64(series), uint64(k)))
			v := float64(k%50) * r.Float64()
			if series%3 == 1 {
				v = math.Floor(v) // may be packed
			}
			if series%3 == 0 && r.IntN(20) == 0 {
				v = math.Float64frombits(value.StaleNaN)
			}
			if series%4 == 1 && r.IntN(5) == 0 && k > from {
				continue // a gap
			}
			ts, vs = append(ts, int64(k)*15_000+int64(series%2)), append(vs, v)
			sts = append(sts, startOf(series, k, ts[len(ts)-1]))
		}
		e := chunkenc.EncXOR
		if series%2 == 0 {
			e = chunkenc.EncXOR2
		}
		require.NoError(t, b.Chunk(e, ts[0], ts[len(ts)-1], selectiontest.Chunk(t, e, sts, ts, vs)))
		from = to
	}
}

// startOf is the start timestamp of sample k, at ts, of a series: that of a counter, of
// a delta, one that is there only in some stretches, or none.
func startOf(series, k int, ts int64) int64 {
	switch {
	case series%6 == 0:
		return int64(k/70)*70*15_000 - 7
	case series%6 == 2:
		return ts - 15_000
	case series%6 == 4 && k/90%2 == 0:
		return ts - int64(k%13)*4000
	}
	return 0
}

func seriesUpTo(t testing.TB, lo, hi int) *selection.Selection {
	b := selection.NewBuilder(0)
	for s := range 12 {
		b.Series(labels.FromStrings("__name__", "m", "s", fmt.Sprintf("%02d", s)))
		partOf(b, t, s, lo, hi)
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	return sel
}

// TestDecodedColumns: answers from decoded columns are those from chunks,
// whatever part of a series is decoded, and the columns stay within their limit.
func TestDecodedColumns(t *testing.T) {
	const all = 600
	rounds := 150
	if testing.Short() {
		rounds = 50
	}
	kept := seriesUpTo(t, 0, all).WithMemos(math.MaxInt64)
	var funcs []*plan.WindowFunc
	for _, f := range window.Functions() {
		funcs = append(funcs, &f.WindowFunc)
	}
	for _, limit := range []int64{1 << 20, 30_000, 80_000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			cold, hot := New(Options{Workers: 2}), New(Options{Workers: 2, DecodedBytes: limit})
			r := rand.New(rand.NewPCG(uint64(limit), 5))
			var fromColumns, decoded int64
			for range rounds {
				w := &plan.Window{Scan: &plan.Scan{Offset: int64(r.IntN(3)) * 60_000}, Width: int64(1+r.IntN(40)) * 15_000, Parameters: plan.Parameters{Param: 0.5, Trend: 0.5}}
				w.Func = funcs[r.IntN(len(funcs))]
				if w.Func == window.Interpolated {
					w.Extension = plan.Extension{Modifier: plan.Smoothed, After: w.Width}
				} else if n := len(w.Func.Modifiers); n > 0 && r.IntN(2) == 0 {
					w.Extension = plan.NewExtension(w.Func.Modifiers[r.IntN(n)], 300_000)
				}
				start := int64(r.IntN(all)) * 15_000
				grid := plan.NewGrid(start, start+int64(r.IntN(all*15_000)), int64(10+r.IntN(100))*1000)
				sel := kept
				switch mint, maxt := w.Reads(grid); r.IntN(3) {
				case 0:
					sel = kept.Slice(mint, maxt)
				case 1: // what is kept ends somewhere, and the newest was fetched anew
					at := r.IntN(all-2) + 1
					head, err := kept.Cut(context.Background(), math.MinInt64, int64(at)*15_000-1)
					require.NoError(t, err)
					if r.IntN(2) == 0 {
						head = head.WithMemos(int64(at) * 15_000)
					}
					sel, err = selection.Join(context.Background(), head, seriesUpTo(t, at, all))
					require.NoError(t, err)
				}
				job := Job{Node: w, Grid: grid, StartTimestamps: r.IntN(3) > 0, Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
					return sel, nil, nil
				}}
				want, err := cold.Run(t.Context(), job)
				require.NoError(t, err)
				require.Zero(t, want.Work.Kept)
				for range 2 {
					got, err := hot.Run(t.Context(), job)
					require.NoError(t, err)
					require.Equal(t, bitsOf(want.Rows), bitsOf(got.Rows), "%s over %d steps", w.Func.Name, grid.Steps)
					require.Equal(t, said(want), said(got), "%s over %d steps", w.Func.Name, grid.Steps)
					require.Equal(t, want.SamplesAtStep, got.SamplesAtStep)
					require.Equal(t, want.NewSamplesAtStep, got.NewSamplesAtStep)
					require.Equal(t, want.Peak, got.Peak)
					fromColumns += got.Work.Kept
					decoded += got.Work.Samples
				}
				require.LessOrEqual(t, hot.Columns().SizeBytes(), limit)
			}
			t.Logf("%d samples from columns, %d decoded, %d bytes kept", fromColumns, decoded, hot.Columns().SizeBytes())
			require.Greater(t, fromColumns, decoded/200)
		})
	}
}

// said is what a matrix has to say.
func said(m *plan.Matrix) []string {
	warnings, infos := m.Annotations.AsStrings("q", 0, 0)
	slices.Sort(warnings)
	slices.Sort(infos)
	return append(warnings, infos...)
}

// TestDecodedColumnsGo: columns go with the selection that they belong to.
func TestDecodedColumnsGo(t *testing.T) {
	x := New(Options{DecodedBytes: 1 << 20})
	func() {
		sel := seriesUpTo(t, 0, 200).WithMemos(math.MaxInt64)
		w := &plan.Window{Scan: &plan.Scan{}, Func: window.Last, Width: 300_000}
		_, err := x.Run(t.Context(), Job{Node: w, Grid: plan.NewGrid(0, 3_000_000, 60_000), Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return sel, nil, nil
		}})
		require.NoError(t, err)
		require.Greater(t, x.Columns().SizeBytes(), int64(12*200*8))
		runtime.KeepAlive(sel)
	}()
	runtime.GC()
	runtime.GC()
	require.Zero(t, x.Columns().SizeBytes())
}

// bitsOf renders rows so that NaNs compare by their bits.
func bitsOf(rows []plan.Row) []string {
	var out []string
	for _, r := range rows {
		s := fmt.Sprint(r.Labels, r.Runs)
		for _, v := range r.Values {
			s += fmt.Sprintf(" %x", math.Float64bits(v))
		}
		out = append(out, s)
	}
	return out
}
