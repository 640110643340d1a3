package window

// oddities tells which windows have samples that are not finite.
type oddities struct {
	vs []float64
	at []int32 // those samples, of which the ones before the window are dropped
}

// in reports whether any of the samples lo to hi is not finite, and whether one
// of them is NaN. Windows are asked for in order.
func (o *oddities) in(lo, hi int32) (any, nan bool) {
	for len(o.at) > 0 && o.at[0] < lo {
		o.at = o.at[1:]
	}
	for _, k := range o.at {
		if k >= hi {
			break
		}
		if any = true; o.vs[k] != o.vs[k] {
			return true, true
		}
	}
	return any, false
}

// Sliding costs, for each sample and each step, about as much as this many
// samples of a window cost that is computed anew.
const sumCost, varianceCost, regressionCost, quantileCost, deviationCost = 3, 2, 2, 2, 5

// slide decides whether to slide over vs, and prepares for it.
func (s *Evaluator) slide(vs []float64, cost int) bool {
	return s.bounds.overlap(cost) && s.fixed.Set(vs, int(s.bounds.first()), int(s.bounds.end()))
}
