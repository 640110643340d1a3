package resample

import (
	"context"
	"time"
	"unsafe"

	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/selection"
)

const (
	// batchBytes bounds, for each worker, the states of series that wait to be merged into groups:
	// they stay in a core's second cache until they are.
	batchBytes = 512 << 10
	// batchSeries bounds the series of a batch.
	batchSeries = 4096
	stateBytes  = int64(unsafe.Sizeof(aggregate.State{}))
)

// compute has the accelerator make the rows of all groups, or the cores.
func (r *run) compute(a offload.Accelerator, turn func(context.Context, int64) (func(), error)) error {
	if err := r.budget.Charge(r.Plan.bytes()); err != nil {
		return err
	}
	r.result.whole = make([]int32, r.Grid.N())
	for k := range r.result.whole {
		r.result.whole[k] = int32(k)
	}
	gs, err := r.groupSeries()
	if err != nil {
		return err
	}
	r.result.Series = make([]Series, len(gs.labels))
	done, err := r.offer(a, gs)
	if err != nil {
		return err
	}
	if !done {
		began := time.Now()
		if turn != nil {
			done, err := turn(r.ctx, r.sel.NumSamples())
			if err != nil {
				return err
			}
			defer done()
		}
		r.waited = time.Since(began)
		began = time.Now()
		if err := r.onCores(gs); err != nil {
			return err
		}
		if a != nil {
			a.OnCores(r.task(gs), time.Since(began))
		}
	}
	all := r.result.Series
	r.result.Series = all[:0]
	for _, s := range all {
		if s.Rows != nil {
			r.result.Series = append(r.result.Series, s)
		}
	}
	if r.Limit > 0 && len(r.result.Series) > r.Limit {
		r.result.Series, r.result.Truncated = r.result.Series[:r.Limit], true
	}
	return r.fillAll()
}

// onCores goes over the series group by group, a batch at a time. In a batch each series is
// decoded and cut into runs on some core; then the states of its runs are merged into its group's,
// in the order of series, on a core for each range of buckets.
func (r *run) onCores(gs *groups) error {
	c := &computing{run: r, groups: gs, workers: make([]worker, r.workers)}
	for from := 0; from < len(gs.members); {
		to, bytes := c.batch(from)
		if more := bytes - c.charged; more > 0 {
			c.charged = bytes
			if err := r.budget.Charge(more); err != nil {
				return err
			}
		}
		if err := c.series(); err != nil {
			return err
		}
		if err := c.merge(from, to); err != nil {
			return err
		}
		c.finish()
		if from = to; r.Limit > 0 && c.found() > r.Limit {
			break
		}
	}
	return r.failed()
}

// computing is the state of compute.
type computing struct {
	*run
	groups  *groups
	workers []worker
	items   []item // of the batch
	tasks   []task
	at      int // the group that the next series is of
	open    map[int]*openGroup
	ended   []int // groups whose last series was in the batch
	charged int64 // bytes for the states of a batch
	looked  int   // groups that found has counted
	full    int   // of these, those with a value
	slab    slab  // that rows of groups are cut from
}

// item is a series of a batch. Its memory is used again for the next batch.
type item struct {
	series, group int
	chunks        []selection.Chunk // that have samples of the plan's time
	columns       []columnStates    // by slot, where the group has other series, too
}

// columnStates are what a slot of the group is merged from: the states of a series' runs, or the
// values of an aggregate that are aggregated again.
type columnStates struct {
	buckets []int32
	states  []aggregate.State
	memory  aggregate.Memory // that states refer to; its values may be what is aggregated again
}

// ownBytes is the memory of the workers for what definitions have of their own.
func (r *run) ownBytes() (n int64) {
	for i := range r.Sources {
		if own := r.Sources[i].Contents.Own; own != nil {
			n += own.Bytes()
		}
	}
	if r.Reaggregate != nil && r.Reaggregate.Own != nil {
		n += r.Reaggregate.Own.Bytes()
	}
	return n * int64(r.workers)
}

// slots is the number of states that a group has for each bucket: one for each source, or for each
// aggregate whose values are aggregated again.
func (r *run) slots() int {
	if r.Reaggregate != nil {
		return len(r.Aggregates)
	}
	return len(r.Sources)
}

// runBytes is the memory that a run takes until it is merged.
func (r *run) runBytes() int64 {
	if r.Reaggregate != nil {
		return 12 * int64(r.slots())
	}
	n := stateBytes * int64(r.slots())
	for s := range r.Sources {
		n += 8 * int64(r.Sources[s].Contents.OwnSize())
	}
	return n
}

// heldBytes is the memory that a sample takes until its run is merged.
func (r *run) heldBytes() (n int64) {
	if r.Reaggregate != nil {
		return 0
	}
	for s := range r.slots() {
		n += valueBytes(r.contentsOf(s))
	}
	return n
}

// valueBytes is the memory that states of some contents hold for each sample.
func valueBytes(c aggregate.Contents) int64 {
	switch {
	case c.Parts&aggregate.Times != 0:
		return 32 // with room to sort them
	case c.Parts&aggregate.Values != 0:
		return 8
	}
	return 0
}

// contentsOf are the contents of the states in a slot.
func (r *run) contentsOf(slot int) aggregate.Contents {
	if r.Reaggregate != nil {
		return contentsOf(r.Reaggregate)
	}
	return r.Sources[slot].Contents
}

// alone reports whether nothing is merged into a group: it has one series.
func (c *computing) alone(group int) bool {
	return c.Reaggregate == nil && len(c.groups.of(group)) == 1
}

// batch makes items of some series from the given one on. It returns where the next batch begins,
// and the memory that this one takes.
func (c *computing) batch(from int) (next int, bytes int64) {
	c.items = c.items[:cap(c.items)]
	n, most := 0, batchBytes*int64(c.run.workers)
	for at := from; at < len(c.groups.members) && n < batchSeries && (n == 0 || bytes < most); at++ {
		for int(c.groups.first[c.at+1]) <= at {
			c.at++
		}
		if n == len(c.items) {
			c.items = append(c.items, item{})
		}
		it := &c.items[n]
		it.series, it.group = int(c.groups.members[at]), c.at
		it.chunks = c.sel.Overlapping(it.series, c.from, c.to-1)
		if !c.alone(c.at) {
			samples := int64(0)
			for _, ch := range it.chunks {
				samples += int64(ch.Samples)
			}
			bytes += min(samples, int64(c.Grid.N()))*c.runBytes() + c.heldBytes()*samples
		}
		n++
	}
	c.items = c.items[:n]
	return from + n, bytes + c.ownBytes()
}

// failed returns why the request cannot go on.
func (r *run) failed() error {
	if err := plan.Ended(r.ctx); err != nil {
		return err
	}
	if err := r.hold(0); err != nil {
		return err
	}
	return r.budget.Charge(0)
}

// hold counts n more values of the result, or samples held. Once it has failed it always fails.
func (r *run) hold(n int) error {
	if r.held.Add(int64(n)) > r.most && r.most > 0 {
		r.exceeded.Store(true)
	}
	if r.exceeded.Load() {
		return promql.ErrTooManySamples("resampling")
	}
	return nil
}

// found is the number of groups with a value so far.
func (c *computing) found() int {
	for ; c.looked < c.at; c.looked++ {
		if c.result.Series[c.looked].Rows != nil {
			c.full++
		}
	}
	return c.full
}

// series decodes and aggregates the series of the batch.
func (c *computing) series() error {
	samples, chunks := 0, 0
	for i := range c.items {
		for _, ch := range c.items[i].chunks {
			samples += int(ch.Samples)
		}
		chunks += len(c.items[i].chunks)
	}
	workers := c.run.workers
	if samples < 20_000 {
		workers = 1
	}
	c.divide(chunks / (tasksEach * workers))
	parallel.While(workers, len(c.tasks), func(w, i int) bool {
		t := &c.tasks[i]
		t.err = c.workers[w].do(c, c.items[t.first:t.end])
		return t.err == nil && c.ctx.Err() == nil
	})
	for i := range c.tasks {
		if err := c.tasks[i].err; err != nil {
			return err
		}
	}
	return c.failed()
}

const (
	// taskChunks is the number of chunks from which on a task has no more series: few of them are
	// left over from those that are decoded at once, and the samples stay in a core's caches.
	taskChunks = 48
	// tasksEach is how many tasks a worker has, so that all end at about the same time, unless
	// their chunks would be fewer than are decoded at once.
	tasksEach = 8
)

// task is some items of a batch, which a worker decodes together.
type task struct {
	first, end int
	err        error
}

// divide makes tasks of the items of the batch: of about so many chunks each, within bounds.
func (c *computing) divide(each int) {
	each = min(max(each, decode.AtOnce), taskChunks)
	c.tasks = c.tasks[:0]
	for i, chunks := 0, each; i < len(c.items); i++ {
		if chunks >= each {
			c.tasks, chunks = append(c.tasks, task{first: i}), 0
		}
		chunks += max(1, len(c.items[i].chunks))
		c.tasks[len(c.tasks)-1].end = i + 1
	}
}
