package histogram

import (
	"math"

	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/plan"
)

// Args are the scalar arguments of a function of classic histograms.
type Args struct {
	Constants []float64
	Values    [][]float64 // by argument and step; nil if all are constants
}

// WarnQuantiles says what Prometheus's engine says of a φ that is no quantile.
func (a *Args) WarnQuantiles(n *plan.Histogram, note func(error)) {
	warn := func(qs []float64, pos posrange.PositionRange) {
		for _, q := range qs {
			if !exact.IsQuantile(q) {
				note(annotations.NewInvalidQuantileWarning(q, pos))
			}
		}
	}
	switch {
	case n.Many():
		for i := range a.Constants {
			warn(a.Constants[i:i+1], n.ArgsPos[i])
		}
	case n.Func.Name == "histogram_fraction":
	case a.Values != nil:
		warn(a.Values[0], n.ArgPos)
	default:
		warn(a.Constants[:1], n.ArgPos)
	}
}

// at are the arguments at a step, and for how many of at most so many steps they are
// the same. out is memory for them.
func (a *Args) at(step, most int, out []float64) (args []float64, n int) {
	if a.Values == nil {
		return a.Constants, most
	}
	for _, vs := range a.Values {
		out = append(out, vs[step])
	}
	for n = 1; n < most; n++ {
		for _, vs := range a.Values {
			if math.Float64bits(vs[step+n]) != math.Float64bits(vs[step]) {
				return out, n
			}
		}
	}
	return out, n
}
