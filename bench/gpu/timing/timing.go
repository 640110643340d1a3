// Package timing takes times for the benchmarks of GPUs.
package timing

import (
	"time"

	"github.com/promwarp/promwarp/bench/report"
)

// Limits say how often one thing is timed.
type Limits struct {
	Rounds int
	Budget time.Duration // for the rounds of one figure
}

// Median calls f once to warm up, unless that took more than the budget, and then up to Rounds times
// within the budget. It returns the median of how long it took, in ms.
func (l Limits) Median(f func() error) (float64, error) {
	var took []float64
	begin := time.Now()
	for n := 0; n <= l.Rounds; n++ {
		start := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took = append(took, float64(time.Since(start).Nanoseconds())/1e6)
		if time.Since(begin) > l.Budget {
			break
		}
	}
	if len(took) > 1 {
		took = took[1:]
	}
	return report.Median(took), nil
}
