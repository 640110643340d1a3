package engine

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

// plan decides which parts of the query executors evaluate.
func (q *query) plan(ctx context.Context) (err error) {
	q.parts, q.root, err = planner.Plan(ctx, q.stmt, planner.Env{
		NoStepSubqueryInterval: q.e.opts.Prometheus.NoStepSubqueryIntervalFn,
		DelayedNameRemoval:     q.e.opts.Prometheus.EnableDelayedNameRemoval,
		StartTimestamps:        q.e.opts.Prometheus.UseStartTimestamps,
		Excluded:               q.excluded,
		Merging:                q.merging,
		MergingAll:             len(q.merging) > mostMerging,
		Bits:                   q.exact == plan.Bits,
		Refused:                q.abandoned,
	})
	return err
}

// printed renders the expressions of the plan if somebody will read them. Prometheus's engine
// changes the tree, so it is done before that runs.
func (q *query) printed() {
	if q.explained || q.ctx.Value(planKey{}) != nil || q.mode == CPU || q.mode == GPU {
		q.root.Render(q.Query.String())
	}
}

// choose plans the query, has everything fetched that its parts read, and leaves to
// Prometheus's engine at once all selectors of what executors cannot evaluate.
func (q *query) choose() error {
	for again := true; again; {
		again = false
		if err := q.plan(q.ctx); err != nil {
			return err
		}
		if len(q.fetches.of) == 0 && len(q.parts) == 1 {
			q.beginAhead(q.parts[0])
		}
		q.fetches.start(q.parts)
		refused := q.refused(func(w *plan.Window, g plan.Grid) string {
			f := q.fetches.started(w)
			q.fetches.wait(f)
			if f.err != nil {
				return "" // for the evaluation to say
			}
			return cpuexec.Refuses(w, g, f.sel)
		})
		for at, reason := range refused {
			q.exclude(at, reason)
			again = true
		}
	}
	q.printed()
	return nil
}

// foresee plans a query that is not run. What is kept of its selectors says which of them
// executors cannot evaluate.
func (q *query) foresee(ctx context.Context) error {
	mint, maxt := promql.FindMinMaxTime(q.stmt)
	var kept selection.Keeper
	if querier, err := q.q.Querier(mint, maxt); err == nil {
		defer querier.Close()
		kept, _ = querier.(selection.Keeper)
	}
	for again := true; again; {
		if err := q.plan(ctx); err != nil {
			return err
		}
		refused := q.refused(func(w *plan.Window, g plan.Grid) string {
			if kept == nil {
				return ""
			}
			for _, sel := range kept.Kept(w.Scan.Matchers...) {
				if reason := cpuexec.Refuses(w, g, sel); reason != "" {
					return reason
				}
			}
			return ""
		})
		maps.Copy(q.excluded, refused)
		again = len(refused) > 0
	}
	q.foreseeDevices()
	q.printed()
	return nil
}

// refused are the selectors of the query's parts that there is a reason to refuse.
func (q *query) refused(reason func(w *plan.Window, g plan.Grid) string) map[posrange.PositionRange]string {
	found := map[posrange.PositionRange]string{}
	for _, p := range q.parts {
		for _, r := range readingsOf(p) {
			if why := reason(r.window, r.grid); why != "" {
				found[r.window.Scan.Pos] = why
			}
		}
	}
	return found
}

// exclude leaves an expression to Prometheus's engine.
func (q *query) exclude(at posrange.PositionRange, reason string) {
	q.excluded[at] = reason
	q.e.metrics.declined.WithLabelValues(reason).Inc()
}

// Plan implements Query.
func (q *query) Plan() string {
	if q.root == nil {
		return ""
	}
	return q.root.Tree()
}

// Executors implements Query.
func (q *query) Executors() string {
	if q.root == nil {
		return plan.OnPrometheus
	}
	var all []string
	q.root.Walk(func(d *plan.Decision) {
		if !d.Idle && !slices.Contains(all, d.Executor) {
			all = append(all, d.Executor)
		}
	})
	slices.Sort(all)
	return strings.Join(all, "+")
}

// closeFetches gives up what was fetched. Prometheus's engine has run, and the result is
// in memory of its own.
func (q *query) closeFetches() {
	if q.fetches != nil {
		q.fetches.close()
		q.fetches = nil
	}
}

// reading is a window of a part, and the grid that it is evaluated on.
type reading struct {
	window *plan.Window
	grid   plan.Grid
}

// readingsOf are the windows of a part, found in one walk.
func readingsOf(p *planner.Part) []reading { return readings(p.Node, p.Grid, nil) }

func readings(n plan.Node, g plan.Grid, found []reading) []reading {
	if w, ok := n.(*plan.Window); ok {
		found = append(found, reading{w, g})
	}
	for _, in := range n.Inputs() {
		switch n := n.(type) {
		case *plan.Subwindow:
			found = readings(in, n.GridOf(in, g), found)
		case *plan.Once:
			found = readings(in, n.Grid(g), found)
		default:
			found = readings(in, g, found)
		}
	}
	return found
}

// hints tell a storage the time range that is read.
func (r reading) hints() *storage.SelectHints {
	h := &storage.SelectHints{Step: r.grid.Interval}
	h.Start, h.End = r.window.Reads(r.grid)
	return h
}
