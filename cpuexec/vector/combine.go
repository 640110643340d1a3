// Package vector evaluates operators on rows: between two sides (match.go, fillin.go, set.go), of
// each value by itself (maps.go, stepmap.go), of labels (relabel.go, info.go), of order (sort.go)
// and of absence.
//
// Finished rows go in. What becomes of them is known before any value is computed: a Combination
// knows its series, and Fill computes their values batch by batch into a sink. A Chain is what can
// be applied to each series on its way, without rows in between. Values are those of Prometheus's
// operators, bit by bit, and so are the errors of series that match several others or become the
// same; where only Prometheus's engine can tell the error, the operator is declined.
//
// Start with Combine and Fill, and with Chain.
package vector

import (
	"errors"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// Combination is the result of a node that combines the rows of its inputs. Its
// series are known before their values, which are written one series at a time,
// from several goroutines.
type Combination interface {
	Size() int // series
	Labels(i int) labels.Labels
	// fill writes series i into a row without values. It returns false if that
	// takes two values at one step.
	fill(i int, out dense.Row) bool
}

// Combines reports whether r.combined can evaluate n.
func Combines(n plan.Node) bool {
	switch n.(type) {
	case *plan.Binary, *plan.Set:
		return true
	case *plan.StepMap:
		return !Merges(n)
	}
	return false
}

// Combine matches the rows of the inputs of n.
func Combine(q *operator.Query, n plan.Node, in [][]plan.Row) (Combination, error) {
	switch n := n.(type) {
	case *plan.Binary:
		if fills(n) {
			return fillIn(q, n, in[0], in[1])
		}
		return match(q, n, in[0], in[1])
	case *plan.Set:
		return setOf(n, in[0], in[1], q.Grid.Steps), nil
	default:
		return stepMap(q, n.(*plan.StepMap), in)
	}
}

// Fill writes all series of c, applies the maps and hands them to a sink. It
// returns the number of values before the maps and after each.
func Fill(q *operator.Query, n plan.Node, c Combination, mappers []Mapper, out operator.Sink) (kept []int, err error) {
	keptBy := make([][]int, q.Workers)
	for k := range keptBy {
		keptBy[k] = make([]int, len(mappers)+1)
	}
	err = q.Feed(out, c.Size(), func(worker, i int, out dense.Row, counts *dense.Counts) error {
		if !c.fill(i, out) {
			return &plan.Declined{At: n, Reason: reasonAmbiguous}
		}
		counts.Points = dense.Count(out.Present)
		keptBy[worker][0] += counts.Points
		Apply(mappers, out, counts, keptBy[worker][1:])
		return nil
	})
	kept = make([]int, len(mappers)+1)
	for _, of := range keptBy {
		for k, v := range of {
			kept[k] += v
		}
	}
	return kept, err
}

// Explained is the error of Prometheus's engine in place of that of an operator that
// was declined because several series match. It stays declined where the sample limit
// might be reached first: inputs have so many samples, and the result no more.
func Explained(q *operator.Query, n plan.Node, in [][]plan.Row, samples int, err error) error {
	b, ok := n.(*plan.Binary)
	var d *plan.Declined
	if !ok || !errors.As(err, &d) || d.Reason != reasonAmbiguous || !q.MayHold(q.Held+2*samples+len(in[0])+len(in[1])) {
		return err
	}
	return findAmbiguity(q, b, in[0], in[1], err)
}
