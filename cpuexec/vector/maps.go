package vector

import (
	"context"
	"math/bits"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// valueFunc returns the function of one value that m applies, or nil if it
// compares.
func valueFunc(m *plan.Map) func(float64) float64 {
	f := Of(m.Func)
	if f.value != nil {
		return f.value(m.Args)
	}
	operate := f.arithmetic
	switch {
	case operate == nil:
		return nil
	case m.Swap:
		c := m.Args[0]
		return func(v float64) float64 { return operate(c, v) }
	}
	c := m.Args[0]
	return func(v float64) float64 { return operate(v, c) }
}

// Mapper applies a map to rows.
type Mapper struct {
	value func(float64) float64
	keep  func(float64) bool
	// Operators with a constant have loops over up to 64 values: all changes
	// them in place, holds is a bitmap of those that a comparison holds for.
	all   func(vals []float64)
	holds func(vals []float64) uint64
}

func newMapper(m *plan.Map) Mapper {
	f := Mapper{value: valueFunc(m)}
	switch {
	case m.Func.Compares:
		f.holds = holdsFor(m)
		if m.Bool {
			f.all = truthsOf(f.holds)
		}
	case Of(m.Func).arithmetic != nil:
		f.all = withConstant(m)
	}
	return f
}

// truthsOf returns a loop that puts 1 where a comparison holds and 0 elsewhere.
func truthsOf(holds func(vals []float64) uint64) func(vals []float64) {
	return func(vals []float64) {
		mask := holds(vals)
		for k := range vals {
			vals[k] = float64(mask >> (k & 63) & 1)
		}
	}
}

// apply changes r in place and returns the number of its values.
func (m Mapper) apply(r dense.Row) (points int) {
	for w, p := range r.Present {
		if p == 0 {
			continue
		}
		vals := r.Values[w<<6 : min(w<<6+64, len(r.Values))]
		switch {
		case m.all != nil:
			m.all(vals) // what is where there is no value does not matter
		case m.holds != nil:
			p &= m.holds(vals)
			r.Present[w] = p
		case bits.OnesCount64(p) == len(vals):
			for k, v := range vals {
				vals[k] = m.value(v)
			}
		default:
			for q := p; q != 0; q &= q - 1 {
				k := bits.TrailingZeros64(q)
				vals[k] = m.value(vals[k])
			}
		}
		points += bits.OnesCount64(p)
	}
	return points
}

// mapRows applies a map to the rows of an inner result.
func mapRows(ctx context.Context, in []plan.Row, m Mapper, steps int) []plan.Row {
	out := in[:0]
	buffer := dense.New(steps)
	for _, r := range in {
		if ctx.Err() != nil {
			break
		}
		clear(buffer.Present)
		buffer.Put(&r)
		if n := m.apply(buffer); n > 0 {
			out = append(out, buffer.Compact(n, r.Labels))
		}
	}
	return out
}

// Apply applies maps to a row that has c.Points values, and adds to kept how many there are
// after each.
func Apply(ms []Mapper, out dense.Row, c *dense.Counts, kept []int) {
	c.Mapped = c.Points
	for k, m := range ms {
		if c.Mapped == 0 {
			return
		}
		c.Mapped = m.apply(out)
		kept[k] += c.Mapped
	}
}

// checkMapped raises Prometheus's error if a map's input, its constants and its
// result are more samples than may be held at once. in and out are samples,
// series is the number of series that the input has at most at one step.
func checkMapped(q *operator.Query, m *plan.Map, in, out, series int) error {
	if m.Func.InPlace {
		return nil
	}
	return q.CheckSteps(m, m.Scalars, in, out, series)
}

// Map applies a map to the rows of an inner result.
func Map(q *operator.Query, m *plan.Map, in []plan.Row) ([]plan.Row, error) {
	held, series := operator.Points(in), len(in)
	out := mapRows(q.Context, in, newMapper(m), q.Grid.Steps)
	seen := Distinct{}
	for i := range out {
		if !m.Filters() && !q.DelayedNameRemoval {
			out[i].Labels = DropNames(out[i].Labels)
			if m.Merges {
				continue
			}
			if !seen.Add(out[i].Labels) {
				return nil, &plan.Declined{At: m, Reason: ReasonCollide, Merges: true}
			}
		}
	}
	return MergeWithin(q, m, out, checkMapped(q, m, held, operator.Points(out), series), m.Merges)
}
