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
}

// countSamples corrects a query's sample statistics. The engine will count each
// point of a stand-in as one sample, so this adds, for each step, the samples in
// the part's windows less the points of its stand-in, which is never negative,
// and returns the same of the samples read for when the query has ended. A
// result that goes around the engine has a stand-in without points.
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
	switch {
	case p.InSubquery:
		// The function above the subquery counts the subquery's points itself.
	case p.Outer > 0:
		// Evaluated once and repeated at every step.
		for k := range p.Outer {
			s.IncrementSamplesAtStep(k, m.SamplesAtStep[0]-points[0])
		}
	default:
		for k := range points {
			s.IncrementSamplesAtStep(k, m.SamplesAtStep[k]-points[k])
		}
	}
	s.UpdatePeak(m.Peak)
	extra := m.NewSamplesAtStep
	for k := range points {
		extra[k] -= points[k]
	}
	return reads{part: p, extra: extra}
}

// add puts the correction of the samples read into s.
func (r reads) add(s *stats.QuerySamples) {
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
