package table

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/api/encode"
	"github.com/promwarp/promwarp/plan"
)

// matrix is a million points: a day of minutes of 700 series, as of rate().
func matrix() *plan.Matrix {
	r := rand.New(rand.NewPCG(1, 1))
	m := &plan.Matrix{Grid: plan.Grid{Start: 1_700_000_000_000, Interval: 60_000, Steps: 1440}}
	for i := range 700 {
		row := plan.Row{
			Labels: labels.FromStrings("instance", fmt.Sprintf("host-%03d:9100", i/4), "job", fmt.Sprint("job-", i%7), "mode", fmt.Sprint(i%4)),
			Runs:   []plan.Run{{First: 0, Len: 1440}},
		}
		for range 1440 {
			row.Values = append(row.Values, r.Float64()*100)
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

// BenchmarkManySeries writes four hours of five minutes of 10 000 series, of which each has some of
// 13 labels, with five columns.
func BenchmarkManySeries(b *testing.B) {
	t := &Table{Columns: []string{"count", "sum", "mean", "min", "max"}}
	for k := range 48 {
		t.Times = append(t.Times, int64(k)*300_000)
	}
	runs := []plan.Run{{First: 0, Len: 48}}
	for i := range 10_000 {
		s := Series{Labels: labels.FromStrings("instance", fmt.Sprint(i/68), "job", fmt.Sprint(i%8), "le", fmt.Sprint(i%10), fmt.Sprint("l", i%10), "x")}
		for range t.Columns {
			s.Cells = append(s.Cells, Cells{Runs: runs, Values: make([]float64, 48)})
		}
		t.Series = append(t.Series, s)
	}
	for b.Loop() {
		write, _, err := prepareArrow(t, false)
		require.NoError(b, err)
		require.NoError(b, write(io.Discard))
	}
}

// BenchmarkFormats writes an answer of a million points in each format and layout.
func BenchmarkFormats(b *testing.B) {
	m := matrix()
	bench := func(name string, write func(io.Writer) error) {
		b.Run(name, func(b *testing.B) {
			size := counted{}
			require.NoError(b, write(&size))
			for b.Loop() {
				require.NoError(b, write(io.Discard))
			}
			b.ReportMetric(float64(size.n)/1e6, "MB")
		})
	}
	bench("json", func(w io.Writer) error {
		a, err := encode.New(encode.Result{Value: m})
		require.NoError(b, err)
		begin, _ := a.Begin()
		_, err = w.Write(begin)
		require.NoError(b, err)
		return a.WriteRest(w)
	})
	for _, f := range Formats[1:] {
		bench(f.Name, func(w io.Writer) error { return tableTo(w, m, f, false) })
		if f.Layouts {
			bench(f.Name+"/wide", func(w io.Writer) error { return tableTo(w, m, f, true) })
		}
	}
}

// tableTo makes a table of a matrix and writes it.
func tableTo(w io.Writer, m *plan.Matrix, f *Format, wide bool) error {
	t, err := Of(context.Background(), m)
	if err != nil {
		return err
	}
	write, _, err := f.prepare(t, wide)
	if err != nil {
		return err
	}
	return write(w)
}

type counted struct{ n int }

func (w *counted) Write(b []byte) (int, error) {
	w.n += len(b)
	return len(b), nil
}
