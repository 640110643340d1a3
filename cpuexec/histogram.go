package cpuexec

import (
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// bucketSeries are the series of one classic histogram.
type bucketSeries struct {
	labels  labels.Labels // without le
	rows    []int32       // indices of its input rows, in their order
	bounds  []float64     // upper bound of each
	repairs repairs       // steps at which the counts decreased
}

// histogram evaluates a function of classic histograms. What the series are and
// which buckets they hold is found once; then each histogram is evaluated on its
// own, over the stretches of steps at which the same of its buckets have a value.
func (r *run) histogram(n *plan.Histogram) ([]plan.Row, error) {
	args, free, err := r.histogramArgs(n)
	defer free()
	if err != nil {
		return nil, err
	}
	in, err := r.node(n.Input)
	free() // checkSteps counts the arguments itself
	if err != nil {
		return nil, err
	}
	args.warnQuantiles(n, r.note)
	hs := histogramsOf(n, in, r.job.DelayedNameRemoval, r.note)
	points := 0
	for i := range in {
		points += len(in[i].Values)
	}

	defer r.take(-rowsBytes(in))
	rows := make([]plan.Row, len(hs)*n.Results())
	each := repairsOf(hs, n.Results())
	workers := r.x.workersFor(points)
	scratch := make([]histogramWorker, max(workers, 1))
	parallel.While(workers, len(hs), func(k, i int) bool {
		if n.Many() {
			scratch[k].manyQuantiles(n, each, i, in, rows)
		} else {
			rows[i] = scratch[k].evaluate(n, args, &hs[i], in)
		}
		for at := i; at < len(rows); at += len(hs) {
			r.take(rowBytes(len(rows[at].Values)))
		}
		return r.done() == nil
	})
	if err := r.done(); err != nil {
		return nil, err
	}
	r.m.Annotations.Merge(repairNotes(n, each, r.job.Grid, r.job.DelayedNameRemoval))

	formats := formatsOf(n)
	out := 0
	seen := map[uint64]struct{}{}
	for i := range rows {
		out += len(rows[i].Values)
		if r.job.DelayedNameRemoval && !n.Many() {
			continue
		}
		if !r.job.DelayedNameRemoval {
			rows[i].Labels = dropNames(rows[i].Labels)
		}
		if n.Many() {
			rows[i].Labels = labels.NewBuilder(rows[i].Labels).Set(n.Label, formats[i/len(hs)]).Labels()
		}
		h := rows[i].Labels.Hash()
		if _, ok := seen[h]; ok {
			// Where names go later, Prometheus's engine lets them pass at an instant.
			passes := r.job.DelayedNameRemoval && r.job.Grid.Steps == 1
			if !n.Merges || passes {
				return nil, &plan.Declined{At: n, Reason: reasonCollide, Merges: !passes}
			}
		}
		seen[h] = struct{}{}
	}
	return r.mergedWithin(n, rows, r.checkSteps(n, len(n.Args), points, out, len(in)), n.Merges)
}

// histogramsOf groups rows into histograms, in the order of their first rows.
// Rows whose label le is no number belong to none and are warned of, with their names if
// names is set.
func histogramsOf(n *plan.Histogram, in []plan.Row, names bool, note func(error)) []bucketSeries {
	var hs []bucketSeries
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
			hs = append(hs, bucketSeries{labels: b.Del(model.BucketLabel).Labels()})
		}
		hs[k].rows = append(hs[k].rows, int32(i))
		hs[k].bounds = append(hs[k].bounds, bound)
	}
	return hs
}

// bucketColumn is a bucket over a stretch of steps.
type bucketColumn struct {
	bound  float64
	counts []float64
}

// histogramWorker is the scratch memory of one goroutine.
type histogramWorker struct {
	cuts    []int32 // steps at which a run of the histogram's rows begins or ends
	cursors []dense.RunCursor
	columns []bucketColumn
	part    []bucketColumn // of columns, at some of their steps
	buckets promql.Buckets
	block   quantileBlock
}

// evaluate computes one histogram.
func (s *histogramWorker) evaluate(n *plan.Histogram, args histogramArgs, h *bucketSeries, in []plan.Row) plan.Row {
	return s.walk(h, in, func(first int, out []float64) { s.stretch(n, args, first, out, &h.repairs) })
}

// walk makes a row of the values that compute fills in from the columns of a histogram,
// for each stretch of steps at which these have a value.
func (s *histogramWorker) walk(h *bucketSeries, in []plan.Row, compute func(first int, out []float64)) plan.Row {
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

// fractions fills out with the fraction of observations between two bounds.
func (s *histogramWorker) fractions(lower, upper float64, out []float64) {
	for k := range out {
		s.buckets = s.buckets[:0]
		for _, c := range s.columns {
			s.buckets = append(s.buckets, promql.Bucket{UpperBound: c.bound, Count: c.counts[k]})
		}
		out[k] = promql.BucketFraction(lower, upper, s.buckets)
	}
}
