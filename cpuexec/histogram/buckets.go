package histogram

import (
	"math"
	"math/bits"
	"slices"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// bucketColumn is a bucket over a stretch of steps.
type bucketColumn struct {
	bound  float64
	counts []float64
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

// RepairsOf lists histograms as often as each has results, so that each result has
// repairs of its own.
func RepairsOf(hs []Buckets, results int) []Buckets {
	if results == 1 {
		return hs
	}
	return slices.Repeat(hs, results)
}

// repairs notes where the counts of a histogram's buckets decreased.
type repairs struct {
	steps                       []uint64 // bitmap, nil without any
	minBound, maxBound, maxDiff float64
}

// add notes that the bucket with the given upper bound held diff less than the
// one below it.
func (r *repairs) add(step int, bound, diff float64) {
	r.mark(step)
	r.widen(bound, bound, diff)
}

// mark notes that counts decreased at a step.
func (r *repairs) mark(step int) {
	if r.steps == nil {
		r.minBound, r.maxBound = math.Inf(1), math.Inf(-1)
	}
	for len(r.steps) <= step>>6 {
		r.steps = append(r.steps, 0)
	}
	r.steps[step>>6] |= 1 << (step & 63)
}

func (r *repairs) widen(minBound, maxBound, diff float64) {
	// Not the built-in functions: a bound of NaN changes nothing.
	if minBound < r.minBound {
		r.minBound = minBound
	}
	if maxBound > r.maxBound {
		r.maxBound = maxBound
	}
	if diff > r.maxDiff {
		r.maxDiff = diff
	}
}

// RepairNotes are Prometheus's notes on the histograms that had to be made monotonic at
// the steps of g: one, or with byName one a metric name.
func RepairNotes(n *plan.Histogram, hs []Buckets, g plan.Grid, byName bool) (all annotations.Annotations) {
	notes := map[string]*repairNote{}
	for i := range hs {
		h := &hs[i]
		if h.repairs.steps == nil {
			continue
		}
		name := ""
		if byName {
			name = h.labels.Get(model.MetricNameLabel)
		}
		note, ok := notes[name]
		if !ok {
			note = &repairNote{histograms: make([]uint64, g.Steps), repairs: repairs{minBound: math.Inf(1), maxBound: math.Inf(-1)}}
			notes[name] = note
		}
		note.widen(h.repairs.minBound, h.repairs.maxBound, h.repairs.maxDiff)
		for w, word := range h.repairs.steps {
			for ; word != 0; word &= word - 1 {
				note.histograms[w<<6+bits.TrailingZeros64(word)]++
			}
		}
	}
	for name, note := range notes {
		all.Merge(note.annotation(name, n.InputPos, g))
	}
	return all
}

// repairNote is what the note on the histograms of one name says.
type repairNote struct {
	repairs
	histograms []uint64 // how many were repaired, by step
}

func (n *repairNote) annotation(name string, pos posrange.PositionRange, g plan.Grid) annotations.Annotations {
	at := func(step int) error {
		return annotations.NewHistogramQuantileForcedMonotonicityInfo(name, pos, g.At(step), n.minBound, n.maxBound, n.maxDiff)
	}
	// At every step Prometheus's engine merges the note of all steps so far with
	// itself, which doubles the number of samples that it states.
	first, last, samples := -1, 0, uint64(0)
	for k, m := range n.histograms {
		if first >= 0 {
			samples = 2 * (samples + m)
		} else if m > 0 {
			first, samples = k, m
		}
		if m > 0 {
			last = k
		}
	}
	if first == last {
		return operator.Repeated(func() error { return at(first) }, samples)
	}
	a := operator.Repeated(func() error { return at(first) }, samples-1)
	return a.Add(at(last))
}
