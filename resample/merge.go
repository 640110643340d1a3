package resample

import (
	"sort"
	"time"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
)

// openGroup is a group of which not all series are merged.
type openGroup struct {
	states [][]aggregate.State // by slot and bucket; without samples N is 0
	own    [][]float64         // by slot: the own numbers of states
	bytes  int64               // charged for the states and their values
	held   int                 // values of the states
}

// mergeBuckets is the number of buckets that a goroutine merges at once, at least.
const mergeBuckets = 64

// merge merges the states of the batch into their groups, in the order of series: a goroutine has
// a range of buckets and goes over all series, so the order does not depend on how many there are.
func (c *computing) merge(from, to int) error {
	began := time.Now()
	c.ended = c.ended[:0]
	var work []*item
	for i := range c.items {
		it := &c.items[i]
		if c.alone(it.group) {
			continue
		}
		if err := c.begin(it.group); err != nil {
			return err
		}
		if from+i == int(c.groups.first[it.group+1])-1 {
			c.ended = append(c.ended, it.group)
		}
		for s := range it.columns {
			if err := c.holdFor(c.open[it.group], c.contentsOf(s), len(it.columns[s].memory.Values)); err != nil {
				return err
			}
		}
		work = append(work, it)
	}
	if len(work) == 0 {
		return nil
	}
	each := max(mergeBuckets, (c.Grid.N()+4*c.run.workers-1)/(4*c.run.workers))
	parallel.While(c.run.workers, (c.Grid.N()+each-1)/each, func(_, k int) bool {
		lo, hi, one := int32(k*each), int32(min((k+1)*each, c.Grid.N())), newOneValue()
		for _, it := range work {
			c.mergeRange(it, lo, hi, one)
		}
		return c.ctx.Err() == nil
	})
	c.work.merge.Add(int64(time.Since(began)))
	return c.failed()
}

// begin makes the states of a group that has none yet.
func (c *computing) begin(group int) error {
	if c.open[group] != nil {
		return nil
	}
	if err := plan.Ended(c.ctx); err != nil {
		return err
	}
	g := &openGroup{states: make([][]aggregate.State, c.slots()), own: make([][]float64, c.slots())}
	for s := range g.states {
		contents := c.contentsOf(s)
		g.bytes += (stateBytes + 8*int64(contents.OwnSize())) * int64(c.Grid.N())
	}
	if err := c.budget.Charge(g.bytes); err != nil {
		return err
	}
	for s := range g.states {
		contents := c.contentsOf(s)
		g.states[s] = make([]aggregate.State, c.Grid.N())
		g.own[s] = make([]float64, c.Grid.N()*contents.OwnSize())
	}
	if c.open == nil {
		c.open = map[int]*openGroup{}
	}
	c.open[group] = g
	return nil
}

// holdFor counts n samples more that the states of a group hold, if they do, until it is finished.
// Appending doubles their room.
func (c *computing) holdFor(g *openGroup, contents aggregate.Contents, n int) error {
	bytes := 2 * valueBytes(contents) * int64(n)
	if bytes == 0 {
		return nil
	}
	g.held += n
	g.bytes += bytes
	if err := c.hold(n); err != nil {
		return err
	}
	return c.budget.Charge(bytes)
}

// oneValue makes the state of a run of one value, which is aggregated again.
type oneValue struct {
	runs   aggregate.Runs
	states []aggregate.State
	memory aggregate.Memory
}

func newOneValue() *oneValue {
	return &oneValue{runs: aggregate.Runs{Times: []int64{0}, Runs: []bucket.Run{{End: 1}}, Grid: &bucket.Grid{Starts: []int64{0}, Ends: []int64{1}}}}
}

// state is the state of a list of one value, until the next call.
func (o *oneValue) state(contents *aggregate.Contents, value []float64) *aggregate.State {
	o.runs.Values = value
	o.states = contents.Make(o.states, &o.runs, &o.memory)
	return &o.states[0]
}

// mergeRange merges an item's states of buckets lo to hi, hi excluded, into its group.
func (c *computing) mergeRange(it *item, lo, hi int32, one *oneValue) {
	g := c.open[it.group]
	for s := range it.columns {
		col, contents := &it.columns[s], c.contentsOf(s)
		size := contents.OwnSize()
		k := sort.Search(len(col.buckets), func(k int) bool { return col.buckets[k] >= lo })
		for ; k < len(col.buckets) && col.buckets[k] < hi; k++ {
			at := int(col.buckets[k])
			to := &g.states[s][at]
			var from *aggregate.State
			if c.Reaggregate != nil {
				from = one.state(&contents, col.memory.Values[k:k+1])
			} else {
				from = &col.states[k]
			}
			if to.N == 0 {
				contents.Keep(to, from, g.own[s][at*size:(at+1)*size])
			} else {
				contents.Merge(to, from)
			}
		}
	}
}

// finishBuckets is the number of buckets whose results a goroutine makes at once.
const finishBuckets = 8

// finish makes the rows of the groups whose last series was in the batch: a goroutine has some
// buckets of a group at once, since order statistics take longest here.
func (c *computing) finish() {
	var parts []finishing
	for _, group := range c.ended {
		if c.ctx.Err() != nil {
			break // it shows in failed
		}
		parts = append(parts, c.finishGroup(group, c.open[group])...)
	}
	parallel.While(c.run.workers, len(parts), func(_, i int) bool {
		f := &parts[i]
		for _, a := range f.outputs {
			of, q := c.Aggregates[a].Definition, c.Aggregates[a].Q
			if c.Reaggregate != nil {
				of, q = c.Reaggregate, 0
			}
			of.Results(f.states, q, f.rows[a].Values[f.at:])
		}
		return c.failed() == nil
	})
	for _, group := range c.ended {
		g := c.open[group]
		c.held.Add(-int64(g.held))
		_ = c.budget.Charge(-g.bytes) // if it has failed before, it shows later
		delete(c.open, group)
	}
	c.ended = c.ended[:0]
}

// finishing are states of a group whose results are to be put into its rows, from at on.
type finishing struct {
	states  []aggregate.State
	outputs []int
	rows    []Row
	at      int
}

// finishGroup makes room for the rows of a group, and divides its states.
func (c *computing) finishGroup(group int, g *openGroup) (parts []finishing) {
	rows := make([]Row, len(c.Aggregates))
	any := false
	for s, states := range g.states {
		outputs := []int{s}
		if c.Reaggregate == nil {
			outputs = c.sources[s].outputs
		}
		n := 0
		for k := range states {
			if states[k].N > 0 {
				n++
			}
		}
		if n == 0 {
			continue
		}
		any = true
		if c.make(&c.slab, rows, outputs, n) != nil {
			return nil // what failed shows in failed
		}
		if n < len(states) {
			n = 0 // states move over those without samples
			for k := range states {
				if states[k].N > 0 {
					rows[outputs[0]].Buckets[n], states[n] = int32(k), states[k]
					n++
				}
			}
		}
		for at := 0; at < n; at += finishBuckets {
			parts = append(parts, finishing{states[at:min(at+finishBuckets, n)], outputs, rows, at})
		}
	}
	if any {
		c.result.Series[group] = Series{c.groups.labels[group], rows}
	}
	return parts
}
