package engine

import (
	"github.com/prometheus/prometheus/util/stats"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
)

// reads are the samples that a part read, less the points of its stand-in, by
// step. They correct the query's statistics once it has ended: not earlier,
// because a step may read fewer samples than it yields points, and the engine's
// own counters must never go down.
type reads struct {
	part  *planner.Part
	extra []int64
	// excess is by how much the points are more than the samples in the step's
	// windows, as those of absent are; nil where they nowhere are.
	excess []int64
}

// countSamples corrects a query's sample statistics. The engine will count each
// point of a stand-in as one sample, so this adds, for each step, the samples in
// the part's windows less the points of its stand-in, and returns the same of
// the samples read, and what this would take away, for when the query has ended.
// A result that goes around the engine has a stand-in without points.
func countSamples(s *stats.QuerySamples, p *planner.Part, m *plan.Matrix, direct bool) reads {
	points := make([]int64, m.Grid.Steps)
	rows := m.Rows
	if direct {
		rows = nil
	}
	for i := range rows {
		for _, run := range rows[i].Runs {
			for k := run.First; k < run.First+run.Len; k++ {
				points[k]++
			}
		}
	}
	r := reads{part: p, extra: m.NewSamplesAtStep}
	add := func(step, k int) {
		n := m.SamplesAtStep[k] - points[k]
		if n >= 0 {
			s.IncrementSamplesAtStep(step, n)
			return
		}
		for len(r.excess) <= step {
			r.excess = append(r.excess, 0)
		}
		r.excess[step] = -n
	}
	switch {
	case p.InSubquery:
		// The function above the subquery counts the subquery's points itself.
	case p.Outer > 0:
		// Evaluated once and repeated at every step.
		for k := range p.Outer {
			add(k, 0)
		}
	default:
		for k := range points {
			add(k, k)
		}
	}
	for k := range points {
		r.extra[k] -= points[k]
	}
	return r
}

// add puts the corrections into s.
func (r reads) add(s *stats.QuerySamples) {
	for k, n := range r.excess {
		s.IncrementSamplesAtStep(k, -n)
	}
	switch {
	case r.part.InSubquery:
		// Which of the subquery's steps a step of the query needs, the engine
		// alone knows; the total is right where all of them are needed.
		var sum int64
		for _, n := range r.extra {
			sum += n
		}
		s.SamplesRead = max(s.SamplesRead+sum, 0)
	case r.part.Outer > 0:
		s.IncrementSamplesReadAtStep(0, r.extra[0])
	default:
		for k, n := range r.extra {
			s.IncrementSamplesReadAtStep(k, n)
		}
	}
}
