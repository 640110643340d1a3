package cpuexec

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/column"
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
}

func (w *worker) reset() {
	w.Reader.Reset(false)
	w.Evaluator.Reset()
	w.overlapping = nil
}

// borrow takes scratch memory for n goroutines that evaluate windows; release gives it
// back.
func (x *Executor) borrow(n int) (scratch []*worker, release func()) {
	scratch = make([]*worker, n)
	for i := range scratch {
		scratch[i] = x.scratch.Get().(*worker)
		scratch[i].reset()
	}
	return scratch, func() {
		for _, s := range scratch {
			x.scratch.Put(s)
		}
	}
}

// noteOverlaps notes what countOverlaps has counted of a series.
func (s *worker) noteOverlaps(l labels.Labels) {
	if s.overlapping == nil {
		s.overlapping = map[string]uint64{}
	}
	s.overlapping[l.Get(model.MetricNameLabel)] += s.Overlaps
	s.Overlaps = 0
}
