package engine

import (
	"context"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

// chunkSource gets the chunks a window reads: undecoded where the storage can
// hand them out so, else by its chunk querier, else by encoding its samples.
type chunkSource struct {
	querier    storage.Querier
	queryable  storage.Queryable
	mint, maxt int64
	part       *planner.Part
	ahead      map[*plan.Window]*prefetched // see prefetch
}

func (s *chunkSource) selectChunks(ctx context.Context, w *plan.Window, g plan.Grid) (*selection.Selection, annotations.Annotations, error) {
	if p, ok := s.ahead[w]; ok {
		<-p.ready
		return p.sel, p.ws, p.err
	}
	hints := s.hints(w, g)
	if q, ok := s.querier.(selection.Querier); ok {
		return q.SelectChunks(ctx, hints, w.Scan.Matchers...)
	}
	if cq, ok := s.queryable.(storage.ChunkQueryable); ok {
		q, err := cq.ChunkQuerier(s.mint, s.maxt)
		if err != nil {
			return nil, nil, err
		}
		defer q.Close()
		return selection.FromChunkSeriesSet(ctx, q.Select(ctx, true, hints, w.Scan.Matchers...), 0)
	}
	return selection.FromSeriesSet(ctx, s.querier.Select(ctx, true, hints, w.Scan.Matchers...), 0)
}

// hints are what Prometheus's engine would tell the storage about the selector,
// with the time range it really reads on grid g.
func (s *chunkSource) hints(w *plan.Window, g plan.Grid) *storage.SelectHints {
	h := &storage.SelectHints{Step: g.Interval}
	h.Start, h.End = w.Reads(g)
	bare := w.Func == plan.Last // no function reads the selector itself
	if !bare {
		h.Func = w.Func.Name
	}
	if !w.Func.Instant {
		h.Range = w.Width
	}
	// The function and the grouping are those next to the selector.
	for _, n := range plan.Path(s.part.Node, w) {
		switch x := n.(type) {
		case *plan.Aggregate:
			h.By, h.Grouping = !x.Without, x.Grouping
			if bare {
				h.Func = x.Func.Name
			}
		case *plan.Histogram:
			h.By, h.Grouping = false, nil
			if bare {
				h.Func = x.Func.Name
			}
		case *plan.Absent:
			if bare {
				h.Func = "absent"
			}
		case *plan.Subwindow:
			h.By, h.Grouping = false, nil
			if bare {
				h.Func = x.Func.Name
			}
		case *plan.Relabel:
			h.By, h.Grouping = false, nil
			if bare {
				h.Func = x.Name
			}
		case *plan.Sort:
			h.By, h.Grouping = false, nil
			if bare {
				h.Func = x.Name
			}
		case *plan.Window:
		default:
			h.By, h.Grouping = false, nil
			if bare {
				h.Func = ""
			}
		}
	}
	return h
}
