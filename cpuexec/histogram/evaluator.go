// Package histogram evaluates functions of classic histograms: quantiles and fractions of
// buckets.
//
// Group makes histograms of rows, each of which is a bucket; an Evaluator makes a row of each
// histogram. Values, and what had to be repaired where the counts of buckets decrease, are those
// of promql.BucketQuantile and promql.BucketFraction, bit by bit.
//
// Start with Evaluator.Evaluate.
package histogram

import (
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/plan"
)

// Evaluator is the scratch memory of one goroutine.
type Evaluator struct {
	rows      []*plan.Row
	stretches dense.Stretches
	columns   []bucketColumn
	part      []bucketColumn // of columns, at some of their steps
	buckets   promql.Buckets
	block     quantileBlock
}

// Evaluate computes one histogram.
func (s *Evaluator) Evaluate(n *plan.Histogram, args Args, h *Buckets, in []plan.Row) plan.Row {
	return s.walk(h, in, func(first int, out []float64) { s.fill(n, args, first, out, &h.repairs) })
}

// walk makes a row of the values that compute fills in from the columns of a histogram,
// for each stretch of steps at which these have a value.
func (s *Evaluator) walk(h *Buckets, in []plan.Row, compute func(first int, out []float64)) plan.Row {
	s.rows = s.rows[:0]
	for _, i := range h.rows {
		s.rows = append(s.rows, &in[i])
	}
	out := plan.Row{Labels: h.labels}
	_ = s.stretches.Walk(s.rows, func(first, length int32, counts [][]float64) error {
		s.columns = s.columns[:0]
		for i, c := range counts {
			if c != nil {
				s.columns = append(s.columns, bucketColumn{h.bounds[i], c})
			}
		}
		out.Runs = plan.AppendRun(out.Runs, plan.Run{First: first, Len: length})
		at := len(out.Values)
		out.Values = slices.Grow(out.Values, int(length))[:at+int(length)]
		compute(int(first), out.Values[at:])
		return nil
	})
	return out
}

// fill fills out with what n is of the buckets in columns, at consecutive steps of
// which the first is given. Arguments that vary are those of a step at a time.
func (s *Evaluator) fill(n *plan.Histogram, a Args, first int, out []float64, fixed *repairs) {
	all, values := s.columns, table.ByPart[n.Func].values
	if a.Values == nil {
		values(s, a.Constants, first, out, fixed)
		return
	}
	args := make([]float64, len(a.Values))
	for at := range out {
		for i, vs := range a.Values {
			args[i] = vs[first+at]
		}
		s.part = s.part[:0]
		for _, c := range all {
			s.part = append(s.part, bucketColumn{c.bound, c.counts[at : at+1]})
		}
		s.columns = s.part
		values(s, args, first+at, out[at:at+1], fixed)
	}
	s.columns = all
}

// bucketsAt are the buckets in columns at one of their steps.
func (s *Evaluator) bucketsAt(k int) promql.Buckets {
	s.buckets = s.buckets[:0]
	for _, c := range s.columns {
		s.buckets = append(s.buckets, promql.Bucket{UpperBound: c.bound, Count: c.counts[k]})
	}
	return s.buckets
}

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
	case !table.ByPart[n.Func].quantiles:
	case n.Many():
		for i := range a.Constants {
			warn(a.Constants[i:i+1], n.ArgsPos[i])
		}
	case a.Values != nil:
		warn(a.Values[0], n.ArgPos)
	default:
		warn(a.Constants[:1], n.ArgPos)
	}
}

// Function is the definition of a function of classic histograms.
type Function struct {
	plan.HistogramFunc

	// values fills out with the function of the buckets in s.columns, at consecutive steps of which
	// the first is given. Nil if there is a result for each argument: see ManyQuantiles.
	values func(s *Evaluator, args []float64, first int, out []float64, fixed *repairs)
	// quantiles says that arguments are quantiles. One outside 0 to 1 is warned of.
	quantiles bool
}

var table plan.Table[plan.HistogramFunc, Function]

var (
	_ = define(&Function{
		HistogramFunc: plan.HistogramFunc{Name: "histogram_quantile", Args: 1},
		values: func(s *Evaluator, args []float64, first int, out []float64, fixed *repairs) {
			s.block.quantiles(args[0], s.columns, out, first, fixed)
		},
		quantiles: true,
	})
	_ = define(&Function{
		HistogramFunc: plan.HistogramFunc{Name: "histogram_fraction", Args: 2},
		values: func(s *Evaluator, args []float64, _ int, out []float64, _ *repairs) {
			for k := range out {
				out[k] = promql.BucketFraction(args[0], args[1], s.bucketsAt(k))
			}
		},
	})
	_ = define(&Function{HistogramFunc: plan.HistogramFunc{Name: "histogram_quantiles", Many: true}, quantiles: true})
)

func define(f *Function) *plan.HistogramFunc { return table.Add(f.Name, &f.HistogramFunc, f) }

// Named is the function of classic histograms with a name in PromQL, or nil.
func Named(name string) *plan.HistogramFunc { return table.ByName[name] }

// Functions are all definitions.
func Functions() []*Function { return table.All() }

// ManyQuantiles computes histogram_quantiles of histogram i: of rows one for each
// quantile, those of the first quantile of all histograms before those of the second.
// Prometheus's function makes the buckets monotonic where they are, and the next
// quantile finds what it has left, so it is called in the same order.
func (s *Evaluator) ManyQuantiles(n *plan.Histogram, hs []Buckets, i int, in, rows []plan.Row) {
	each := len(rows) / len(n.Args)
	first := s.walk(&hs[i], in, func(first int, out []float64) {
		for k := range out {
			buckets := s.bucketsAt(k)
			for j, q := range n.Args {
				v, forced, _, low, high, diff := promql.BucketQuantile(q, buckets)
				if forced {
					hs[i+j*each].repairs.mark(first + k)
					hs[i+j*each].repairs.widen(low, high, diff)
				}
				if j == 0 {
					out[k] = v
				} else {
					rows[i+j*each].Values = append(rows[i+j*each].Values, v)
				}
			}
		}
	})
	for at := i + each; at < len(rows); at += each {
		rows[at].Labels, rows[at].Runs = first.Labels, first.Runs
	}
	rows[i] = first
}

// QuantileLabels are the values of the label of histogram_quantiles.
func QuantileLabels(n *plan.Histogram) []string {
	if !n.Many() {
		return nil
	}
	out := make([]string, len(n.Args))
	for i, q := range n.Args {
		out[i] = labels.FormatOpenMetricsFloat(q)
		// 0 and -0 are one to Prometheus's engine, which writes them as the first one is.
		if k := slices.Index(n.Args[:i], q); k >= 0 {
			out[i] = out[k]
		}
	}
	return out
}
