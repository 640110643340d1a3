package cpuexec

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/window"
)

// worker is the scratch memory of one goroutine.
type worker struct {
	column.Reader
	window.Evaluator
	// overlapping counts, for all series of a name, the steps at which start timestamps
	// overlap.
	overlapping map[string]uint64
	times       []int64 // of the points of a subquery
	mapped      []int   // values after each map
	err         error
}

func (w *worker) reset(steps, maps int) {
	w.Reader.Reset(false)
	w.Evaluator.Reset(steps)
	w.overlapping, w.err = nil, nil
	w.mapped = make([]int, maps)
}

// borrow takes scratch memory for n goroutines that evaluate windows at so many steps, and
// maps; release gives it back.
func (x *Executor) borrow(n, steps, maps int) (scratch []*worker, release func()) {
	scratch = make([]*worker, n)
	for i := range scratch {
		scratch[i] = x.scratch.Get().(*worker)
		scratch[i].reset(steps, maps)
	}
	return scratch, func() {
		for _, s := range scratch {
			x.scratch.Put(s)
		}
	}
}

// eval applies a window function to one series.
func (s *worker) eval(frames *window.Frames, fn *window.Call, q *column.Request, i int, out dense.Row, c *dense.Counts) error {
	in, err := s.Load(q, i)
	if err != nil {
		return err
	}
	err = s.Evaluate(frames, fn, in, out, c)
	in.Release()
	if s.Overlaps > 0 {
		s.noteOverlaps(q.Sel.Labels(i))
	}
	return err
}

// noteOverlaps notes what countOverlaps has counted of a series.
func (s *worker) noteOverlaps(l labels.Labels) {
	if s.overlapping == nil {
		s.overlapping = map[string]uint64{}
	}
	s.overlapping[l.Get(model.MetricNameLabel)] += s.Overlaps
	s.Overlaps = 0
}
