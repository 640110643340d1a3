package resample

import (
	"slices"
	"time"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/resample/aggregate"
)

const (
	// batchBytes bounds, for each worker, the states of series that wait to be merged into groups:
	// they stay in a core's second cache until they are.
	batchBytes = 128 << 10
	// batchSeries bounds the series of a batch.
	batchSeries = 4096
)

// compute has the accelerator make the rows of all groups, or the cores.
func (r *run) compute() error {
	if err := r.chargeRows(r.Plan.bytes()); err != nil {
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
	done, err := r.offer(gs)
	if err != nil {
		return err
	}
	if !done {
		began := time.Now()
		if turn := r.x.o.Turn; turn != nil {
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
		if a := r.x.o.Accelerator; a != nil {
			a.OnCores(r.task(gs), time.Since(began))
		}
	}
	r.result.Series = slices.DeleteFunc(r.result.Series, func(s Series) bool { return s.Rows == nil })
	if r.Limit > 0 && len(r.result.Series) > r.Limit {
		r.result.Series, r.result.Truncated = r.result.Series[:r.Limit], true
	}
	return r.fillAll()
}

// onCores goes over the series group by group, a batch at a time. In a batch each series is
// decoded and cut into runs on some core; then the states of its runs are merged into its group's,
// in the order of series, on a core for each range of buckets.
func (r *run) onCores(gs *groups) error {
	c, columns := r.x.scratch.Get().(*computing), r.x.o.Columns
	c.run, c.groups = r, gs
	defer func() {
		for i := range c.workers {
			c.workers[i].reset()
		}
		*c = computing{workers: c.workers, items: c.items}
		r.x.scratch.Put(c)
	}()
	c.reads = column.Request{Set: columns, Tick: columns.Tick(), Sel: r.sel, Mint: r.from, Maxt: r.to - 1}
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
		if err := c.merge(); err != nil {
			return err
		}
		if err := c.finish(to); err != nil {
			return err
		}
		if from = to; r.Limit > 0 && c.found() > r.Limit {
			break
		}
	}
	for i := range c.workers {
		r.work.add(&c.workers[i].work, &c.workers[i].reader.Stats)
	}
	return r.failed()
}

// computing is the state of onCores. The memory of workers and items is used again for other requests.
type computing struct {
	*run
	groups  *groups
	workers []worker
	reads   column.Request
	items   []item       // of the batch
	at      int          // the group that the next series is of
	open    []*openGroup // groups with several series of which some are in the batch, in order
	charged int64        // bytes for the states of a batch
}

// item is a series of a batch.
type item struct {
	series, group int
	samples       int64          // of chunks that have some of the plan's time
	columns       []columnStates // by slot, where the group has other series, too
	err           error
}

// columnStates are what a slot of a group is made of, or merged from: states, of a series' runs or of
// all buckets, or the values of an aggregate that are aggregated again.
type columnStates struct {
	buckets []int32
	states  aggregate.States
	values  []float64
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
	return n * int64(r.x.o.Workers)
}

// itemBytes is the memory that the states of a series take until they are merged.
func (r *run) itemBytes(samples int64) (n int64) {
	runs := min(samples, int64(r.Grid.N()))
	if r.Reaggregate != nil {
		return 12 * runs * int64(len(r.Slots)) // a bucket and a value each
	}
	for s := range r.Slots {
		contents := &r.Slots[s].Contents
		n += runs*(4+contents.Bytes()) + samples*valueBytes(contents)
	}
	return n
}

// batch makes items of some series from the given one on. It returns where the next batch begins,
// and the memory that this one takes.
func (c *computing) batch(from int) (next int, bytes int64) {
	c.items = c.items[:cap(c.items)]
	n, most := 0, batchBytes*int64(len(c.workers))
	for at := from; at < len(c.groups.members) && n < batchSeries && (n == 0 || bytes < most); at++ {
		for int(c.groups.first[c.at+1]) <= at {
			c.at++
		}
		if n == len(c.items) {
			c.items = append(c.items, item{})
		}
		it := &c.items[n]
		it.series, it.group = int(c.groups.members[at]), c.at
		it.samples = column.CountSamples(c.sel.Overlapping(it.series, c.from, c.to-1))
		if !c.alone(c.at) {
			bytes += c.itemBytes(it.samples)
		}
		n++
	}
	c.items = c.items[:n]
	return from + n, bytes + c.ownBytes()
}

// found is the number of groups with a value so far.
func (c *computing) found() (n int) {
	for i := range c.result.Series[:c.at] {
		if c.result.Series[i].Rows != nil {
			n++
		}
	}
	return n
}

// series decodes and aggregates the series of the batch.
func (c *computing) series() error {
	samples := int64(0)
	for i := range c.items {
		samples += c.items[i].samples
	}
	workers := len(c.workers)
	if samples < operator.InlineSamples {
		workers = 1
	}
	began := time.Now()
	for i := range c.workers {
		c.workers[i].since = began
	}
	each := operator.Neighbours(workers, len(c.items))
	parallel.While(workers, (len(c.items)+each-1)/each, func(w, k int) bool {
		for i := k * each; i < min((k+1)*each, len(c.items)); i++ {
			it := &c.items[i]
			if it.err = c.workers[w].do(c, it); it.err != nil || c.ctx.Err() != nil {
				return false
			}
		}
		return true
	})
	for i := range c.items {
		if err := c.items[i].err; err != nil {
			return err
		}
	}
	return c.failed()
}
