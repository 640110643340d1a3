package aggregate

import (
	"sync/atomic"

	"github.com/promwarp/promwarp/plan"
)

// cells are the state of some groups, steps a group.
type cells struct {
	op   *adding
	val  []float64
	comp []float64 // of sum and avg the compensation, of deviations the mean
	n    []float64
	incr []bool // avg: the sum would have overflowed, val is a running mean
	// running says that one of incr is set: by whoever adds at that step, too.
	running atomic.Bool
}

func newCells(op *plan.AggregateFunc, n int) *cells {
	a := &cells{op: Of(op).adds}
	for _, column := range []struct {
		has bool
		of  *[]float64
	}{{a.op.val, &a.val}, {a.op.comp, &a.comp}, {a.op.n, &a.n}} {
		if column.has {
			*column.of = make([]float64, n)
		}
	}
	if a.op == mean {
		a.incr = make([]bool, n)
	}
	return a
}

// first starts a group at one step.
func (a *cells) first(c int, f float64) { a.op.first(a, c, f) }

// next adds a further value to a group at one step.
func (a *cells) next(c int, f float64) { a.op.next(a, c, f) }

// results writes the aggregates of consecutive cells, the first of which is c,
// to out. Those of cells without a value mean nothing.
func (a *cells) results(c int, out []float64) { a.op.results(a, c, out) }

// full adds the values of steps [lo, hi), none of which is the first of its group: what an
// aggregation does most.
func (a *cells) full(base, lo, hi int, vals []float64) { a.op.more(a, base+lo, base+hi, vals[lo:hi]) }
