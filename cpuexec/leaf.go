package cpuexec

import (
	"context"
	"math"
	"runtime"
	"slices"
	"time"
	"unsafe"

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

	r          *run
	src        *source
	out        *aggregator
	start      time.Time
	alone      bool    // the leaf is all of the job
	all, fresh []int64 // see CountSteps
	work       plan.DeviceWork
	err        error // of Finish
}

// OpenLeaf fetches what the job's node, an aggregation that adds value to value
// over a window, reads, and groups it.
func (x *Executor) OpenLeaf(ctx context.Context, job Job) (*Leaf, error) {
	n := job.Node.(*plan.Aggregate)
	w := n.Input.(*plan.Window)
	r := &run{x: x, ctx: ctx, job: job, m: newMatrix(job)}
	src, err := r.open(w, nil)
	if err != nil {
		return nil, err
	}
	l := r.leaf(n, w, src)
	l.alone = true
	if reason := l.out.tooLarge(job.MaxSamples); reason != "" {
		return nil, &plan.Declined{At: n, Reason: reason}
	}
	return l, nil
}

// leaf groups the series of src.
func (r *run) leaf(n *plan.Aggregate, w *plan.Window, src *source) *Leaf {
	l := &Leaf{
		Aggregate: n, Window: w, Grid: r.job.Grid, Selection: src.sel,
		r: r, src: src, start: time.Now(),
	}
	l.out = newAggregator(n, r, input{n: len(src.labels), labels: src.resultLabels, grouping: src.labelsFor(n), source: src})
	l.GroupOf, l.Groups = l.out.groups.of, len(l.out.groups.labels)
	return l
}

// Done returns Prometheus's error for a query that has ended.
func (l *Leaf) Done() error { return l.r.done() }

// Err is the query's own error, as opposed to one of whatever computes the leaf:
// that of a query that has ended, or of Finish.
func (l *Leaf) Err() error {
	if l.err != nil {
		return l.err
	}
	return l.Done()
}

// Work is what computing the leaf took, once Finish has returned.
func (l *Leaf) Work() plan.DeviceWork { return l.work }

// DecodedShare is the share, from 0 to 1, of the series that the cores have kept
// decoded. It looks at some of them.
func (l *Leaf) DecodedShare() float64 {
	n := l.Selection.NumSeries()
	looked, kept := 0, 0
	for i := 0; i < n; i += max(1, n/64) {
		looked++
		if isHot(l.Selection.Memo(i)) {
			kept++
		}
	}
	return float64(kept) / float64(max(looked, 1))
}

// CountSteps notes, before Finish, the samples in the windows of each step, over
// all series, and those of them that no earlier step had.
func (l *Leaf) CountSteps(all, fresh []int64) { l.all, l.fresh = all, fresh }

// Finish takes what was computed: the counts of each series, and a value for each
// group and step, kernels.Absent where there is none. It returns the result of a
// leaf that OpenLeaf has opened.
func (l *Leaf) Finish(counts func(series int) kernels.SeriesCounts, values []float64, work plan.Work) (m *plan.Matrix, err error) {
	defer func() { l.err = err }()
	m = l.r.m
	hasPoints, peak := l.series(counts)
	if limit := l.r.job.MaxSamples; limit > 0 && peak > limit {
		return nil, promql.ErrTooManySamples("query execution")
	}
	for i, left := 0, l.Groups; i < len(hasPoints) && left > 0; i++ {
		if g := l.GroupOf[i]; hasPoints[i] && l.out.first[g] < 0 {
			l.out.first[g] = int32(i)
			left--
		}
	}
	m.Peak = max(m.Peak, peak)
	for k := range l.all {
		m.SamplesAtStep[k] += l.all[k]
		m.NewSamplesAtStep[k] += l.fresh[k]
	}
	if err := l.r.check(l.Window, l.src, hasPoints); err != nil {
		return nil, err
	}
	l.out.acc = &accumulator{op: l.Aggregate.Func, steps: l.Grid.Steps, given: values}
	took := time.Since(l.start).Microseconds()
	if !l.alone {
		m.Work.Series += len(l.GroupOf)
		l.work = plan.DeviceWork{Leaves: 1, Chunks: work.Chunks, Samples: work.Samples, Bytes: work.Bytes, Micros: took}
		m.Work.AddDevice(&l.work)
		return m, l.r.done()
	}
	m.Rows = l.out.rows()
	l.r.take(rowsBytes(m.Rows))
	if err := l.r.done(); err != nil {
		return nil, err
	}
	fetch := m.Work.FetchMicros
	m.Work = work
	m.Work.FetchMicros, m.Work.EvalMicros = fetch, took
	m.Work.Series, m.Work.ResultSeries, m.Work.ResultPoints = len(l.GroupOf), len(m.Rows), m.Points()
	return m, nil
}

// series goes over the counts of all series: which have points, and how many samples
// Prometheus's engine would hold at most.
func (l *Leaf) series(counts func(series int) kernels.SeriesCounts) (hasPoints []bool, peak int) {
	hasPoints = make([]bool, len(l.GroupOf))
	const block = 8192
	parts := make([]sampleLimit, (len(hasPoints)+block-1)/block)
	parallel(runtime.GOMAXPROCS(0), len(parts), func(_, k int) bool {
		limit := sampleLimit{window: !l.Window.Func.Instant}
		for i := k * block; i < min((k+1)*block, len(hasPoints)); i++ {
			c := counts(i)
			hasPoints[i] = c.Points > 0
			limit.add(countsOf(c))
		}
		parts[k] = limit
		return true
	})
	held := l.r.held
	for _, p := range parts {
		peak = max(peak, held+p.peak)
		held += p.held
	}
	return hasPoints, peak
}

func countsOf(c kernels.SeriesCounts) counts {
	return counts{points: int(c.Points), maxWindow: int(c.Most), lastWindow: int(c.Last)}
}

// givenBytes is the memory of results that were computed elsewhere, and of the
// rows made of them.
func givenBytes(groups, steps int) int64 {
	return int64(groups) * (int64(steps)*2*int64(unsafe.Sizeof(float64(0))) + rowBytes(0))
}

// sparse makes a row of values of which some are kernels.Absent. Where none is, they
// are the row's.
func sparse(values []float64) (row plan.Row) {
	if len(values) > 0 && !slices.ContainsFunc(values, func(v float64) bool { return math.Float64bits(v) == kernels.Absent }) {
		row.Values = values[:len(values):len(values)]
		row.Runs = []plan.Run{{Len: int32(len(values))}}
		return row
	}
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

// spread writes such values to a dense row and returns how many there are.
func spread(values []float64, out row) (points int) {
	cur := cursor{row: out}
	defer cur.flush()
	for k, v := range values {
		if math.Float64bits(v) != kernels.Absent {
			cur.set(k, v)
			points++
		}
	}
	return points
}
