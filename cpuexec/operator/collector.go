package operator

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// Collector is the sink of series that are not aggregated: it keeps every one
// that has a value.
type Collector struct {
	Labels func(int) labels.Labels // of a series in the result, from any goroutine
	Rows   []plan.Row
	Series []int32    // that each row is
	whole  []plan.Run // of all rows that have a value at every step
}

func (c *Collector) Consume(q *Query, b *Batch) {
	start := len(c.Rows)
	values := c.note(b)
	series := c.Series[start:]
	q.Charge(int64(len(series))*RowBytes(0) + 8*int64(values))
	if c.whole == nil {
		c.whole = []plan.Run{{Len: int32(b.Steps)}}
	}
	// Few values do not keep much memory from others.
	b.Retained = b.Lent && 2*values >= b.N*b.Steps
	c.Rows = c.Rows[:len(c.Series)]
	rows := c.Rows[start:]
	n := max(1, together/(8*b.Steps))
	parallel.While(q.WorkersFor(len(rows)*b.Steps), (len(rows)+n-1)/n, func(_, k int) bool {
		lo, hi := k*n, min((k+1)*n, len(rows))
		c.fill(b, rows[lo:hi], series[lo:hi])
		return true
	})
}

// note notes the series of a batch that have values, says how many values that are, and
// makes room for the rows.
func (c *Collector) note(b *Batch) (values int) {
	c.Rows = slices.Grow(c.Rows, b.N)
	c.Series = slices.Grow(c.Series, b.N)
	for i := range b.N {
		if kept := b.Counts[i].Mapped; kept > 0 {
			c.Series = append(c.Series, int32(b.Lo+i))
			values += kept
		}
	}
	return values
}

// fill makes rows of series of a batch. Their values stay where they are, or are put
// together.
func (c *Collector) fill(b *Batch, rows []plan.Row, series []int32) {
	var room []float64
	if !b.Retained {
		size := 0
		for _, s := range series {
			size += b.Counts[int(s)-b.Lo].Mapped
		}
		room = make([]float64, size)
	}
	for at, s := range series {
		i := int(s) - b.Lo
		in, kept := b.Row(i), b.Counts[i].Mapped
		to := in.Values[:kept:kept]
		if !b.Retained {
			to, room = room[:kept:kept], room[kept:]
		}
		rows[at] = plan.Row{Labels: c.Labels(int(s)), Values: to, Runs: c.whole}
		switch {
		case kept < b.Steps:
			rows[at].Runs = dense.Runs(in.Present, b.Steps)
			for _, run := range rows[at].Runs {
				to = to[copy(to, in.Values[run.First:run.First+run.Len]):]
			}
		case !b.Retained:
			copy(to, in.Values)
		}
	}
}

// together is the size in bytes of the values that a collector puts into one
// allocation: a few rows of many steps, or many of few.
const together = 64 << 10
