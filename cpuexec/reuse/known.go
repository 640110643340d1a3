package reuse

import (
	"slices"

	"github.com/promwarp/promwarp/cache/results"
	"github.com/promwarp/promwarp/cpuexec/operator"
)

// known are stretches of a query's steps at which the values are known.
//
//	steps      0         10        20        30
//	ranges     |---------)    |----)   |------
//	evaluated           |-----)   |----)          each from the step before on
type known struct {
	steps  int     // of the query
	ranges []place // in order, none overlapping another
	count  int     // steps of all
}

// place is where a stretch of values lies: the first of them is at step at of the query.
type place struct {
	results.StepRange
	at int
}

func (p place) end() int { return p.at + p.To - p.From }

// add adds steps from to to of values, the end excluded, as those from step at of the query on,
// unless some of them are known. How many samples of the first are new must be known, but where it
// is the query's first.
func (k *known) add(from, to, at int, v *results.Values) {
	p := place{results.StepRange{Values: v, From: from, To: to}, at}
	i, _ := slices.BinarySearchFunc(k.ranges, p, func(a, b place) int { return a.at - b.at })
	if from >= to || i > 0 && k.ranges[i-1].end() > at || i < len(k.ranges) && k.ranges[i].at < p.end() {
		return
	}
	k.ranges = slices.Insert(k.ranges, i, p)
	k.count += to - from
}

// complete evaluates the other steps, and returns the values at all.
func (k *known) complete(q *operator.Query, evaluate Evaluate) (*results.Values, error) {
	if k.count == 0 {
		return evaluate(0, k.steps)
	}
	var ranges []results.StepRange
	at, evaluated := 0, int64(0) // bytes
	between := func(to int) error {
		if at == to {
			return nil
		}
		// From one step earlier on, to know which samples are new at the first.
		from := max(at-1, 0)
		v, err := evaluate(from, to)
		if err != nil {
			return err
		}
		evaluated += operator.RowsBytes(v.Rows)
		ranges = append(ranges, results.StepRange{Values: v, From: at - from, To: to - from})
		return nil
	}
	for _, p := range k.ranges {
		if err := between(p.at); err != nil {
			return nil, err
		}
		ranges = append(ranges, p.StepRange)
		at = p.end()
	}
	if err := between(k.steps); err != nil {
		return nil, err
	}
	v := results.Join(ranges...)
	q.Charge(operator.RowsBytes(v.Rows) - evaluated)
	return v, q.Done()
}
