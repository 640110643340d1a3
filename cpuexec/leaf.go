package cpuexec

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/kernels"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Leaf is an aggregation over a window whose values another executor computes.
// What Prometheus says of the series, and of what comes out, is said here.
type Leaf struct {
	Aggregate *plan.Aggregate
	Window    *plan.Window
	Grid      plan.Grid
	Selection *selection.Selection
	GroupOf   []int32 // the group of each series
	Groups    int

	r     *run
	src   *source
	out   *aggregator
	start time.Time
}

// OpenLeaf fetches what the job's node, an aggregation that adds value to value
// over a window, reads, and groups it.
func (x *Executor) OpenLeaf(ctx context.Context, job Job) (*Leaf, error) {
	n := job.Node.(*plan.Aggregate)
	w := n.Input.(*plan.Window)
	l := &Leaf{Aggregate: n, Window: w, Grid: job.Grid, r: &run{x: x, ctx: ctx, job: job, m: newMatrix(job)}}
	src, err := l.r.open(w, nil)
	if err != nil {
		return nil, err
	}
	l.start = time.Now()
	l.src, l.Selection = src, src.sel
	l.out = newAggregator(n, l.r, input{n: len(src.labels), labels: src.resultLabels, grouping: src.labelsFor(n)})
	if reason := l.out.tooLarge(job.MaxSamples); reason != "" {
		return nil, &plan.Declined{At: n, Reason: reason}
	}
	l.GroupOf, l.Groups = l.out.groups.of, len(l.out.groups.labels)
	return l, nil
}

// Done returns Prometheus's error for a query that has ended.
func (l *Leaf) Done() error { return l.r.done() }

// CountSteps notes, before Finish, the samples in the windows of each step, over
// all series, and those of them that no earlier step had.
func (l *Leaf) CountSteps(all, fresh []int64) {
	l.r.m.SamplesAtStep, l.r.m.NewSamplesAtStep = all, fresh
}

// Finish makes the result of what was computed: the counts of each series, and a
// value for each group and step, kernels.Absent where there is none.
func (l *Leaf) Finish(counts func(series int) kernels.SeriesCounts, values []float64, work plan.Work) (*plan.Matrix, error) {
	hasPoints := make([]bool, len(l.GroupOf))
	limit := sampleLimit{max: l.r.job.MaxSamples, window: !l.Window.Func.Instant}
	for i, g := range l.GroupOf {
		c := counts(i)
		hasPoints[i] = c.Points > 0
		if !limit.add(countsOf(c)) {
			return nil, promql.ErrTooManySamples("query execution")
		}
		if hasPoints[i] && l.out.first[g] < 0 {
			l.out.first[g] = int32(i)
		}
	}
	m := l.r.m
	m.Peak = limit.peak
	if err := l.r.check(l.Window, l.src, hasPoints); err != nil {
		return nil, err
	}
	steps := l.Grid.Steps
	for _, g := range l.out.order() {
		row := sparse(values[g*steps : (g+1)*steps])
		row.Labels = l.out.groups.labels[g]
		m.Rows = append(m.Rows, row)
	}
	l.r.take(rowsBytes(m.Rows))
	if err := l.r.done(); err != nil {
		return nil, err
	}
	fetch := m.Work.FetchMicros
	m.Work = work
	m.Work.FetchMicros, m.Work.EvalMicros = fetch, time.Since(l.start).Microseconds()
	m.Work.Series, m.Work.ResultSeries, m.Work.ResultPoints = len(l.GroupOf), len(m.Rows), m.Points()
	return m, nil
}

func countsOf(c kernels.SeriesCounts) counts {
	return counts{points: int(c.Points), maxWindow: int(c.Most), lastWindow: int(c.Last)}
}

// sparse makes a row of values of which some are kernels.Absent.
func sparse(values []float64) (row plan.Row) {
	for k, v := range values {
		if math.Float64bits(v) == kernels.Absent {
			continue
		}
		if n := len(row.Runs); n > 0 && row.Runs[n-1].First+row.Runs[n-1].Len == int32(k) {
			row.Runs[n-1].Len++
		} else {
			row.Runs = append(row.Runs, plan.Run{First: int32(k), Len: 1})
		}
		row.Values = append(row.Values, v)
	}
	return row
}
