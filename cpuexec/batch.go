package cpuexec

import (
	"slices"
	"sync"

	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/plan"
)

// batch is a number of consecutive series and their values at every step.
type batch struct {
	lo, n   int // series lo to lo+n
	steps   int
	words   int
	vals    []float64
	present []uint64
	counts  []counts
}

// batchBytes is the size of a batch's values that keeps them in a core's cache
// between the phase that writes and the one that reads them.
const batchBytes = 1 << 20

// newBatch returns a batch for some of so many series; release gives its memory
// back. What is in its rows and counts is left from others.
func newBatch(series, steps, workers int) (b *batch, release func()) {
	n := min(max(batchBytes/(8*steps), 4*workers), 1024, max(series, 1))
	b = batchPool.Get().(*batch)
	b.lo, b.steps, b.words = 0, steps, (steps+63)/64
	b.vals = slices.Grow(b.vals[:0], n*steps)[:n*steps]
	b.present = slices.Grow(b.present[:0], n*b.words)[:n*b.words]
	b.counts = slices.Grow(b.counts[:0], n)[:n]
	return b, func() { batchPool.Put(b) }
}

var batchPool = sync.Pool{New: func() any { return new(batch) }}

func (b *batch) row(i int) row {
	return row{
		vals:    b.vals[i*b.steps : (i+1)*b.steps],
		present: b.present[i*b.words : (i+1)*b.words],
	}
}

// sink takes finished batches, in series order.
type sink interface {
	take(r *run, b *batch)
}

// window evaluates w, and the chain above it, over all series, batch by batch,
// into the sink that open makes once the series are known.
func (r *run) window(w *plan.Window, above chain, open func(*source) sink) error {
	src, err := r.open(w, above)
	if err != nil {
		return err
	}
	return r.windowed(src, w, above, open(src))
}

// windowed evaluates w, and the chain above it, over the series of src into out.
func (r *run) windowed(src *source, w *plan.Window, above chain, out sink) error {
	if err := r.reserve(out); err != nil {
		return err
	}
	n, steps := len(src.labels), r.job.Grid.Steps
	r.m.Work.Series += n
	hasPoints := make([]bool, n)
	workers := r.x.workers
	if src.sel.NumSamples() < inlineSamples {
		workers = 1
	}
	mappers := above.mappers()
	sp := span{grid: r.job.Grid, scan: w.Scan, width: w.Width, instant: w.Func.Instant, done: r.ctx.Done()}
	scratch, release := r.x.borrow(workers, sp, len(mappers))
	defer release()
	frames := newFrames(sp)
	defer func() { frames.settle(scratch[0].sc) }() // in any case
	tick := r.x.hot.clock.Add(1)

	limit := sampleLimit{max: r.job.MaxSamples, window: !w.Func.Instant, held: r.held}
	b, free := newBatch(n, steps, workers)
	defer free()
	for b.lo = 0; b.lo < n; b.lo += b.n {
		if err := r.done(); err != nil {
			return err
		}
		b.n = min(len(b.counts), n-b.lo)
		clear(b.present)
		parallel(workers, b.n, func(k, i int) bool {
			s := scratch[k]
			if s.err == nil && r.ctx.Err() == nil {
				s.err = s.eval(r, frames, tick, w, src.sel, b.lo+i, b.row(i), &b.counts[i])
				s.apply(mappers, b.row(i), &b.counts[i])
			}
			return s.err == nil
		})
		for _, s := range scratch {
			if s.err != nil {
				return s.err
			}
		}
		if err := r.done(); err != nil {
			return err
		}
		for i := range b.n {
			hasPoints[b.lo+i] = b.counts[i].points > 0
			if !limit.add(b.counts[i]) {
				return promql.ErrTooManySamples("query execution")
			}
		}
		out.take(r, b)
	}
	frames.settle(scratch[0].sc)
	for _, s := range scratch {
		r.m.Work.Chunks += s.read.chunks
		r.m.Work.Samples += s.read.samples
		r.m.Work.Bytes += s.read.bytes
		r.m.Work.Kept += s.read.hot
		s.single.settle(s.sc)
		for k := range steps {
			r.m.SamplesAtStep[k] += s.sc.all[k]
			r.m.NewSamplesAtStep[k] += s.sc.fresh[k]
		}
	}
	r.m.Peak = max(r.m.Peak, limit.peak)
	if err := r.check(w, src, hasPoints); err != nil {
		return err
	}
	kept := make([]int, len(mappers)+1)
	kept[0] = limit.held - r.held
	if w.Func == plan.Timestamp {
		// Prometheus's engine makes it step by step, from nothing that it holds.
		if err := r.checkSteps(w, 0, 0, kept[0], n); err != nil {
			return err
		}
	}
	for _, s := range scratch {
		for k, v := range s.kept {
			kept[k+1] += v
		}
	}
	return above.check(r, kept, n)
}

// expand writes a sparse row into a dense one.
func expand(in plan.Row, out row) {
	v := 0
	for _, run := range in.Runs {
		for k := run.First; k < run.First+run.Len; k++ {
			out.set(int(k), in.Values[v])
			v++
		}
	}
}
