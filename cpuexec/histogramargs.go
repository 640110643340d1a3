package cpuexec

import (
	"math"

	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/plan"
)

// histogramArgs are the scalar arguments of a function of classic histograms.
type histogramArgs struct {
	constants []float64
	values    [][]float64 // by argument and step; nil if all are constants
}

// histogramArgs evaluates the arguments of n. Their samples are held until free is
// called for the first time.
func (r *run) histogramArgs(n *plan.Histogram) (a histogramArgs, free func(), err error) {
	held := 0
	free = func() {
		r.held -= held
		held = 0
	}
	hold := func() {
		r.held += r.job.Grid.Steps
		held += r.job.Grid.Steps
	}
	a.constants = n.Args
	if n.ArgNodes == nil && !n.Many() { // those of histogram_quantiles come after its input
		for range n.Args {
			hold()
		}
	}
	for _, arg := range n.ArgNodes {
		rows, err := r.node(arg)
		if err != nil {
			return a, free, err
		}
		a.values = append(a.values, rows[0].Values)
		hold()
	}
	return a, free, nil
}

// warnQuantiles says what Prometheus's engine says of a φ that is no quantile.
func (a *histogramArgs) warnQuantiles(n *plan.Histogram, note func(error)) {
	warn := func(qs []float64, pos posrange.PositionRange) {
		for _, q := range qs {
			if !exact.IsQuantile(q) {
				note(annotations.NewInvalidQuantileWarning(q, pos))
			}
		}
	}
	switch {
	case n.Many():
		for i := range a.constants {
			warn(a.constants[i:i+1], n.ArgsPos[i])
		}
	case n.Func.Name == "histogram_fraction":
	case a.values != nil:
		warn(a.values[0], n.ArgPos)
	default:
		warn(a.constants[:1], n.ArgPos)
	}
}

// at are the arguments at a step, and for how many of at most so many steps they are
// the same. out is memory for them.
func (a *histogramArgs) at(step, most int, out []float64) (args []float64, n int) {
	if a.values == nil {
		return a.constants, most
	}
	for _, vs := range a.values {
		out = append(out, vs[step])
	}
	for n = 1; n < most; n++ {
		for _, vs := range a.values {
			if math.Float64bits(vs[step+n]) != math.Float64bits(vs[step]) {
				return out, n
			}
		}
	}
	return out, n
}

// stretch fills out with what n is of the buckets in columns, at consecutive steps of
// which the first is given.
func (s *histogramWorker) stretch(n *plan.Histogram, a histogramArgs, first int, out []float64, fixed *repairs) {
	var room [2]float64
	all := s.columns
	for at := 0; at < len(out); {
		args, length := a.at(first+at, len(out)-at, room[:0])
		if a.values != nil {
			s.part = s.part[:0]
			for _, c := range all {
				s.part = append(s.part, bucketColumn{c.bound, c.counts[at : at+length]})
			}
			s.columns = s.part
		}
		if n.Func.Name == "histogram_fraction" {
			s.fractions(args[0], args[1], out[at:at+length])
		} else {
			s.block.quantiles(args[0], s.columns, out[at:at+length], first+at, fixed)
		}
		at += length
	}
	s.columns = all
}
