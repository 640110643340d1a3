package cpuexec

import (
	"slices"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// repeated is an aggregation that a job has several times on the same steps. It is evaluated once;
// its rows are held until the last of them has had them.
type repeated struct {
	left int // how many have not had the rows yet
	rows []plan.Row
	took *plan.Matrix // what the evaluation took; nil before it, and where rows are not shared
	peak int          // samples that Prometheus's engine would have held at most, less those before
}

// repeatedIn returns the aggregations that the job has several times; those that are alike have
// the same entry. Where the order of rows shows for some of them alone, each is evaluated.
func repeatedIn(job *Job) map[*plan.Aggregate]*repeated {
	out := map[*plan.Aggregate]*repeated{}
	for _, alike := range plan.Repeated(job.Node) {
		ordered := job.reusable[alike[0]].Ordered
		if slices.ContainsFunc(alike, func(n *plan.Aggregate) bool { return job.reusable[n].Ordered != ordered }) {
			continue
		}
		s := &repeated{left: len(alike)}
		for _, n := range alike {
			out[n] = s
		}
	}
	return out
}

// share returns the rows of n, which s says is repeated. The samples of each step count for each of
// those that are alike. Where Prometheus's engine says something of n, which names its position,
// or the sample limit is near, n is evaluated by itself.
func (r *evaluation) share(n *plan.Aggregate, s *repeated) ([]plan.Row, error) {
	s.left--
	last := s.left == 0
	if s.took != nil && r.MayHold(r.Held+4*s.peak+s.took.Work.Series) {
		r.countSteps(s.took.SamplesAtStep, s.took.NewSamplesAtStep)
		r.Matrix.Peak = max(r.Matrix.Peak, r.Held+s.peak)
	} else {
		rows, took, err := r.alone(n)
		if err != nil || s.took != nil || last || len(took.Annotations) > 0 {
			if last {
				r.Charge(-operator.RowsBytes(s.rows))
				s.rows = nil
			}
			return rows, err
		}
		s.rows, s.took, s.peak = rows, took, max(took.Peak-r.Held, 0)
	}
	rows := s.rows
	if last {
		s.rows = nil
		return rows, nil
	}
	// Whoever has the rows counts their memory no longer when it is done, and may put them in order.
	r.Charge(operator.RowsBytes(rows))
	return slices.Clone(rows), r.Done()
}

// alone evaluates n, and says what that took.
func (r *evaluation) alone(n *plan.Aggregate) ([]plan.Row, *plan.Matrix, error) {
	sub := r.on(r.job.Grid, n)
	sub.job.repeated = nil
	rows, err := sub.rows(r, sub.build(n))
	r.overlaps = r.overlaps || sub.overlaps
	if err == nil {
		err = r.Done() // rows may be only some of those there are
	}
	if err != nil {
		return nil, nil, err
	}
	r.countSteps(sub.Matrix.SamplesAtStep, sub.Matrix.NewSamplesAtStep)
	return rows, sub.Matrix, nil
}
