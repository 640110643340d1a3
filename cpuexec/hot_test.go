package cpuexec

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

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
			for range 150 {
				w := &plan.Window{Scan: &plan.Scan{Offset: int64(r.IntN(3)) * 60_000}, Width: int64(1+r.IntN(40)) * 15_000, Param: 0.5, Trend: 0.5}
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
				require.LessOrEqual(t, hot.DecodedBytes(), limit)
			}
			t.Logf("%d samples from columns, %d decoded, %d bytes kept", fromColumns, decoded, hot.DecodedBytes())
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
		require.Greater(t, x.DecodedBytes(), int64(12*200*8))
		runtime.KeepAlive(sel)
	}()
	runtime.GC()
	runtime.GC()
	require.Zero(t, x.DecodedBytes())
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
