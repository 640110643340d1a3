package histogram

import (
	"math"
	"math/bits"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

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
