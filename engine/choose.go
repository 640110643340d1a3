package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"
	"github.com/prometheus/prometheus/storage"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
	"github.com/promwarp/promwarp/selection"
)

// makePlan plans the query.
func (q *query) makePlan(ctx context.Context) (err error) {
	_, span := tracing.Start(ctx, "plan")
	defer func() { tracing.End(span, err) }()
	q.plan, err = planner.New(ctx, q.stmt, planner.Env{
		NoStepSubqueryInterval: q.e.opts.Prometheus.NoStepSubqueryIntervalFn,
		DelayedNameRemoval:     q.e.opts.Prometheus.EnableDelayedNameRemoval,
		StartTimestamps:        q.e.opts.Prometheus.UseStartTimestamps,
		Bits:                   q.request.Exact == plan.Bits,
	})
	return err
}

// printed renders the expressions of the plan if somebody will read them. Prometheus's engine
// changes the tree, so it is done before that runs.
func (q *query) printed() {
	if q.request.Plan || q.request.Mode == CPU || q.request.Mode == GPU {
		q.plan.Root.Render(q.String())
	}
}

// choose plans the query and has everything fetched that the plan reads. A query of which executors
// cannot evaluate a selector is left to Prometheus's engine at once.
func (q *query) choose() error {
	if err := q.makePlan(q.ctx); err != nil {
		return err
	}
	defer q.printed()
	if q.plan.Node == nil {
		return nil
	}
	if err := q.openFetches(promql.FindMinMaxTime(q.stmt)); err != nil {
		return err
	}
	q.fetches.ahead = q.ahead()
	all := readings(q.plan.Node, q.plan.Grid, nil)
	q.fetches.start(all, q.plan.Grid)
	for _, r := range all {
		f := q.fetches.of[r.window.Scan.Pos]
		q.fetches.wait(f, q.e.Turn)
		if f.err != nil {
			continue // for the evaluation to say
		}
		if why := cpuexec.Refuses(r.window, r.grid, f.sel); why != "" {
			q.leave(r.window.Scan.Pos, why)
			return nil
		}
	}
	return nil
}

// ahead returns what evaluates aggregations of the plan while samples are on their way, or nil if there
// are none or the order of rows shows. Statistics and GPUs are for who evaluates all at once.
func (q *query) ahead() *cpuexec.Ahead {
	if q.request.Mode != Auto && q.request.Mode != CPU || q.request.Statistics || !q.mayReorder() {
		return nil
	}
	if a := q.accelerator(); a != nil && a.suitsAny(q.plan.Node) {
		return nil
	}
	job := q.job()
	job.Budget = q.budget
	return q.e.cpu.Ahead(job)
}

// foresee plans a query that is not run. What is kept of its selectors says which of them
// executors cannot evaluate.
func (q *query) foresee(ctx context.Context) error {
	q.ctx = ctx
	if err := q.makePlan(ctx); err != nil {
		return err
	}
	mint, maxt := promql.FindMinMaxTime(q.stmt)
	var kept selection.Keeper
	if querier, err := q.request.Storage.Querier(mint, maxt); err == nil {
		defer querier.Close()
		kept, _ = querier.(selection.Keeper)
	}
	if kept != nil && q.plan.Node != nil {
	found:
		for _, r := range readings(q.plan.Node, q.plan.Grid, nil) {
			for _, sel := range kept.Kept(r.window.Scan.Matchers...) {
				if why := cpuexec.Refuses(r.window, r.grid, sel); why != "" {
					q.leave(r.window.Scan.Pos, why)
					break found
				}
			}
		}
	}
	if a := q.accelerator(); a != nil && q.plan.Node != nil {
		a.leaves(q.plan.Node, func(l *cpuexec.Leaf) {
			reason := a.suits(l)
			if reason == "" && a.mode == Auto {
				reason = reasonForesee
			}
			a.decline(l.Node(), reason)
		})
	}
	q.printed()
	return nil
}

// leave leaves the query to Prometheus's engine because of the expression at a position.
func (q *query) leave(at posrange.PositionRange, reason string) {
	q.plan.Leave(at, reason)
	q.e.metrics.declined.WithLabelValues(reason).Inc()
}

// Plan says who evaluated what, as a tree, where that was asked for.
func (q *query) Plan() string {
	if q.plan == nil {
		return ""
	}
	return q.plan.Root.Tree()
}

// Executors are those that evaluated something of the query, with "+" between them; empty where nothing
// was to be evaluated.
func (q *query) Executors() string {
	if q.plan == nil {
		return plan.OnPrometheus
	}
	var all []string
	q.plan.Root.Walk(func(d *plan.Decision) {
		if !d.Idle && !slices.Contains(all, d.Executor) {
			all = append(all, d.Executor)
		}
	})
	slices.Sort(all)
	return strings.Join(all, "+")
}

// reading is a window of a plan, and the grid that it is evaluated on.
type reading struct {
	window *plan.Window
	grid   plan.Grid
}

// readings are found, and the windows at and below n, which is on a grid.
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
