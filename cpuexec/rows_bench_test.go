package cpuexec

import (
	"context"
	"fmt"
	"math"
	"syscall"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/selectiontest"
)

// BenchmarkConsumeRows is what becomes of a window that an accelerator computed, from
// pieces of it to the matrix: whether the values stay where they are, or are copied.
func BenchmarkConsumeRows(b *testing.B) {
	for _, how := range []string{"copied", "lent"} {
		b.Run(how, func(b *testing.B) { benchmarkConsumeRows(b, how == "lent") })
	}
}

func benchmarkConsumeRows(b *testing.B, lent bool) {
	const series, steps, piece = 8192, 1024, 1024
	builder := selection.NewBuilder(0)
	data := selectiontest.Chunk(b, chunkenc.EncXOR, nil, []int64{1000}, []float64{1})
	for i := range series {
		builder.Series(labels.FromStrings("__name__", "points", "series", fmt.Sprintf("%07d", i)))
		require.NoError(b, builder.Chunk(chunkenc.EncXOR, 1000, 1000, data))
	}
	sel, err := builder.Finish()
	require.NoError(b, err)
	rows := Rows{
		Values: [][]float64{make([]float64, piece*steps)}, Each: piece, Present: make([]uint64, piece*steps/64),
		Counts: make([]SeriesCounts, piece), All: make([]int64, steps), Fresh: make([]int64, steps),
	}
	if lent {
		rows.Release = func() {}
	}
	for i := range rows.Present {
		rows.Present[i] = math.MaxUint64
	}
	for i := range rows.Counts {
		rows.Counts[i] = SeriesCounts{Points: steps, Most: 7, Last: 7}
	}
	job := Job{
		Node: &plan.Window{Scan: &plan.Scan{Origin: plan.Origin{Text: "m"}}, Func: window.Named("avg_over_time"), Width: 35_000, Origin: plan.Origin{Text: "avg_over_time(m)"}},
		Grid: plan.Grid{Start: 35_000, Interval: 35_000, Steps: steps},
		Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return sel, nil, nil
		},
		Accelerator: windower(func(consume func(Rows) error) (string, error) {
			for range series / piece {
				if err := consume(rows); err != nil {
					return "", err
				}
			}
			return "", nil
		}),
	}
	x := New(Options{})
	var before, after syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &before))
	b.ReportAllocs()
	for b.Loop() {
		m, err := x.Run(b.Context(), job)
		if err != nil || len(m.Rows) != series {
			b.Fatal(err, len(m.Rows))
		}
		m.Release()
	}
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &after))
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*series*steps), "ns/value")
	cpu := func(u *syscall.Rusage) int64 { return u.Utime.Nano() + u.Stime.Nano() }
	b.ReportMetric(float64(cpu(&after)-cpu(&before))/float64(b.N*series*steps), "cpu-ns/value")
	b.ReportMetric(float64(after.Minflt-before.Minflt)/float64(b.N), "faults/op")
}
