// Package resample answers resample requests: stored samples, resampled when asked.
//
// A form or a JSON object goes in and a Result comes out: for each series, or group of series, and
// each aggregate the values of its buckets. Samples come from a storage.Queryable that hands out
// selections, still compressed; those of hot series are retained decoded, as they are for PromQL.
//
//	Parse      form ──► Request                   what is asked; errors name the field
//	NewPlan    Request ──► Plan                   bucket.Grid, and which parts of a state are needed
//	Run        Plan ──► Result
//	  series:  chunks ─column.Reader─► samples ─CountUniqs─► runs ─Contents.Make─► states   on a core
//	  groups:  states of a bucket ─Contents.Merge─► state                    in the order of series
//	  fill     buckets without samples
//
// The same request over the same samples gives the same bits on any number of cores.
//
// Start with Executor.Run.
package resample

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
	"golang.org/x/sync/errgroup"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
)

// Options configure an Executor.
type Options struct {
	// Workers is the number of goroutines that compute one request; 0 means one a core.
	Workers int
	// MaxSamples bounds the values of a result and the samples that a request holds for order
	// statistics of groups; 0 means no bound.
	MaxSamples int
	// MaxMemory bounds the memory in bytes that a request takes; 0 means no bound.
	MaxMemory int64
	// Memory is the process's memory, of which requests take leases; nil has no limit.
	Memory *memory.Pool
	// Columns are decoded columns of series that are retained; nil retains none.
	Columns *column.Set
	// Accelerator is offered requests before cores compute them; nil is none.
	Accelerator offload.Accelerator
	// Turn waits until a request over that number of samples may have the cores; nil does not wait.
	Turn func(ctx context.Context, samples int64) (done func(), err error)
}

// Executor computes resample requests on cores, or has its accelerator compute them. It is safe for concurrent use.
type Executor struct {
	o       Options
	scratch sync.Pool // of *computing
}

// New returns an executor.
func New(o Options) *Executor {
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Columns == nil {
		o.Columns = column.NewSet(0)
	}
	return &Executor{o: o, scratch: sync.Pool{New: func() any { return &computing{workers: make([]worker, o.Workers)} }}}
}

// run is the computation of one request.
type run struct {
	*Plan
	x      *Executor
	ctx    context.Context
	budget *operator.Budget
	sel    *selection.Selection
	held   atomic.Int64 // values of the result and samples held
	work   counters
	waited time.Duration // for the cores
	result *Result
}

// Run computes a request over what q has. The result must be released. Errors are an *Error where
// the request is wrong, Prometheus's own where its time or samples are over, a *operator.MemoryError
// or one of package memory, a *selection.CorruptError, or the storage's.
func (e *Executor) Run(ctx context.Context, q storage.Queryable, p *Plan) (*Result, error) {
	if p.Executor == ChooseGPU && p.Strict {
		if reason := unsuited(e.o.Accelerator, p); reason != "" {
			return nil, strictError(reason)
		}
	}
	lease := e.o.Memory.Lease(memory.Evaluation)
	for {
		r := &run{
			Plan: p, x: e, ctx: ctx, budget: &operator.Budget{Context: ctx, Max: e.o.MaxMemory, Lease: lease},
			result: &Result{Plan: p, lease: lease},
		}
		err := parallel.Rescue(func() error { return r.over(q) })
		var again *selection.Again
		switch {
		case err == nil:
			lease.Shrink(r.result.bytes.Load() + seriesBytes*int64(len(r.result.Series)))
			return r.result, nil
		case errors.As(err, &again):
			q = again.Queryable
			r.result.Release()
		default:
			r.result.Release()
			return nil, err
		}
	}
}

// over computes the request over what q has.
func (r *run) over(q storage.Queryable) error {
	began := time.Now()
	querier, err := q.Querier(r.from, r.to-1)
	if err != nil {
		return err
	}
	defer querier.Close()
	for _, ms := range r.Selectors {
		if err := r.result.lease.Grow(r.ctx, operator.SelectorBytes(len(ms))); err != nil {
			return err
		}
	}
	if err := r.fetch(querier); err != nil {
		if ended := plan.Ended(r.ctx); ended != nil {
			return ended
		}
		return err
	}
	fetched := time.Now()
	if err := r.compute(); err != nil {
		if errors.As(err, new(*selection.CorruptError)) {
			r.sel.Discard()
		}
		return err
	}
	r.explain(fetched.Sub(began), r.waited, time.Since(fetched)-r.waited)
	return nil
}

// encoding encodes the samples of a storage that has no selections.
type encoding struct{ storage.Querier }

func (q encoding) SelectChunks(ctx context.Context, hints *storage.SelectHints, ms ...*labels.Matcher) (*selection.Selection, annotations.Annotations, error) {
	return selection.FromSeriesSet(ctx, q.Select(ctx, true, hints, ms...), 0)
}

// mostReaders is the most goroutines that put together what the selectors of a request match.
const mostReaders = 16

// fetch gets what the selectors match, all at the same time.
func (r *run) fetch(querier storage.Querier) error {
	parts := make([]*selection.Selection, len(r.Selectors))
	warnings := make([]annotations.Annotations, len(r.Selectors))
	g, ctx := errgroup.WithContext(r.ctx)
	g.SetLimit(mostReaders)
	asks := make([]selection.Ask, len(r.Selectors))
	for i, ms := range r.Selectors {
		asks[i] = selection.Ask{Ctx: ctx, MinT: r.from, MaxT: r.to - 1, Matchers: ms}
	}
	selects, ok := querier.(selection.Querier)
	if !ok {
		selects = encoding{querier}
	}
	for i, get := range selection.Begin(selects, asks) {
		g.Go(func() error {
			return parallel.Rescue(func() (err error) {
				parts[i], warnings[i], err = get(ctx)
				return err
			})
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, ws := range warnings {
		r.result.Warnings.Merge(ws)
	}
	r.sel = parts[0]
	if len(parts) == 1 {
		return nil
	}
	var err error
	r.sel, err = selection.Join(r.ctx, parts...)
	return err
}
