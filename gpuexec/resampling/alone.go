package resampling

import (
	"context"
	"errors"
	"time"

	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/resample"
)

// Alone is an accelerator that has one machine compute every request: what that cannot compute is
// an error. One request at a time may use it.
type Alone struct {
	*pipeline.Machine
	Last Outcome // of the last request
}

// SuitsResample implements resample.Accelerator.
func (*Alone) SuitsResample(p *resample.Plan) string { return Suits(p) }

// Resample implements resample.Accelerator.
func (a *Alone) Resample(ctx context.Context, t *resample.Task, consume func(*resample.Cells) error, _ bool) (o resample.Outcome, err error) {
	a.Last, err = Evaluate(ctx, a.Machine, t, consume)
	if request := (*RequestError)(nil); errors.As(err, &request) {
		err = request.Unwrap()
	}
	return resample.Outcome{Work: a.Last.Work, Runs: a.Last.Runs}, err
}

// TaskOnCores implements resample.Accelerator.
func (*Alone) TaskOnCores(*resample.Task, time.Duration) {}
