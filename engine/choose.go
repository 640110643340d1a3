package engine

import (
	"context"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser/posrange"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/internal/tracing"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner"
)

// makePlan plans the query, and says what computes leaves of the plan in place of the cores.
func (q *query) makePlan(ctx context.Context) (err error) {
	_, span := tracing.Start(ctx, "plan")
	defer func() { tracing.End(span, err) }()
	q.plan, err = planner.New(ctx, q.stmt, planner.Env{
		NoStepSubqueryInterval: q.e.opts.Prometheus.NoStepSubqueryIntervalFn,
		DelayedNameRemoval:     q.e.opts.Prometheus.EnableDelayedNameRemoval,
		StartTimestamps:        q.e.opts.Prometheus.UseStartTimestamps,
		Bits:                   q.request.Exact == plan.Bits,
	})
	if err != nil {
		return err
	}
	if q.request.Plan {
		q.plan.Root.Render(q.String())
	}
	if q.request.Mode == GPU || q.request.Mode == Auto && q.e.opts.GPUs != nil {
		q.accelerator = &accelerator{gpus: q.e.opts.GPUs, of: q.plan.Of, mode: q.request.Mode}
	}
	return nil
}

// choose plans the query, says how executors evaluate the plan, and has everything fetched that the
// plan reads. A query of which executors cannot evaluate a selector is left to Prometheus's engine at
// once.
func (q *query) choose() error {
	if err := q.makePlan(q.ctx); err != nil {
		return err
	}
	if q.plan.Node == nil {
		return nil
	}
	if err := q.openFetches(promql.FindMinMaxTime(q.stmt)); err != nil {
		return err
	}
	o, mode, a := &q.e.opts.Prometheus, q.request.Mode, q.accelerator
	q.job = cpuexec.Job{
		Node: q.plan.Node, Grid: q.plan.Grid, MaxSamples: o.MaxSamples, DelayedNameRemoval: o.EnableDelayedNameRemoval,
		TypeAndUnitLabels: o.EnableTypeAndUnitLabels, StartTimestamps: o.UseStartTimestamps, Progress: q.request.Progress,
		Budget: q.budget, CountSamples: q.request.Statistics, Work: q.work,
	}
	// The rows of a range query, though of one step perhaps, are sorted in the end, so their order
	// means nothing. Where names go only then, rows may become the same, and are told by their order.
	// A query whose statistics are asked for must know what Prometheus's engine would hold.
	if q.stmt.Interval > 0 && !o.EnableDelayedNameRemoval && !q.request.Statistics {
		if (mode == Auto || mode == CPU) && (a == nil || !a.suitsAny(q.plan.Node)) { // a GPU evaluates all at once
			q.job.Ahead = q.e.cpu.Ahead(q.job)
		}
		if mode == Auto { // an executor that was asked for evaluates all itself
			q.job.Results = q.e.results
		}
	}
	if a != nil {
		q.job.Accelerator, q.job.Forced = a, mode == GPU
	}
	q.fetches.ahead = q.job.Ahead
	all := readings(q.plan.Node, q.plan.Grid, nil)
	q.fetches.start(q.stmt, all, q.plan.Grid)
	for _, r := range all {
		f := q.fetches.of[r.window.Scan.Pos]
		q.fetches.wait(f, q.e.Turn)
		if f.err != nil {
			continue // for the evaluation to say
		}
		mint, maxt := r.window.Reads(r.grid)
		if err := q.admit(r.window.Scan, f.sel, mint, maxt); err != nil {
			return err
		}
		if why := cpuexec.Refuses(r.window, r.grid, f.sel); why != "" {
			q.leave(r.window.Scan.Pos, why)
			return nil
		}
		q.fetches.samples += f.sel.NumSamples()
	}
	return nil
}

// foresee plans a query that is not run, and finds what it would read. What is kept of its selectors
// says which of them executors cannot evaluate.
func (q *query) foresee(ctx context.Context) ([]*reads, error) {
	q.ctx = ctx
	if err := q.makePlan(ctx); err != nil {
		return nil, err
	}
	all, err := q.survey()
	if err != nil {
		return nil, err
	}
	if k := slices.IndexFunc(all, func(s *reads) bool { return s.refused != "" }); k >= 0 {
		q.leave(all[k].window.Scan.Pos, all[k].refused)
	}
	if a := q.accelerator; a != nil && q.plan.Node != nil {
		a.leaves(q.plan.Node, func(l *cpuexec.Leaf) {
			reason := a.suits(l)
			if reason == "" && a.mode == Auto {
				reason = reasonForesee
			}
			a.decline(l.Node(), reason)
		})
	}
	return all, nil
}

// leave leaves the query to Prometheus's engine because of the expression at a position.
func (q *query) leave(at posrange.PositionRange, reason string) {
	q.plan.Leave(at, reason)
	if q.request.Plan { // before that engine changes the tree
		q.plan.Root.Render(q.String())
	}
	q.e.metrics.declined.WithLabelValues(reason).Inc()
}

// Plan says who evaluated what, as a tree, where that was asked for.
func (q *query) Plan() string {
	if q.plan == nil {
		return ""
	}
	return q.plan.Root.Tree()
}

// Executors are the names of executors that evaluated something of the query, with "+" between them;
// empty where nothing was to be evaluated.
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
