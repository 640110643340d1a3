package resample

import (
	"math/bits"
	"sync/atomic"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/internal/parallel"
)

// accepting takes what an accelerator has computed.
type accepting struct {
	*run
	groups *groups

	values, bytes int64 // that were counted
}

// togetherGroups is the number of groups whose rows a goroutine makes at once.
const togetherGroups = 64

// take makes the rows of groups. Values stay where they are if they may, and if they are at least
// half of what lies there: few values do not keep much memory from others. It fails as the cores
// would, which ends the request.
func (c *accepting) take(cells *Cells) error {
	holds := false // the result holds the values
	defer func() {
		if cells.Release != nil && !holds {
			cells.Release()
		}
	}()
	counts, values, buckets := c.count(cells)
	rows := make([]Row, len(c.Aggregates)*len(cells.Groups))
	bytes := int64(len(rows))*rowBytes(0) + 8*values + 4*buckets
	c.values, c.bytes = c.values+values, c.bytes+bytes
	if err := c.hold(int(values)); err != nil {
		return err
	}
	if err := c.budget.Charge(bytes); err != nil {
		return err
	}
	if holds = cells.Release != nil && 2*values >= int64(len(rows)*c.Grid.N()); holds {
		c.result.lent = append(c.result.lent, cells.Release)
	}
	states := c.States()
	c.split(cells, func(first, end int) {
		for i := first; i < end; i++ {
			of := rows[i*len(c.Aggregates) : (i+1)*len(c.Aggregates) : (i+1)*len(c.Aggregates)]
			any := false
			for s, outputs := range states {
				if count := int(counts[s][i]); count > 0 {
					any = true
					c.rows(of, outputs, cells, s, i, count, holds)
				}
			}
			if g := cells.Groups[i]; any {
				c.result.Series[g] = Series{c.groups.labels[g], of}
			}
		}
	})
	return c.failed()
}

// split calls f for ranges of the groups of cells, from several goroutines, until the request ends.
func (c *accepting) split(cells *Cells, f func(first, end int)) {
	n := len(cells.Groups)
	parallel.While(c.workers, (n+togetherGroups-1)/togetherGroups, func(_, k int) bool {
		f(k*togetherGroups, min((k+1)*togetherGroups, n))
		return c.ctx.Err() == nil
	})
}

// present is the bitmap of group i in state s.
func (c *accepting) present(cells *Cells, s, i int) []uint64 {
	words := (c.Grid.N() + 63) / 64
	return cells.Present[s][i*words : (i+1)*words]
}

// count says how many buckets have samples, by state and group, how many values that are, and how
// many buckets rows have to be told of.
func (c *accepting) count(cells *Cells) (counts [][]int32, values, buckets int64) {
	states := c.States()
	for range states {
		counts = append(counts, make([]int32, len(cells.Groups)))
	}
	var all, told atomic.Int64
	c.split(cells, func(first, end int) {
		values, buckets := 0, 0
		for s, outputs := range states {
			for i := first; i < end; i++ {
				n := dense.Count(c.present(cells, s, i))
				counts[s][i] = int32(n)
				values += n * len(outputs)
				if n < c.Grid.N() {
					buckets += n
				}
			}
		}
		all.Add(int64(values))
		told.Add(int64(buckets))
	})
	return counts, all.Load(), told.Load()
}

// rows makes the rows of group i that are made of state s, which has so many buckets with samples.
func (c *accepting) rows(rows []Row, outputs []int, cells *Cells, s, i, count int, holds bool) {
	n := c.Grid.N()
	buckets := c.result.whole
	if count < n {
		buckets = make([]int32, 0, count)
		for k, w := range c.present(cells, s, i) {
			for ; w != 0; w &= w - 1 {
				buckets = append(buckets, int32(64*k+bits.TrailingZeros64(w)))
			}
		}
	}
	var room []float64
	if !holds {
		room = make([]float64, count*len(outputs))
	}
	for _, a := range outputs {
		from := cells.row(i, a, len(c.Aggregates), n)
		to := from[:count] // with room for fillings
		if !holds {
			to, room = room[:count:count], room[count:]
		}
		rows[a] = Row{buckets, to}
		if count == n {
			if !holds {
				copy(to, from)
			}
			continue
		}
		for at, k := range buckets {
			to[at] = from[k]
		}
	}
}

// undo forgets what was taken, since the cores begin anew.
func (c *accepting) undo() {
	clear(c.result.Series)
	c.result.giveBack()
	c.held.Add(-c.values)
	_ = c.budget.Charge(-c.bytes) // if it has failed before, it shows later
}
