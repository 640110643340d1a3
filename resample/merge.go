package resample

import (
	"slices"
	"sort"
	"time"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/resample/aggregate"
)

// openGroup is a group of which not all series are merged.
type openGroup struct {
	states [][]aggregate.State // by slot and bucket; without samples N is 0
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
		held := 0
		for s := range it.columns {
			if c.partsOf(s)&aggregate.Values != 0 {
				held += len(it.columns[s].values)
			}
		}
		if err := c.holdFor(c.open[it.group], held); err != nil {
			return err
		}
		work = append(work, it)
	}
	if len(work) == 0 {
		return nil
	}
	each := max(mergeBuckets, (c.Grid.N()+4*c.run.workers-1)/(4*c.run.workers))
	parallel.While(c.run.workers, (c.Grid.N()+each-1)/each, func(_, k int) bool {
		lo, hi := int32(k*each), int32(min((k+1)*each, c.Grid.N()))
		for _, it := range work {
			c.mergeRange(it, lo, hi)
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
	g := &openGroup{states: make([][]aggregate.State, c.slots()), bytes: stateBytes * int64(c.Grid.N()) * int64(c.slots())}
	if err := c.budget.Charge(g.bytes); err != nil {
		return err
	}
	for s := range g.states {
		g.states[s] = make([]aggregate.State, c.Grid.N())
	}
	if c.open == nil {
		c.open = map[int]*openGroup{}
	}
	c.open[group] = g
	return nil
}

// holdFor counts n values more that a group holds until it is finished. Appending doubles their
// room.
func (c *computing) holdFor(g *openGroup, n int) error {
	g.held += n
	g.bytes += 16 * int64(n)
	if err := c.hold(n); err != nil {
		return err
	}
	return c.budget.Charge(16 * int64(n))
}

// mergeRange merges an item's states of buckets lo to hi, hi excluded, into its group.
func (c *computing) mergeRange(it *item, lo, hi int32) {
	g := c.open[it.group]
	for s := range it.columns {
		col, parts := &it.columns[s], c.partsOf(s)
		k := sort.Search(len(col.buckets), func(k int) bool { return col.buckets[k] >= lo })
		for ; k < len(col.buckets) && col.buckets[k] < hi; k++ {
			to, from := &g.states[s][col.buckets[k]], &col.states[k]
			if to.N == 0 {
				*to = *from
				to.Values = slices.Clone(from.Values) // the item's memory is used again
			} else {
				parts.Merge(to, from)
			}
		}
	}
}

// finish makes the rows of the groups whose last series was in the batch.
func (c *computing) finish() {
	parallel.While(c.run.workers, len(c.ended), func(_, i int) bool {
		group := c.ended[i]
		c.finishGroup(group, c.open[group])
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

// finishGroup makes the rows of a group.
func (c *computing) finishGroup(group int, g *openGroup) {
	rows := make([]Row, len(c.Aggregates))
	any := false
	for s, states := range g.states {
		outputs, result := []int{s}, c.Reaggregate
		if result == nil {
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
		if c.make(rows, outputs, n) != nil {
			return // what failed shows in failed
		}
		n = 0
		for k := range states {
			if st := &states[k]; st.N > 0 {
				rows[outputs[0]].Buckets[n] = int32(k)
				for _, a := range outputs {
					of := &c.Aggregates[a]
					if result != nil {
						rows[a].Values[n] = result.Result(st, 0)
					} else {
						rows[a].Values[n] = of.Result(st, of.Q)
					}
				}
				n++
			}
		}
	}
	if any {
		c.result.Series[group] = Series{c.groups.labels[group], rows}
	}
}
