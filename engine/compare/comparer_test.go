package compare

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/plan"
)

// Example shows what is said of an answer that differs.
func Example() {
	log := slog.New(slog.NewTextHandler(stdout{}, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	c := New(func() bool { return false }, log, nil)
	c.Set(Limits{Fraction: 1, Concurrency: 1, Timeout: time.Minute})
	if c.Chosen(context.Background()) {
		c.Begin(func() int64 { return 0 }, func(context.Context) (*Report, error) {
			row := func(v float64) promql.Matrix {
				return promql.Matrix{{Metric: labels.FromStrings("job", "a"), Floats: []promql.FPoint{{T: 60_000, F: v}}}}
			}
			d := Differ("up", Answer{Value: row(1)}, Answer{Value: row(2)}, 0)
			return &Report{Verdict: Different, Query: "up", Start: time.Unix(0, 0), End: time.Unix(60, 0), Step: time.Minute, Difference: d, Plan: func() string { return "cpu  up" }}, nil
		})
	}
	for c.Running() > 0 {
		time.Sleep(time.Millisecond)
	}
	// Output:
	// level=ERROR msg="an answer differs from that of Prometheus's engine; please report this" query=up start=1970-01-01T00:00:00.000Z end=1970-01-01T00:01:00.000Z step=1m0s what=value series="{job=\"a\"}" at=1970-01-01T00:01:00.000Z promwarp=1 prometheus=2 plan="cpu  up"
}

// stdout prints what is logged.
type stdout struct{}

func (stdout) Write(b []byte) (int, error) { fmt.Print(string(b)); return len(b), nil }

// TestDiffer names the first difference of two answers, and finds none where there is none.
func TestDiffer(t *testing.T) {
	one, two := labels.FromStrings("i", "1"), labels.FromStrings("i", "2")
	row := func(l labels.Labels, values ...float64) promql.Series {
		s := promql.Series{Metric: l}
		for i, v := range values {
			s.Floats = append(s.Floats, promql.FPoint{T: int64(i) * 1000, F: v})
		}
		return s
	}
	matrix := func(rows ...promql.Series) Answer { return Answer{Value: promql.Matrix(rows)} }
	direct := Answer{Value: &plan.Matrix{Grid: plan.Grid{Interval: 1000, Steps: 3}, Rows: []plan.Row{
		{Labels: one, Values: []float64{1, 3}, Runs: []plan.Run{{First: 0, Len: 1}, {First: 2, Len: 1}}},
	}}}
	gap := row(one, 1, 2, 3)
	gap.Floats = append(gap.Floats[:1:1], gap.Floats[2])
	hist := func(count float64) Answer {
		h := &histogram.FloatHistogram{Count: count, Sum: 1}
		return matrix(promql.Series{Metric: one, Histograms: []promql.HPoint{{T: 5, H: h}}})
	}
	noted := func(texts ...string) Answer {
		a := matrix(row(one, 1))
		for _, text := range texts {
			a.Notes.Add(errors.New(text))
		}
		return a
	}
	otherNaN := math.Float64frombits(math.Float64bits(math.NaN()) ^ 1<<20)
	next := math.Nextafter(1, 2)
	for name, c := range map[string]struct {
		ours, theirs Answer
		tolerance    float64
		want         string // what, and both sides
	}{
		"same":                   {matrix(row(one, 1, 2), row(two, 3)), matrix(row(one, 1, 2), row(two, 3)), 0, ""},
		"any NaN":                {matrix(row(one, math.NaN())), matrix(row(one, otherNaN)), 0, ""},
		"a bit":                  {matrix(row(one, 0, 1)), matrix(row(one, 0, next)), 0, "value 1 1.0000000000000002"},
		"a bit within tolerance": {matrix(row(one, 0, 1)), matrix(row(one, 0, next)), plan.Tolerance, ""},
		"beyond tolerance":       {matrix(row(one, 1)), matrix(row(one, 1+1e-9)), plan.Tolerance, "value 1 1.000000001"},
		"sign of zero":           {matrix(row(one, 0)), matrix(row(one, math.Copysign(0, -1))), 0, "value 0 -0"},
		"infinite":               {matrix(row(one, math.Inf(1))), matrix(row(one, math.MaxFloat64)), plan.Tolerance, "value +Inf 1.7976931348623157e+308"},
		"series":                 {matrix(row(one, 1)), matrix(row(two, 1)), 0, `series {i="1"} {i="2"}`},
		"one series more":        {matrix(row(one, 1), row(two, 1)), matrix(row(one, 1)), 0, "number of series 2 1"},
		"a step more":            {matrix(row(one, 1, 2)), matrix(row(one, 1)), 0, "value 2 no value"},
		"a step fewer":           {matrix(row(one, 1)), matrix(row(one, 1, 2)), 0, "value no value 2"},
		"of an executor":         {direct, matrix(gap), 0, ""},
		"an executor's gap":      {direct, matrix(row(one, 1, 2, 3)), 0, "value no value 2"},
		"histogram":              {hist(1), hist(1), 0, ""},
		"another histogram":      {hist(1), hist(2), 0, "value {count:1, sum:1} @[5] {count:2, sum:1} @[5]"},
		"no histogram":           {matrix(promql.Series{Metric: one}), hist(2), 0, "value no value {count:2, sum:1}"},
		"annotations":            {noted("a", "b"), noted("b", "a"), 0, ""},
		"another annotation":     {noted("a"), noted("b"), 0, `annotations ["a"] [] ["b"] []`},
		"vector":                 {Answer{Value: promql.Vector{{Metric: one, T: 1, F: 1}}}, Answer{Value: promql.Vector{{Metric: one, T: 1, F: 2}}}, 0, "value 1 2"},
		"scalar":                 {Answer{Value: promql.Scalar{T: 1, V: 1}}, Answer{Value: promql.Scalar{T: 1, V: 2}}, 0, "value 1 2"},
		"type":                   {Answer{Value: promql.Scalar{T: 1, V: 1}}, matrix(), 0, "type scalar matrix"},
		"error":                  {Answer{Err: errors.New("x")}, matrix(), 0, "error x <nil>"},
		"same error":             {Answer{Err: errors.New("x")}, Answer{Err: errors.New("x")}, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if d := Differ("up", c.ours, c.theirs, c.tolerance); d != nil {
				got = strings.Join([]string{d.What, d.Ours, d.Theirs}, " ")
			}
			require.Equal(t, c.want, got)
		})
	}
}

// TestChosen: so many are chosen, the same each time, and whatever the period is in which queries
// come.
func TestChosen(t *testing.T) {
	for _, fraction := range []float64{0, 0.001, 0.01, 0.3, 1} {
		a, b := New(nil, nil, nil), New(nil, nil, nil)
		a.Set(Limits{Fraction: fraction})
		b.Set(Limits{Fraction: fraction})
		const asked, period = 100_000, 100
		chosen, of := 0, [period]int{}
		for i := range asked {
			yes := a.Chosen(t.Context())
			require.Equal(t, yes, b.Chosen(t.Context()))
			if yes {
				chosen++
				of[i%period]++
			}
		}
		require.InDelta(t, fraction*asked, chosen, 5, fraction)
		if fraction >= 0.01 {
			for at, n := range of {
				require.InDelta(t, fraction*asked/period, n, 4, "each panel of a dashboard of %d: number %d at %v", period, at, fraction)
			}
		}
	}
	require.False(t, (*Comparer)(nil).Chosen(t.Context()))
	all := New(nil, nil, nil)
	all.Set(Limits{Fraction: 1})
	require.True(t, all.Chosen(t.Context()))
	require.False(t, all.Chosen(Never(t.Context())))
}

// TestBudget: no more run at once than may, none that takes too long goes on, and none begins
// while requests have the cores or after the end.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := false
		c := New(func() bool { return busy }, slog.New(slog.DiscardHandler), nil)
		c.Set(Limits{Fraction: 1, Concurrency: 2, Timeout: time.Minute})
		var ended atomic.Int64
		wait := func(ctx context.Context) (*Report, error) {
			<-ctx.Done()
			ended.Add(1)
			return nil, errors.New("whatever the engine says")
		}
		bytes := func() int64 { return 7 }
		skipped := func(why error) float64 { return testutil.ToFloat64(c.metrics.skipped.WithLabelValues(why.Error())) }

		require.True(t, c.Begin(bytes, wait))
		require.True(t, c.Begin(bytes, wait))
		require.False(t, c.Begin(bytes, wait))
		require.Equal(t, 1.0, skipped(ErrRunning))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.EqualValues(t, 2, ended.Load())
		require.Equal(t, 2.0, skipped(ErrTimeout))
		require.Zero(t, c.Running())
		require.Equal(t, 120.0, testutil.ToFloat64(c.metrics.seconds))

		busy = true
		require.False(t, c.Begin(bytes, wait))
		require.Equal(t, 1.0, skipped(ErrBusy))
		busy = false

		require.True(t, c.Begin(bytes, wait))
		require.Equal(t, int64(7), c.Yield(1<<30), "requests need the memory")
		synctest.Wait()
		require.Equal(t, 1.0, skipped(ErrMemory))
		require.Zero(t, c.Yield(1<<30))

		require.True(t, c.Begin(bytes, wait))
		c.EndAll()
		require.EqualValues(t, 4, ended.Load(), "EndAll waits")
		require.Equal(t, 1.0, skipped(ErrClosed))

		require.True(t, c.Begin(bytes, func(context.Context) (*Report, error) { panic("oops") }))
		synctest.Wait()
		require.Equal(t, 1.0, skipped(errors.New("error")), "a panic is no verdict, and nobody's but the comparison's")
		require.True(t, c.Begin(bytes, func(context.Context) (*Report, error) { return &Report{Verdict: Same}, nil }))
		synctest.Wait()
		require.Equal(t, 1.0, testutil.ToFloat64(c.metrics.compared.WithLabelValues("same")))

		c.Close()
		require.False(t, c.Begin(bytes, wait))
		require.Equal(t, 2.0, skipped(ErrClosed))
	})
}
