package cpuexec

import (
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/plan"
)

// inputs evaluates the inputs of n in order, while the samples of those before
// are held, and returns the number of samples in all of them.
func (r *run) inputs(n plan.Node) (in [][]plan.Row, samples int, err error) {
	defer func() { r.Held -= samples }()
	for _, input := range n.Inputs() {
		rows, err := r.node(input)
		if err != nil {
			return nil, samples, err
		}
		in = append(in, rows)
		points := operator.Points(rows)
		samples += points
		r.Held += points
	}
	return in, samples, nil
}

// combined evaluates n, and the chain above it, batch by batch into the sink that
// makeSink makes once the series are known.
func (r *run) combined(n plan.Node, above vector.Chain, makeSink func(size int, at func(int) labels.Labels) operator.Sink) error {
	release := r.Holding()
	in, samples, err := r.inputs(n)
	if err != nil {
		return err
	}
	c, err := vector.Combine(r.Query, n, in)
	if err != nil {
		return vector.Explained(r.Query, n, in, samples, err)
	}
	at, err := vector.LabelsAfter(r.Query, c.Size(), c.Labels, above)
	if err != nil {
		return err
	}
	out := makeSink(c.Size(), at)
	defer func() {
		for _, rows := range in {
			r.Charge(-operator.RowsBytes(rows))
		}
	}()
	kept, err := vector.Fill(r.Query, n, c, above.Mappers(), out)
	if err != nil {
		return vector.Explained(r.Query, n, in, samples, err)
	}
	present := 0 // series of all inputs
	for _, rows := range in {
		present += len(rows)
	}
	least := r.Held + samples + kept[0]
	if err := r.CheckHeld(n, least, least+present); err != nil {
		return err
	}
	release()
	return above.Check(r.Query, kept, c.Size())
}

// collectCombined is combined into rows.
func (r *run) collectCombined(n plan.Node, above vector.Chain) ([]plan.Row, error) {
	c := &operator.Collector{}
	err := r.combined(n, above, func(_ int, at func(int) labels.Labels) operator.Sink {
		c.Labels = at
		return c
	})
	return c.Rows, err
}
