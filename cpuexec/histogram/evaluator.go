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
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
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
	all, values := s.columns, table.Of(n.Func).values
	for at := 0; at < len(out); {
		args, length := a.at(first+at, len(out)-at, room[:0])
		if a.Values != nil {
			s.part = s.part[:0]
			for _, c := range all {
				s.part = append(s.part, bucketColumn{c.bound, c.counts[at : at+length]})
			}
			s.columns = s.part
		}
		values(s, args, first+at, out[at:at+length], fixed)
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
	case !table.Of(n.Func).quantiles:
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

// Buckets are the series of one classic histogram.
type Buckets struct {
	labels  labels.Labels // without le
	rows    []int32       // indices of its input rows, ascending
	bounds  []float64     // upper bound of each
	repairs repairs       // steps at which the counts decreased
}

// Group groups rows into histograms, in the order of their first rows.
// Rows whose label le is no number belong to none and are warned of, with their names if
// names is set.
func Group(n *plan.Histogram, in []plan.Row, names bool, note func(error)) []Buckets {
	var hs []Buckets
	index := map[string]int{}
	var key []byte
	b := labels.NewBuilder(labels.EmptyLabels())
	for i := range in {
		l := in[i].Labels
		le := l.Get(model.BucketLabel)
		bound, err := strconv.ParseFloat(le, 64)
		if err != nil {
			name := ""
			if names {
				name = l.Get(model.MetricNameLabel)
			}
			note(annotations.NewBadBucketLabelWarning(name, le, n.InputPos))
			continue
		}
		key = l.BytesWithoutLabels(key, model.BucketLabel)
		k, ok := index[string(key)]
		if !ok {
			k = len(hs)
			index[string(key)] = k
			b.Reset(l)
			hs = append(hs, Buckets{labels: b.Del(model.BucketLabel).Labels()})
		}
		hs[k].rows = append(hs[k].rows, int32(i))
		hs[k].bounds = append(hs[k].bounds, bound)
	}
	return hs
}
