package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// fetches are what the selectors of a query matched. Each is fetched once, all at
// the same time, before the query is evaluated: what executors cannot evaluate shows in the
// chunks' encodings, so it is left to Prometheus's engine before a sample is decoded.
// Executors and Prometheus's engine read the one selection.
type fetches struct {
	querier   storage.Querier
	queryable storage.Queryable
	ctx       context.Context // of the query
	cancel    context.CancelFunc
	running   sync.WaitGroup
	ahead     *cpuexec.Ahead // nil where nothing is evaluated before all has come
	arrived   chan arrival   // what has come, while it is being waited for
	took      []plan.Ahead   // what was evaluated of it

	mint, maxt int64                               // of the querier, in ms, both included
	of         map[posrange.PositionRange]*fetched // by where a selector stands
	waited     time.Duration                       // for selections
	samples    int64                               // that were fetched
}

// fetched is what a selector matched.
type fetched struct {
	ready chan struct{} // closed when the rest is set
	tiles selection.Stats
	sel   *selection.Selection
	ws    annotations.Annotations
	err   error
}

// get waits until the selection is there.
func (f *fetched) get() (*selection.Selection, annotations.Annotations, error) {
	<-f.ready
	return f.sel, f.ws, f.err
}

// openFetches opens a querier on the query's storage, if there is none yet.
func (q *query) openFetches(mint, maxt int64) error {
	if q.fetches != nil {
		return nil
	}
	inner, err := q.request.Storage.Querier(mint, maxt)
	if err != nil {
		return err
	}
	f := &fetches{querier: inner, queryable: q.request.Storage, mint: mint, maxt: maxt}
	f.ctx, f.cancel = context.WithCancel(q.ctx)
	q.fetches = f
	return nil
}

// closeFetches gives up what was fetched: selections must not be read after it. The query has ended,
// and the result is in memory of its own.
func (q *query) closeFetches() {
	if q.fetches != nil {
		q.took = q.fetches.took
		q.waited += q.fetches.waited
		q.fetches.cancel()
		q.fetches.running.Wait()
		q.fetches.querier.Close()
		q.fetches = nil
	}
}

// mostReaders is the most goroutines that put together what the selectors of a query match.
const mostReaders = 16

// functions says by what each selector of a query is read, by where it stands, as Prometheus's engine
// says it in storage.SelectHints.Func.
func functions(tree parser.Expr) map[posrange.PositionRange]string {
	found := map[posrange.PositionRange]string{}
	parser.Inspect(tree, func(n parser.Node, path []parser.Node) error {
		v, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
	above:
		for _, n := range slices.Backward(path) {
			switch n := n.(type) {
			case *parser.AggregateExpr:
				found[v.PosRange] = n.Op.String()
				break above
			case *parser.Call:
				found[v.PosRange] = n.Func.Name
				break above
			case *parser.BinaryExpr:
				break above
			}
		}
		return nil
	})
	return found
}

// start fetches what a plan on a grid reads, for all selectors of a tree at the same time. A single
// selector of which nothing is evaluated before all has come has come when start returns.
func (f *fetches) start(tree parser.Expr, all []reading, g plan.Grid) {
	readBy := functions(tree)
	q, ok := f.querier.(selection.Querier)
	if f.ahead != nil {
		f.arrived = make(chan arrival, mostArrivals)
	}
	f.of = make(map[posrange.PositionRange]*fetched, len(all))
	asks, wanted := make([]selection.Ask, 0, len(all)), make([]*fetched, 0, len(all))
	for _, r := range all {
		w, got := r.window, &fetched{ready: make(chan struct{})}
		f.of[w.Scan.Pos] = got
		if !ok {
			got.sel, got.ws, got.err = f.encoded(r)
			close(got.ready)
			continue
		}
		ask := selection.Ask{Matchers: w.Scan.Matchers, Function: readBy[w.Scan.Pos], Fetch: selection.Fetch{Own: &got.tiles}}
		ask.MinT, ask.MaxT = w.Reads(r.grid)
		if !w.Func.Instant {
			ask.Range = w.Width
		}
		if r.grid == g && f.ahead.Reads(w) {
			// The fetching goroutine must not wait here: other queries may wait for the same fetch,
			// which may go on when the query has ended.
			ask.Came = func(p selection.Part) {
				select {
				case f.arrived <- arrival{w, p}:
				default:
				}
			}
		}
		asks, wanted = append(asks, ask), append(wanted, got)
	}
	for i := range asks {
		a, span := &asks[i], trace.Span(nil)
		if a.Ctx, span = tracing.Start(f.ctx, "fetch"); span.IsRecording() {
			span.SetAttributes(attribute.String("selector", fmt.Sprint(a.Matchers)))
		}
	}
	var gets []selection.Get
	begun := parallel.Rescue(func() error { gets = selection.Begin(q, asks); return nil })
	var next atomic.Int64
	read := func() {
		for i := next.Add(1) - 1; i < int64(len(asks)); i = next.Add(1) - 1 {
			got := wanted[i]
			got.err = parallel.Rescue(func() (err error) {
				if begun != nil {
					return begun
				}
				got.sel, got.ws, err = gets[i](asks[i].Ctx)
				return err
			})
			tracing.End(trace.SpanFromContext(asks[i].Ctx), got.err)
			close(got.ready)
		}
	}
	if len(asks) == 1 && f.ahead == nil {
		began := time.Now()
		read()
		f.waited += time.Since(began)
		return
	}
	for range min(len(asks), mostReaders) {
		f.running.Go(read)
	}
}

// infoSeries gets what info reads besides its input. What that is shows only in the input.
func (f *fetches) infoSeries(w *plan.Window, g plan.Grid) (*selection.Selection, annotations.Annotations, error) {
	if q, ok := f.querier.(selection.Querier); ok {
		mint, maxt := w.Reads(g)
		return q.SelectChunks(f.ctx, &storage.SelectHints{Start: mint, End: maxt}, w.Scan.Matchers...)
	}
	return f.encoded(reading{w, g})
}

// encoded gets chunks from a storage that cannot hand out selections: by its chunk
// querier, else by encoding its samples.
func (f *fetches) encoded(r reading) (*selection.Selection, annotations.Annotations, error) {
	hints := &storage.SelectHints{Step: r.grid.Interval}
	hints.Start, hints.End = r.window.Reads(r.grid)
	cq, ok := f.queryable.(storage.ChunkQueryable)
	if !ok {
		return selection.FromSeriesSet(f.ctx, f.querier.Select(f.ctx, true, hints, r.window.Scan.Matchers...), 0)
	}
	q, err := cq.ChunkQuerier(f.mint, f.maxt)
	if err != nil {
		return nil, nil, err
	}
	defer q.Close()
	return selection.FromChunkSeriesSet(f.ctx, q.Select(f.ctx, true, hints, r.window.Scan.Matchers...), 0)
}

// arrival is a part of what a window reads, which has come before the rest.
type arrival struct {
	window *plan.Window
	part   selection.Part
}

// mostArrivals is how many parts may have come that are not evaluated yet. Further parts are evaluated
// with the rest.
const mostArrivals = 64

// wait waits for a selection, and notes for how long. Meanwhile what has come is evaluated. What
// still waits once all has come is evaluated with the rest.
func (f *fetches) wait(got *fetched, turn func(ctx context.Context, samples int64) (done func(), err error)) {
	start := time.Now()
	defer func() { f.waited += time.Since(start) }()
	for {
		select {
		case <-got.ready:
			return
		default:
		}
		select {
		case <-got.ready:
			return
		case one := <-f.arrived:
			f.evaluate(one, turn)
		}
	}
}

// evaluate evaluates what reads nothing but a part that has come.
func (f *fetches) evaluate(one arrival, turn func(ctx context.Context, samples int64) (done func(), err error)) {
	done, err := turn(f.ctx, one.part.Sel.NumSamples())
	if err != nil {
		return
	}
	defer done()
	began := time.Now()
	if steps := f.ahead.Evaluate(f.ctx, one.window, one.part); steps > 0 {
		f.took = append(f.took, plan.Ahead{From: one.part.MinT, To: one.part.MaxT, Steps: steps, Began: began, Ended: time.Now()})
	}
}

// bySelector is what was fetched for the selectors of a query's tree, by their matchers.
// Prometheus's engine asks for a selector's series by the very matchers that the tree has.
// Where the storage's chunks were made from its samples, or the other way round, the engine
// reads the storage itself.
func (f *fetches) bySelector(tree parser.Expr) func(ms []*labels.Matcher) *fetched {
	if _, ok := f.querier.(selection.Querier); !ok || len(f.of) == 0 {
		return func([]*labels.Matcher) *fetched { return nil }
	}
	found := map[*labels.Matcher]*parser.VectorSelector{} // by the first matcher
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		if v, ok := n.(*parser.VectorSelector); ok && len(v.LabelMatchers) > 0 {
			found[v.LabelMatchers[0]] = v
		}
		return nil
	})
	return func(ms []*labels.Matcher) *fetched {
		if len(ms) == 0 {
			return nil
		}
		v, ok := found[ms[0]]
		if !ok || !slices.Equal(v.LabelMatchers, ms) {
			return nil
		}
		return f.of[v.PosRange]
	}
}
