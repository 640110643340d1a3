package engine

import (
	"context"
	"sync"

	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// prefetched is what a window reads, fetched while the windows before it are
// evaluated.
type prefetched struct {
	ready chan struct{} // closed when the rest is set
	sel   *selection.Selection
	ws    annotations.Annotations
	err   error
}

// prefetch starts fetching for all windows of the part at once, where there are
// several and the storage can be asked so: each waits for the upstream, the
// evaluation for them one after another. stop ends what nobody has asked for.
func (s *chunkSource) prefetch(ctx context.Context) (stop func()) {
	windows := map[*plan.Window]plan.Grid{}
	readsOf(s.part.Node, s.part.Grid, windows)
	q, ok := s.querier.(selection.Querier)
	if !ok || len(windows) < 2 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	s.ahead = make(map[*plan.Window]*prefetched, len(windows))
	var wg sync.WaitGroup
	for w, g := range windows {
		p := &prefetched{ready: make(chan struct{})}
		s.ahead[w] = p
		wg.Go(func() {
			defer close(p.ready)
			p.sel, p.ws, p.err = q.SelectChunks(ctx, s.hints(w, g), w.Scan.Matchers...)
		})
	}
	return func() {
		cancel()
		wg.Wait()
	}
}

// readsOf collects the windows in n and the grids that they are evaluated on
// when n is on g.
func readsOf(n plan.Node, g plan.Grid, into map[*plan.Window]plan.Grid) {
	switch n := n.(type) {
	case *plan.Window:
		into[n] = g
		return
	case *plan.Subwindow:
		g = n.Inner
	}
	for _, in := range n.Inputs() {
		readsOf(in, g, into)
	}
}
