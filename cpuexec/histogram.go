package cpuexec

import (
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/histogram"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// histogram evaluates a function of classic histograms. What the series are and
// which buckets they hold is found once; then each histogram is evaluated on its
// own, over the stretches of steps at which the same of its buckets have a value.
func (r *evaluation) histogram(n *plan.Histogram) *operator.Finished {
	inputs := r.inputs(n)
	params, input := inputs[:len(n.ArgNodes)], inputs[len(n.ArgNodes)]
	return r.finished(n, func() ([]plan.Row, error) {
		held := r.Held
		args, err := r.histogramArgs(n, params)
		if err != nil {
			return nil, err
		}
		held = r.Held - held
		in, err := operator.Rows(input)
		r.Held -= held // CheckSteps counts the arguments itself
		if err != nil {
			return nil, err
		}
		return r.histograms(n, args, in)
	})
}

func (r *evaluation) histograms(n *plan.Histogram, args histogram.Args, in []plan.Row) ([]plan.Row, error) {
	args.WarnQuantiles(n, r.Note)
	hs := histogram.Group(n, in, r.job.DelayedNameRemoval, r.Note)
	points := operator.Points(in)

	defer r.Charge(-operator.RowsBytes(in))
	rows := make([]plan.Row, len(hs)*n.Results())
	each := histogram.RepairsOf(hs, n.Results())
	workers := r.WorkersFor(points)
	scratch := make([]histogram.Evaluator, max(workers, 1))
	parallel.While(workers, len(hs), func(k, i int) bool {
		if n.Many() {
			scratch[k].ManyQuantiles(n, each, i, in, rows)
		} else {
			rows[i] = scratch[k].Evaluate(n, args, &hs[i], in)
		}
		for at := i; at < len(rows); at += len(hs) {
			r.Charge(operator.RowBytes(len(rows[at].Values)))
		}
		return r.Done() == nil
	})
	if err := r.Done(); err != nil {
		return nil, err
	}
	r.Matrix.Annotations.Merge(histogram.RepairNotes(n, each, r.job.Grid, r.job.DelayedNameRemoval))

	formats := histogram.QuantileLabels(n)
	out := 0
	seen := vector.Distinct{}
	for i := range rows {
		out += len(rows[i].Values)
		if r.job.DelayedNameRemoval && !n.Many() {
			continue
		}
		if !r.job.DelayedNameRemoval {
			rows[i].Labels = vector.DropNames(rows[i].Labels)
		}
		if n.Many() {
			rows[i].Labels = labels.NewBuilder(rows[i].Labels).Set(n.Label, formats[i/len(hs)]).Labels()
		}
		if !seen.Add(rows[i].Labels) {
			// Where names go later, Prometheus's engine lets them pass at an instant.
			passes := r.job.DelayedNameRemoval && r.job.Grid.Steps == 1
			if !n.Merges || passes {
				return nil, &plan.Declined{At: n, Reason: vector.ReasonCollide, Merges: !passes}
			}
		}
	}
	return vector.MergeWithin(r.Query, n, rows, r.CheckSteps(n, len(n.Args), points, out, len(in)), n.Merges)
}

// histogramArgs evaluates the arguments of n, whose samples are held.
func (r *evaluation) histogramArgs(n *plan.Histogram, params []operator.Operator) (a histogram.Args, err error) {
	a.Constants = n.Args
	if n.ArgNodes == nil && !n.Many() { // those of histogram_quantiles come after its input
		r.Held += len(n.Args) * r.job.Grid.Steps
	}
	for _, param := range params {
		rows, err := operator.Rows(param)
		if err != nil {
			return a, err
		}
		a.Values = append(a.Values, rows[0].Values)
		r.Held += r.job.Grid.Steps
	}
	return a, nil
}
