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

	"github.com/prometheus/prometheus/promql"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// bucketColumn is a bucket over a stretch of steps.
type bucketColumn struct {
	bound  float64
	counts []float64
}

// Evaluator is the scratch memory of one goroutine.
type Evaluator struct {
	cuts    []int32 // steps at which a run of the histogram's rows begins or ends
	cursors []dense.RunCursor
	columns []bucketColumn
	part    []bucketColumn // of columns, at some of their steps
	buckets promql.Buckets
	block   quantileBlock
}

// Evaluate computes one histogram.
func (s *Evaluator) Evaluate(n *plan.Histogram, args Args, h *Buckets, in []plan.Row) plan.Row {
	return s.walk(h, in, func(first int, out []float64) { s.fill(n, args, first, out, &h.repairs) })
}

// walk makes a row of the values that compute fills in from the columns of a histogram,
// for each stretch of steps at which these have a value.
func (s *Evaluator) walk(h *Buckets, in []plan.Row, compute func(first int, out []float64)) plan.Row {
	s.cuts, s.cursors = s.cuts[:0], s.cursors[:0]
	for _, i := range h.rows {
		for _, run := range in[i].Runs {
			s.cuts = append(s.cuts, run.First, run.First+run.Len)
		}
		s.cursors = append(s.cursors, dense.RunCursor{Row: &in[i]})
	}
	slices.Sort(s.cuts)
	s.cuts = slices.Compact(s.cuts)
	out := plan.Row{Labels: h.labels, Values: make([]float64, 0, s.cuts[len(s.cuts)-1]-s.cuts[0])}
	for k, first := range s.cuts[:len(s.cuts)-1] {
		length := s.cuts[k+1] - first
		s.columns = s.columns[:0]
		for i := range s.cursors {
			if counts := s.cursors[i].Next(first, length); counts != nil {
				s.columns = append(s.columns, bucketColumn{h.bounds[i], counts})
			}
		}
		if len(s.columns) == 0 {
			continue
		}
		out.Runs = dense.AppendRun(out.Runs, plan.Run{First: first, Len: length})
		at := len(out.Values)
		out.Values = out.Values[:at+int(length)]
		compute(int(first), out.Values[at:])
	}
	return out
}

// fill fills out with what n is of the buckets in columns, at consecutive steps of
// which the first is given.
func (s *Evaluator) fill(n *plan.Histogram, a Args, first int, out []float64, fixed *repairs) {
	var room [2]float64
	all := s.columns
	for at := 0; at < len(out); {
		args, length := a.at(first+at, len(out)-at, room[:0])
		if a.Values != nil {
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

// fractions fills out with the fraction of observations between two bounds.
func (s *Evaluator) fractions(lower, upper float64, out []float64) {
	for k := range out {
		s.buckets = s.buckets[:0]
		for _, c := range s.columns {
			s.buckets = append(s.buckets, promql.Bucket{UpperBound: c.bound, Count: c.counts[k]})
		}
		out[k] = promql.BucketFraction(lower, upper, s.buckets)
	}
}
