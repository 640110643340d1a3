package cpuexec

import (
	"errors"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/plan"
)

const reasonInfoHistograms = "its info series are native histograms"

// info evaluates the function info. Which info series belong to which series is found once
// for all steps; only which of them are present, and which is the newest, changes.
func (r *evaluation) info(n *plan.Info) *operator.Finished {
	input := r.build(n.Input)
	return r.finished(n, func() ([]plan.Row, error) {
		in, err := operator.Rows(input)
		if err != nil {
			return nil, err
		}
		defer r.Charge(-operator.RowsBytes(in))
		return r.joinInfo(n, in)
	})
}

func (r *evaluation) joinInfo(n *plan.Info, in []plan.Row) ([]plan.Row, error) {
	r.Held += operator.Points(in) // on and on; see vector.Releases
	infos, err := r.infoSeries(n, in)
	if err != nil {
		return nil, err
	}
	r.Held += operator.Points(infos)
	r.Matrix.Peak = max(r.Matrix.Peak, r.Held)
	return vector.JoinInfo(r.Query, n, in, infos)
}

// infoSeries reads the info series of the rows, whose values are the times of their newest
// samples.
func (r *evaluation) infoSeries(n *plan.Info, in []plan.Row) (infos []plan.Row, err error) {
	for _, identifying := range vector.IdentifyingMatchers(n, in) {
		rows, err := operator.Rows(r.window(n.Window(slices.Concat(identifying, n.Data, n.Names), window.InfoTime), nil, nil))
		var failed *SelectError
		var declined *plan.Declined
		switch {
		case errors.As(err, &failed):
			return nil, &SelectError{Err: failed.Err, Bare: true}
		case errors.As(err, &declined):
			return nil, &plan.Declined{At: n, Reason: reasonInfoHistograms}
		case err != nil:
			return nil, err
		}
		infos = append(infos, rows...)
	}
	return infos, nil
}
