package resample

import (
	"slices"
	"time"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample/aggregate"
)

// openGroup is a group of which not all series are merged.
type openGroup struct {
	group   int
	items   []item         // of the batch
	columns []columnStates // by slot: a state for each bucket of the grid; without samples N is 0
	bytes   int64          // charged for the states and their values
	held    int            // values of the states
}

// mergeBuckets is the number of buckets that a goroutine merges at once, at least.
const mergeBuckets = 64

// merge merges the states of the batch into their groups, in the order of series: a goroutine has
// a range of a group's buckets and goes over its series, so the order does not depend on how many
// there are.
func (c *computing) merge() error {
	began := time.Now()
	for i := range c.items {
		it := &c.items[i]
		if c.alone(it.group) {
			continue
		}
		n := len(c.open)
		if n == 0 || c.open[n-1].group != it.group {
			if err := c.begin(it.group); err != nil {
				return err
			}
			n++
		}
		g := c.open[n-1]
		g.items = c.items[i-len(g.items) : i+1]
		for s := range it.columns {
			n := len(it.columns[s].values)
			if c.Reaggregate == nil {
				n = it.columns[s].states.Held()
			}
			if err := c.holdFor(g, &c.Slots[s].Contents, n); err != nil {
				return err
			}
		}
	}
	ranges := max(1, min(4*len(c.workers)/max(len(c.open), 1), c.Grid.N()/mergeBuckets))
	parallel.While(len(c.workers), len(c.open)*ranges, func(w, k int) bool {
		part, n := k%ranges, c.Grid.N()
		c.mergeRange(&c.workers[w], c.open[k/ranges], int32(part*n/ranges), int32((part+1)*n/ranges))
		return c.ctx.Err() == nil
	})
	c.work.merge += time.Since(began)
	return c.failed()
}

// begin makes the states of a group that has none yet.
func (c *computing) begin(group int) error {
	if err := plan.Ended(c.ctx); err != nil {
		return err
	}
	g := &openGroup{group: group, columns: make([]columnStates, len(c.Slots))}
	for s := range c.Slots {
		g.bytes += c.Slots[s].Contents.Bytes() * int64(c.Grid.N())
	}
	if err := c.budget.Charge(g.bytes); err != nil {
		return err
	}
	for s := range g.columns {
		contents, states := &c.Slots[s].Contents, &g.columns[s].states
		contents.Begin(states, c.Grid.N())
		contents.Grouped(states)
	}
	c.open = append(c.open, g)
	return nil
}

// holdFor counts n samples more that the states of a group hold, if they do, until it is finished.
// Appending doubles their room.
func (c *computing) holdFor(g *openGroup, contents *aggregate.Contents, n int) error {
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

// mergeRange merges the items' states of buckets lo to hi, hi excluded, into their group.
func (c *computing) mergeRange(w *worker, g *openGroup, lo, hi int32) {
	for i := range g.items {
		for s := range g.items[i].columns {
			col, contents, states := &g.items[i].columns[s], &c.Slots[s].Contents, &g.columns[s].states
			first, _ := slices.BinarySearch(col.buckets, lo)
			end, _ := slices.BinarySearch(col.buckets, hi)
			if c.Reaggregate == nil {
				contents.Merge(states, col.buckets[first:end], &col.states, first)
				continue
			}
			contents.MakeSingle(&w.states, col.values[first:end])
			contents.Merge(states, col.buckets[first:end], &w.states, 0)
		}
	}
}

// finishBuckets is the number of buckets whose results a goroutine makes at once, and orderBuckets
// where there are order statistics.
const (
	finishBuckets = 256
	orderBuckets  = 8
)

// finish makes the rows of the groups whose series are all before the given member: a goroutine has
// some buckets of a group at once.
func (c *computing) finish(end int) error {
	n := len(c.open)
	if n > 0 && int(c.groups.first[c.open[n-1].group+1]) > end {
		n--
	}
	each := finishBuckets
	for s := range c.Slots {
		if valueBytes(&c.Slots[s].Contents) > 0 {
			each = orderBuckets
		}
	}
	rows := make([][]Row, n)
	for i, g := range c.open[:n] {
		for s := range g.columns {
			col := &g.columns[s]
			if !slices.Contains(col.states.N, 0) {
				col.buckets = c.result.whole
				continue
			}
			for k, samples := range col.states.N {
				if samples > 0 {
					col.buckets = append(col.buckets, int32(k))
				}
			}
		}
		var err error
		if rows[i], err = c.rows(g.group, g.columns); err != nil {
			return err
		}
	}
	ranges := (c.Grid.N() + each - 1) / each
	parallel.While(len(c.workers), n*ranges, func(_, k int) bool {
		g, part := c.open[k/ranges], k%ranges
		for s := range g.columns {
			buckets := g.columns[s].buckets
			from, to := part*len(buckets)/ranges, (part+1)*len(buckets)/ranges
			c.results(rows[k/ranges], s, &g.columns[s].states, buckets[from:to], from)
		}
		return c.ctx.Err() == nil
	})
	for _, g := range c.open[:n] {
		c.held.Add(-int64(g.held))
		_ = c.budget.Charge(-g.bytes) // if it has failed before, it shows later
	}
	if c.open = c.open[n:]; len(c.open) > 0 {
		c.open[0].items = nil
	}
	return nil
}

// finishAlone makes the rows of a group that has one series, whose states are columns.
func (c *computing) finishAlone(group int, columns []columnStates) error {
	rows, err := c.rows(group, columns)
	if err != nil {
		return err
	}
	for s := range columns {
		states := &columns[s].states
		if len(c.groups.labels) < len(c.groups.members) { // a group of one series among others
			c.Slots[s].Contents.Grouped(states)
		}
		c.results(rows, s, states, c.result.whole[:len(columns[s].buckets)], 0)
	}
	return nil
}

// rows makes room for the rows of a group that are made of columns, if these have buckets.
func (c *computing) rows(group int, columns []columnStates) ([]Row, error) {
	rows := make([]Row, len(c.Aggregates))
	for s := range columns {
		if len(columns[s].buckets) == 0 {
			continue
		}
		if err := c.make(rows, c.Slots[s].Outputs, columns[s].buckets); err != nil {
			return nil, err
		}
		c.result.Series[group] = Series{c.groups.labels[group], rows}
	}
	return rows, nil
}

// results puts what is made of some states of a slot into rows, from the given value on.
func (c *computing) results(rows []Row, slot int, states *aggregate.States, which []int32, from int) {
	for _, a := range c.Slots[slot].Outputs {
		of, q := c.Aggregates[a].Definition, c.Aggregates[a].Q
		if c.Reaggregate != nil {
			of, q = c.Reaggregate, c.Reaggregate.At
		}
		of.Results(states, which, q, rows[a].Values[from:])
	}
}

// fillAll fills the buckets without samples of all rows.
func (r *run) fillAll() error {
	if r.Fill.Filling == FillNone {
		return nil
	}
	parallel.While(r.x.o.Workers, len(r.result.Series), func(_, i int) bool {
		rows := r.result.Series[i].Rows
		for k := range rows {
			first, end := r.filled(rows[k].Buckets)
			n := end - first - len(rows[k].Values)
			if n == 0 {
				continue
			}
			if r.hold(n) != nil || r.chargeRows(8*int64(end-first)) != nil {
				return false // what failed shows below
			}
			rows[k] = r.fill(rows[k], r.result.whole[first:end])
		}
		return r.ctx.Err() == nil
	})
	return r.failed()
}

// filled is which buckets a row has once it is filled, of which it now has some.
func (r *run) filled(has []int32) (first, end int) {
	n := r.Grid.N()
	switch {
	case r.Fill.Filling == FillNull || r.Fill.Filling == FillNumber:
		return 0, n
	case len(has) == 0:
		return 0, 0
	case r.Fill.Filling == FillLinear:
		n = int(has[len(has)-1]) + 1
	}
	return int(has[0]), n
}

// fill returns a row of the given buckets, which follow one another, from one that has some.
func (r *run) fill(row Row, buckets []int32) Row {
	out := make([]float64, len(buckets))
	next := 0 // value of the row
	for i, k := range buckets {
		if next < len(row.Buckets) && row.Buckets[next] == k {
			out[i] = row.Values[next]
			next++
			continue
		}
		switch r.Fill.Filling {
		case FillNull:
			out[i] = Null
		case FillNumber:
			out[i] = r.Fill.Number
		case FillPrev:
			out[i] = row.Values[next-1]
		case FillLinear:
			out[i] = r.between(row.Buckets[next-1:next+1], row.Values[next-1], row.Values[next], k)
		}
	}
	return Row{buckets, out}
}

// between is the value at bucket k on the line between two others, which have the values a and b.
func (r *run) between(buckets []int32, a, b float64, k int32) float64 {
	if a == b {
		return a
	}
	at := func(k int32) float64 { return float64(r.Grid.Labels[k]) }
	from, to := at(buckets[0]), at(buckets[1])
	return a + float64((b-a)*((at(k)-from)/(to-from)))
}

// valueBytes is the memory that states of some contents hold for each sample.
func valueBytes(c *aggregate.Contents) int64 {
	switch {
	case c.Parts&aggregate.Times != 0:
		return 32 // with room to sort them
	case c.Parts&aggregate.Values != 0:
		return 8
	}
	return 0
}

// alone reports whether nothing is merged into a group: it has one series.
func (c *computing) alone(group int) bool {
	return c.Reaggregate == nil && c.groups.first[group+1]-c.groups.first[group] == 1
}
