package gpuexec

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/plan"
)

// Evaluate computes a leaf, hands its values to the leaf's Finish, and says what that
// took, as far as it came. Its errors are those of Run.
func (x *Executor) Evaluate(ctx context.Context, l *cpuexec.Leaf, stages *Stages) (*plan.Matrix, error) {
	start := time.Now()
	defer func() { stages.Total = time.Since(start) }()
	if reason := SuitsLeaf(l); reason != "" {
		return nil, &Unsuited{reason}
	}
	if err := x.begin(ctx); err != nil {
		return nil, errors.Join(l.Done(), err)
	}
	defer x.end()
	stages.Waited = time.Since(start)
	j := newJob(x, l)
	defer func() { stages.Batches = len(j.inputs) }()
	m, err := j.run()
	if cuda.Lost(err) {
		x.lost = fmt.Errorf("the GPU was lost in an earlier job: %w", err)
	}
	return m, err
}

// SuitsLeaf says why a leaf cannot be evaluated on the GPU, or nothing.
func SuitsLeaf(l *cpuexec.Leaf) string {
	if reason := Suits(l.Aggregate); reason != "" {
		return reason
	}
	return suitsData(l)
}

// MeasureLink copies page-locked memory to the device and returns the best of a few
// times in bytes a second.
func (x *Executor) MeasureLink(ctx context.Context) (rate float64, err error) {
	if err := x.begin(ctx); err != nil {
		return 0, err
	}
	defer x.end()
	err = x.dev.Do(func(c *cuda.Context) error {
		free, _, err := c.MemoryInfo()
		if err == nil {
			rate, _, err = measureLink(c, free)
		}
		return err
	})
	return rate, err
}
