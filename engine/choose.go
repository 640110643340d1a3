package engine

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"

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
	kept, _ := q.fetches.querier.(selection.Keeper)
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
			// What is kept says it, most often, before the newest samples have come.
			if reason, sure := q.expects(kept, w, g); sure || reason != "" {
				return reason
			}
			f := q.fetches.started(w)
			q.fetches.wait(f)
			if f.err != nil {
				return "" // for the evaluation to say
			}
			return q.refuses(w, g, f.sel)
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
			reason, _ := q.expects(kept, w, g)
			return reason
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

// refuses says why samples cannot be evaluated on an executor, or nothing.
func (q *query) refuses(w *plan.Window, g plan.Grid, sel *selection.Selection) string {
	return cpuexec.Refuses(w, g, sel)
}

// expects says by what is kept of a selector why its samples cannot be evaluated on an
// executor, or nothing, and whether that is sure but for what is not kept.
func (q *query) expects(kept selection.Keeper, w *plan.Window, g plan.Grid) (reason string, sure bool) {
	if kept == nil {
		return "", false
	}
	floats, mixed := false, false
	for _, sel := range kept.Kept(w.Scan.Matchers...) {
		if reason := q.refuses(w, g, sel); reason != "" {
			return reason, true
		}
		floats, mixed = floats || sel.NumSeries() > 0, mixed || !sel.OnlyFloats()
	}
	return "", floats && !mixed
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
