package engine

import (
	"context"
	"strings"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"
	"github.com/prometheus/prometheus/util/stats"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// samples is the queryable that Prometheus's engine evaluates a query over: what was fetched for
// executors that then declined, and the storage for all else. The memory of samples is charged to the
// query.
type samples struct{ q *query }

// Querier implements storage.Queryable.
func (s samples) Querier(mint, maxt int64) (storage.Querier, error) {
	if err := s.q.openFetches(mint, maxt); err != nil {
		return nil, err
	}
	f := s.q.fetches
	m := &meter{
		samples: s.q.Stats().Samples, budget: s.q.budget, lookback: s.q.stmt.LookbackDelta.Milliseconds(),
		matrix: s.q.stmt.Expr.Type() == parser.ValueTypeMatrix, f: f,
	}
	m.times, m.more = labelsMade(s.q.stmt.Expr)
	return &querier{Querier: f.querier, q: s.q, f: f, fetched: f.bySelector(s.q.stmt.Expr), meter: m}, nil
}

// querier answers for selectors that were fetched, and passes every other selector on. What it
// answered stays readable until the query's fetches are closed.
type querier struct {
	storage.Querier
	q       *query
	f       *fetches
	fetched func([]*labels.Matcher) *fetched
	meter   *meter
}

// Close implements storage.Querier.
func (*querier) Close() error { return nil }

func (qr *querier) Select(ctx context.Context, sortSeries bool, hints *storage.SelectHints, ms ...*labels.Matcher) storage.SeriesSet {
	if f := qr.fetched(ms); f != nil {
		mint, maxt := selection.Bounds(hints, qr.f.mint, qr.f.maxt)
		return qr.meter.over(selection.LazySeriesSet(mint, maxt, f.get), hints)
	}
	if from, ok := qr.Querier.(selection.Querier); ok && qr.q.ceilings != nil {
		mint, maxt := selection.Bounds(hints, qr.f.mint, qr.f.maxt)
		return qr.meter.over(selection.LazySeriesSet(mint, maxt, func() (*selection.Selection, annotations.Annotations, error) {
			sel, ws, err := from.SelectChunks(ctx, hints, ms...)
			if err == nil {
				err = qr.q.admit(&parser.VectorSelector{Name: matching.FixedName(ms), LabelMatchers: ms}, sel, mint, maxt)
			}
			return sel, ws, err
		}), hints)
	}
	return qr.meter.over(qr.Querier.Select(ctx, sortSeries, hints, ms...), hints)
}

// Prometheus's engine bounds its samples, not its memory, and 50 million samples are
// 800 MB. So what it holds is charged to the query's budget while it works: each time it
// asks a series for its samples, which are at most as many as there are steps. What it
// makes between is no more than what it read, but for what reads nothing within subqueries,
// which is charged before.

// heldBytes is the memory that a sample costs which Prometheus's engine holds: a point of
// 16 bytes, and what an operator makes of it while it is still there, or room that is not used.
const heldBytes = 24

// meter charges what Prometheus's engine holds of a query.
type meter struct {
	samples  *stats.QuerySamples
	budget   *operator.Budget
	lookback int64 // ms
	matrix   bool  // the query is a range selector, all samples of which are its result
	f        *fetches
	largest  int64 // samples of the selector that brought most
	charged  int64 // bytes
	// What is made of the labels of a series takes at most times as many bytes, and more.
	times, more int64
}

// check charges what is held when a selector has brought that many samples. It must be called
// by the goroutine that Prometheus's engine evaluates the query in.
func (m *meter) check(brought int64) error {
	m.largest = max(m.largest, brought)
	held := int64(m.samples.PeakSamples) // in all that is evaluated
	if m.matrix {
		held = max(held, m.samples.TotalSamples)
	}
	n := heldBytes * (held + m.largest)
	if n <= m.charged {
		return m.budget.Charge(0)
	}
	more := n - m.charged
	m.charged = n
	return m.budget.Charge(more)
}

// over returns set with each series charged when its samples are asked for.
func (m *meter) over(set storage.SeriesSet, hints *storage.SelectHints) storage.SeriesSet {
	s := &meteredSet{SeriesSet: set, m: m, steps: 1, from: -1, point: parallel.Watch{Ctx: m.f.ctx}}
	if hints != nil && hints.Range > 0 {
		s.window = true
	}
	if hints != nil && hints.Step > 0 {
		before := hints.Range
		if before == 0 {
			before = m.lookback
		}
		s.steps = max(hints.End-hints.Start-before, 0)/hints.Step + 1
	}
	return s
}

type meteredSet struct {
	storage.SeriesSet
	m       *meter
	steps   int64 // that the selector is evaluated at
	brought int64 // samples of the series read so far, at most
	window  bool  // whether it is a range selector
	from    int64 // samples that were counted before the first series; -1 before that
	point   parallel.Watch
	asked   bool // for the first series
}

// Next implements storage.SeriesSet. The first one waits for the samples.
func (s *meteredSet) Next() bool {
	if !s.asked {
		s.asked = true
		defer func(began time.Time) { s.m.f.waited += time.Since(began) }(time.Now())
	}
	return s.SeriesSet.Next()
}

// read counts a series that is about to be read. A histogram counts as many samples as it
// is large.
func (s *meteredSet) read() error {
	s.point.Pass()
	s.brought += s.steps
	total := s.m.samples.TotalSamples
	if s.from < 0 {
		s.from = total
	}
	if !s.window {
		s.brought = max(s.brought, total-s.from+s.steps)
	}
	return s.m.check(s.brought)
}

// At implements storage.SeriesSet. That what is made of the labels takes too much shows in read.
func (s *meteredSet) At() storage.Series {
	series := s.SeriesSet.At()
	if m := s.m; m.times > 1 || m.more > 0 {
		_ = m.budget.Charge(int64(series.Labels().ByteSize())*(m.times-1) + m.more)
	}
	return meteredSeries{series, s}
}

type meteredSeries struct {
	storage.Series
	set *meteredSet
}

func (s meteredSeries) Iterator(reuse chunkenc.Iterator) chunkenc.Iterator {
	if err := s.set.read(); err != nil {
		return failedIterator{chunkenc.NewNopIterator(), err}
	}
	if s.set.steps < manySteps {
		return s.Series.Iterator(reuse)
	}
	if r, ok := reuse.(endingIterator); ok {
		reuse = r.Iterator
	}
	return endingIterator{s.Series.Iterator(reuse), s.set}
}

// manySteps is from how many steps on the iterators of a selector look at the query's deadline. Fewer
// take Prometheus's engine some milliseconds a series.
const manySteps = 100_000

// endingIterator ends an evaluation by Prometheus's engine with the query's context. That engine looks
// at the context once a series, and asks for a sample or for an error at each step.
type endingIterator struct {
	chunkenc.Iterator
	set *meteredSet
}

func (i endingIterator) At() (int64, float64) {
	i.set.end()
	return i.Iterator.At()
}

func (i endingIterator) AtFloatHistogram(h *histogram.FloatHistogram) (int64, *histogram.FloatHistogram) {
	i.set.end()
	return i.Iterator.AtFloatHistogram(h)
}

func (i endingIterator) Err() error {
	i.set.end()
	return i.Iterator.Err()
}

// end raises the error of the query's context if that has ended. Prometheus's engine raises its own
// errors in the same way.
func (s *meteredSet) end() {
	if s.point.Err() != nil {
		panic(plan.EndedIn(s.point.Ctx, "expression evaluation"))
	}
}

// failedIterator yields an error.
type failedIterator struct {
	chunkenc.Iterator
	err error
}

func (i failedIterator) Err() error { return i.err }

// labelsMade is by how many times, and by how many bytes more, labels grow at most that a tree makes
// of those of a series: label_replace may repeat a label, and a name or template may be long.
func labelsMade(n parser.Node) (times, more int64) {
	times = 1
	for child := range parser.ChildrenIter(n) {
		t, m := labelsMade(child)
		times, more = max(times, t), max(more, m)
	}
	if a, ok := n.(*parser.AggregateExpr); ok && a.Op == parser.COUNT_VALUES {
		more += int64(len(a.Param.String()))
	}
	call, ok := n.(*parser.Call)
	if !ok {
		return times, more
	}
	if _, relabels := vector.Called(call.Func.Name).Node.(*plan.Relabel); !relabels {
		return times, more
	}
	repeats := strings.Count(call.Args[2].String(), "$") // of label_replace's template
	if call.Func.Variadic != 0 {
		repeats = len(call.Args) - 3 // sources of label_join
	}
	const enough = 1 << 40
	times, more = times*int64(max(1, repeats)), more*int64(max(1, repeats))
	for _, text := range call.Args[1:] {
		more += int64(len(text.String()))
	}
	return min(times, enough), min(more, enough)
}

// beginBudget gives an evaluation of the query, whose context is ctx, the memory that it may
// take.
func (q *query) beginBudget(ctx context.Context) error {
	q.lease.Release()
	q.budget = &operator.Budget{Context: ctx, Max: q.e.opts.MaxMemory, Lease: q.lease}
	var text int64    // about the memory in bytes that it takes for its text
	var samples int64 // that Prometheus's engine makes in subqueries of what reads none, such as 1 and time(), at most
	var longest int64 // steps of a subquery
	// walk counts what is in e, which is evaluated at steps of a subquery that reaches back by over.
	var walk func(e parser.Node, over time.Duration, steps int64)
	walk = func(e parser.Node, over time.Duration, steps int64) {
		text += nodeBytes
		switch e := e.(type) {
		case *parser.VectorSelector:
			text += operator.SelectorBytes(len(e.LabelMatchers))
		case *parser.NumberLiteral, *parser.Call: // absent() and scalar() make a sample of none
			samples += steps
		case *parser.SubqueryExpr:
			over = max(over+e.Range, e.Range) // the sum of centuries overflows
			step := e.Step
			if step <= 0 {
				step = time.Duration(q.e.opts.Prometheus.NoStepSubqueryIntervalFn(e.Range.Milliseconds())) * time.Millisecond
			}
			steps = int64(over / max(step, time.Millisecond))
			longest = max(longest, steps)
		}
		for child := range parser.ChildrenIter(e) {
			walk(child, over, steps)
		}
	}
	walk(q.stmt.Expr, q.stmt.End.Sub(q.stmt.Start), 0)
	if most := int64(q.e.opts.Prometheus.MaxSamples); most > 0 {
		// Prometheus's engine goes through all steps of a series without a look at the deadline, or
		// makes their samples before it counts them.
		if longest > most {
			return promql.ErrTooManySamples("query execution")
		}
		samples = min(samples, most) // more is an error of its own
	}
	if err := q.lease.Grow(ctx, text); err != nil {
		return err
	}
	return q.budget.Charge(heldBytes * samples)
}

// nodeBytes is about the memory of a node of a query's tree and of its plan.
const nodeBytes = 1 << 10

// keepResult gives back what the query took but for its result, which stays until it is closed, and for
// what histograms take as JSON, which is made of them at once. Labels may be shared with the series
// that were read, which the cache may drop before the answer is written.
func (q *query) keepResult(v parser.Value) error {
	var n int64
	const (
		point, series = 16, 64
		asJSON        = 8 // bytes for each byte of a histogram, about
	)
	switch v := v.(type) {
	case promql.Matrix:
		for i := range v {
			n += series + int64(v[i].Metric.ByteSize()) + point*int64(cap(v[i].Floats))
			for _, h := range v[i].Histograms {
				n += point + (1+asJSON)*int64(h.H.Size())
			}
		}
	case promql.Vector:
		n = series * int64(len(v))
		for i := range v {
			n += int64(v[i].Metric.ByteSize())
			if v[i].H != nil {
				n += (1 + asJSON) * int64(v[i].H.Size())
			}
		}
	case *plan.Matrix:
		n = operator.RowsBytes(v.Rows)
		for i := range v.Rows {
			n += int64(v.Rows[i].Labels.ByteSize())
		}
	}
	if err := q.budget.Charge(max(n-q.budget.Used(), 0)); err != nil {
		return err
	}
	q.lease.Shrink(n)
	return nil
}
