package cpuexec

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Leaf is a window, or an aggregation over one, whose values another executor
// computes. What Prometheus says of the series, and of what comes out, is said here.
type Leaf struct {
	Aggregate *plan.Aggregate // nil where the values of the window itself are asked for
	Maps      []*plan.Map     // that stand between the two, the lowest first
	Window    *plan.Window
	Grid      plan.Grid
	Selection *selection.Selection
	GroupOf   []int32 // the group of each series
	Groups    int
	Rooms     []int // of topk and bottomk, how many series each group keeps at a step
	// Starts says that some samples have start timestamps that the window reads.
	Starts bool
	// WindowOnly is set where an aggregation cannot be computed, but perhaps its window.
	WindowOnly bool

	r     *run
	src   *source
	out   givable    // of an aggregation
	rows  *windowing // of a window
	start time.Time
	work  plan.DeviceWork
	err   error // of Finish or TakeRows

	panicked any // of TakeRows
}

// givable is a sink whose results may be computed elsewhere.
type givable interface {
	operator.Bounded
	aggregation() (n *plan.Aggregate, groupOf []int32, groups int)
	give(given bool)              // says that they will be, or not after all
	given(x *Results, has []bool) // they are; has says which series have a value
}

// Results are what was computed of an aggregation.
type Results struct {
	// Counts are those of a series' window.
	Counts func(series int) kernels.SeriesCounts
	// Kept is how many of a series' values map m, which filters, has left.
	Kept func(m, series int) uint32
	// Values has one for each group and step, kernels.Absent where there is none. Of
	// topk and bottomk it has Prometheus's heaps: group by group as many elements as
	// the leaf's Rooms says, the first ones of all steps first. There Series says
	// which series each value is of, and Filled how many elements the heap of each
	// group and step has. The values of bottomk have their signs changed.
	Values []float64
	Series []uint32
	Filled []uint32
	// All are the samples in the windows of each step, over all series, and Fresh those
	// of them that no earlier step had.
	All, Fresh []int64
	Work       plan.Work
}

// errOpened ends the evaluation of a job whose leaf was wanted only.
var errOpened = errors.New("the leaf is open")

// opener is an accelerator that takes the leaf and computes nothing.
type opener struct{ leaf *Leaf }

func (o *opener) Aggregates(*plan.Aggregate) bool { return true }

func (o *opener) Takes(plan.Node) bool { return true }

func (o *opener) OnCores(*Leaf, time.Duration) {}

func (o *opener) Evaluate(_ context.Context, l *Leaf) (string, error) {
	o.leaf = l
	return "", errOpened
}

// OpenLeaf fetches and groups what the job's node, an aggregation, reads.
func (x *Executor) OpenLeaf(ctx context.Context, job Job) (*Leaf, error) {
	o := &opener{}
	job.Accelerator = o
	_, err := x.Run(ctx, job)
	if errors.Is(err, errOpened) {
		return o.leaf, nil
	}
	return nil, err
}

// leafInto is the leaf whose results out takes, or nil if there is none.
func (r *run) leafInto(out operator.Sink, src *source, w *plan.Window, above chain) *Leaf {
	g, ok := out.(givable)
	if !ok {
		return nil
	}
	l := &Leaf{Window: w, Grid: r.job.Grid, Selection: src.sel, Starts: r.readsStarts(w, src.sel), r: r, src: src, out: g, start: time.Now()}
	for _, n := range above {
		m, ok := n.(*plan.Map)
		if !ok {
			return nil
		}
		l.Maps = append(l.Maps, m)
	}
	l.Aggregate, l.GroupOf, l.Groups = g.aggregation()
	if k, ok := out.(*ranker); ok {
		for _, size := range k.size {
			l.Rooms = append(l.Rooms, atMost(k.k, size))
		}
	}
	return l
}

// oneGroupKey is the key of the note on a selection's series in one group.
type oneGroupKey struct{}

// oneGroup is that note: the group of each series.
type oneGroup []int32

// SizeBytes implements selection.Sized.
func (g oneGroup) SizeBytes() int64 { return 4 * int64(len(g)) }

// rowsLeaf is the leaf of the window alone.
func (r *run) rowsLeaf(src *source, w *plan.Window) *Leaf {
	l := &Leaf{Window: w, Grid: r.job.Grid, Selection: src.sel, Starts: r.readsStarts(w, src.sel), r: r, src: src, Groups: 1, start: time.Now()}
	l.GroupOf = selection.SeriesNote(src.sel.Notes(), oneGroupKey{}, func() oneGroup { return make(oneGroup, len(src.labels)) })
	return l
}

// Node is what is computed.
func (l *Leaf) Node() plan.Node {
	if l.Aggregate != nil {
		return l.Aggregate
	}
	return l.Window
}

// Done returns Prometheus's error for a query that has ended.
func (l *Leaf) Done() error { return l.r.Done() }

// Err is the query's own error, as opposed to one of whatever computes the leaf:
// that of a query that has ended, or of Finish or TakeRows.
func (l *Leaf) Err() error {
	if l.err != nil {
		return l.err
	}
	return l.Done()
}

// Work is what computing the leaf took, once it is finished.
func (l *Leaf) Work() plan.DeviceWork { return l.work }

// DecodedShare is the share, from 0 to 1, of the series that the cores have kept
// decoded. It looks at some of them.
func (l *Leaf) DecodedShare() float64 {
	n := l.Selection.NumSeries()
	looked, kept := 0, 0
	for i := 0; i < n; i += max(1, n/64) {
		looked++
		if column.IsDecoded(l.Selection.Memo(i)) {
			kept++
		}
	}
	return float64(kept) / float64(max(looked, 1))
}

// Finish takes what was computed of an aggregation.
func (l *Leaf) Finish(x Results) error {
	l.err = l.finish(&x)
	return l.err
}

func (l *Leaf) finish(x *Results) error {
	m := l.r.Matrix
	hasPoints, held, peak := l.series(x.Counts)
	if limit := l.r.job.MaxSamples; limit > 0 && peak > limit {
		return promql.ErrTooManySamples("query execution")
	}
	m.Peak = max(m.Peak, peak)
	m.Work.Series += len(l.GroupOf)
	l.countSteps(x.All, x.Fresh)
	if err := l.r.check(l.Window, l.src, hasPoints); err != nil {
		return err
	}
	if err := l.r.checkTimestamps(l.Window, held, len(hasPoints)); err != nil {
		return err
	}
	if err := l.maps(x, hasPoints, held); err != nil {
		return err
	}
	l.out.given(x, hasPoints)
	l.Finished(x.Work)
	return l.r.Done()
}

// Finished notes what computing the leaf took.
func (l *Leaf) Finished(work plan.Work) {
	l.work = plan.DeviceWork{
		Leaves: 1, Chunks: work.Chunks, Samples: work.Samples, Bytes: work.Bytes, Micros: time.Since(l.start).Microseconds(),
	}
	l.r.Matrix.Work.AddDevice(&l.work)
}

// maps raises what Prometheus's engine raises once it has evaluated the maps, of
// whose input there are so many points, and leaves in hasPoints the series that have
// some after them.
func (l *Leaf) maps(x *Results, hasPoints []bool, points int) error {
	kept := []int{points}
	var above chain
	for m, n := range l.Maps {
		above = append(above, n)
		if n.Filters() {
			points = 0
			for i := range hasPoints {
				left := x.Kept(m, i)
				points += int(left)
				hasPoints[i] = left > 0
			}
		}
		kept = append(kept, points)
	}
	return above.check(l.r.Query, kept, len(hasPoints))
}

// countSteps adds to the statistics of the query.
func (l *Leaf) countSteps(all, fresh []int64) {
	for k := range all {
		l.r.Matrix.SamplesAtStep[k] += all[k]
		l.r.Matrix.NewSamplesAtStep[k] += fresh[k]
	}
}

// series goes over the counts of all series: which have points, how many points
// that are, and how many samples Prometheus's engine would hold at most.
func (l *Leaf) series(counts func(series int) kernels.SeriesCounts) (hasPoints []bool, points, peak int) {
	hasPoints = make([]bool, len(l.GroupOf))
	const block = 8192
	parts := make([]operator.SampleLimit, (len(hasPoints)+block-1)/block)
	parallel.For(len(parts), func(k int) {
		limit := operator.SampleLimit{Window: !l.Window.Func.Instant}
		for i := k * block; i < min((k+1)*block, len(hasPoints)); i++ {
			c := counts(i)
			hasPoints[i] = c.Points > 0
			limit.Add(countsOf(c))
		}
		parts[k] = limit
	})
	for _, p := range parts {
		peak = max(peak, l.r.Held+points+p.Peak)
		points += p.Held
	}
	return hasPoints, points, peak
}

func countsOf(c kernels.SeriesCounts) dense.Counts {
	return dense.Counts{Points: int(c.Points), MaxWindow: int(c.Most), LastWindow: int(c.Last)}
}
