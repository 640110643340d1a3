package engine

import (
	"github.com/prometheus/prometheus/util/stats"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
)

// countSamples corrects a query's sample statistics. The engine will count each
// point of a stand-in as one sample, so this adds, for each step, the samples in
// the part's windows less the points of its stand-in.
func countSamples(s *stats.QuerySamples, p *planner.Part, m *plan.Matrix) {
	all, fresh := m.SamplesAtStep, m.NewSamplesAtStep
	points := make([]int64, m.Grid.Steps)
	for i := range m.Rows {
		for _, run := range m.Rows[i].Runs {
			for k := run.First; k < run.First+run.Len; k++ {
				points[k]++
			}
		}
	}
	switch {
	case p.InSubquery:
		// The function above a subquery counts the subquery's points itself;
		// only what was read counts here.
		for k := range points {
			s.SamplesRead += fresh[k] - points[k]
		}
	case p.Outer > 0:
		// Evaluated once and repeated at every step.
		for k := range p.Outer {
			s.IncrementSamplesAtStep(k, all[0]-points[0])
		}
		s.IncrementSamplesReadAtStep(0, fresh[0]-points[0])
	default:
		for k := range points {
			s.IncrementSamplesAtStep(k, all[k]-points[k])
			s.IncrementSamplesReadAtStep(k, fresh[k]-points[k])
		}
	}
	s.UpdatePeak(m.Peak)
}
