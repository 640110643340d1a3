package cpuexec

import (
	"errors"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/histogram"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

// histogram evaluates a function of classic histograms. What the series are and
// which buckets they hold is found once; then each histogram is evaluated on its
// own, over the stretches of steps at which the same of its buckets have a value.
func (r *evaluation) histogram(n *plan.Histogram, inputs []operator.Operator) (eval func() ([]plan.Row, error)) {
	params, input := inputs[:len(n.ArgNodes)], inputs[len(n.ArgNodes)]
	return func() ([]plan.Row, error) {
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
	}
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
			if !r.Merging || passes {
				return nil, &plan.Declined{At: n, Reason: vector.ReasonCollide, Merges: !passes}
			}
		}
	}
	return vector.MergeWithin(r.Query, n, rows, r.CheckSteps(n, len(n.Args), points, out, len(in)))
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

const reasonInfoHistograms = "its info series are native histograms"

// info evaluates the function info. Which info series belong to which series is found once
// for all steps; only which of them are present, and which is the newest, changes.
func (r *evaluation) info(n *plan.Info, input operator.Operator) (eval func() ([]plan.Row, error)) {
	return func() ([]plan.Row, error) {
		in, err := operator.Rows(input)
		if err != nil {
			return nil, err
		}
		defer r.Charge(-operator.RowsBytes(in))
		r.Held += operator.Points(in) // on and on; see vector.Releases
		infos, err := r.infoSeries(n, in)
		if err != nil {
			return nil, err
		}
		r.Held += operator.Points(infos)
		r.Matrix.Peak = max(r.Matrix.Peak, r.Held)
		return vector.JoinInfo(r.Query, n, in, infos)
	}
}

// infoSeries reads the info series of the rows, whose values are the times of their newest
// samples.
func (r *evaluation) infoSeries(n *plan.Info, in []plan.Row) (infos []plan.Row, err error) {
	for _, identifying := range vector.IdentifyingMatchers(n, in) {
		rows, err := operator.Rows(r.window(n.Window(slices.Concat(identifying, n.Data, n.Names), window.InfoTime), nil, nil, nil))
		if errors.As(err, new(*plan.Declined)) {
			return nil, &plan.Declined{At: n, Reason: reasonInfoHistograms}
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, rows...)
	}
	return infos, nil
}
