package gpuexec

import (
	"time"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
)

// function is a window function as a kernel computes it.
type function struct {
	by        kernel
	ends      abi.Ends
	op        abi.Operator
	pairs     abi.Pairs
	statistic abi.Statistic
	counter   bool // resets are made up for
	seconds   bool // the width in seconds divides the result
	mad       bool // the median absolute deviation, rather than a quantile
}

// kernel is the kernel that computes a window function.
type kernel int

const (
	byEnds kernel = iota
	byOver        // or by panes
	byRate
	byPairs
	byStatistic
	byOrder
)

var functions = map[string]function{
	plan.Last.Name:          {ends: abi.EndsInstant},
	plan.Timestamp.Name:     {ends: abi.EndsInstantTime},
	plan.Present.Name:       {ends: abi.EndsPresence},
	"last_over_time":        {ends: abi.EndsNewest},
	"first_over_time":       {ends: abi.EndsOldest},
	"ts_of_last_over_time":  {ends: abi.EndsNewestTime},
	"ts_of_first_over_time": {ends: abi.EndsOldestTime},
	"count_over_time":       {ends: abi.EndsCount},
	"present_over_time":     {ends: abi.EndsPresence},
	"delta":                 {by: byRate},
	"increase":              {by: byRate, counter: true},
	"rate":                  {by: byRate, counter: true, seconds: true},
	"sum_over_time":         {by: byOver, op: abi.Sum},
	"avg_over_time":         {by: byOver, op: abi.Avg},
	"min_over_time":         {by: byOver, op: abi.Min},
	"max_over_time":         {by: byOver, op: abi.Max},
	"irate":                 {by: byPairs, pairs: abi.PairsLastRate},
	"idelta":                {by: byPairs, pairs: abi.PairsLastDifference},
	"changes":               {by: byPairs, pairs: abi.PairsChanges},
	"resets":                {by: byPairs, pairs: abi.PairsResets},
	"stdvar_over_time":      {by: byStatistic, statistic: abi.StatisticVariance},
	"stddev_over_time":      {by: byStatistic, statistic: abi.StatisticDeviation},
	"deriv":                 {by: byStatistic, statistic: abi.StatisticSlope},
	"predict_linear":        {by: byStatistic, statistic: abi.StatisticPrediction},
	"ts_of_min_over_time":   {by: byStatistic, statistic: abi.StatisticTimeOfMin},
	"ts_of_max_over_time":   {by: byStatistic, statistic: abi.StatisticTimeOfMax},
	"quantile_over_time":    {by: byOrder},
	"mad_over_time":         {by: byOrder, mad: true},

	"double_exponential_smoothing": {by: byStatistic, statistic: abi.StatisticSmoothing},
}

// divisor is what the results of f are divided by, or 0 for nothing.
func (f function) divisor(width int64) float64 {
	if !f.seconds {
		return 0
	}
	return (time.Duration(width) * time.Millisecond).Seconds()
}

// panes cuts the windows of f into panes, if it is one for which that is worth it.
func (f function) panes(s launch.Steps) *launch.Panes {
	if f.by != byOver {
		return nil
	}
	p, ok := launch.PanesOf(s)
	if !ok {
		return nil
	}
	return &p
}

// window puts the window function over batch number n on a stream.
func (j *job) window(c *cuda.Context, s cuda.Stream, n int, d *onDevice, steps launch.Steps) error {
	k, b := j.x.k, &d.Batch
	switch {
	case j.fuses:
		return j.fused(c, s, n, d)
	case j.panes != nil:
		return k.WindowPanes(c, s, b, steps, j.panes, j.f.op, d.suffix, d.prefix, d.out)
	case j.f.by == byRate:
		return k.WindowRate(c, s, b, steps, j.f.counter, j.f.divisor(j.l.Window.Width), d.out)
	case j.f.by == byPairs:
		return k.WindowPairs(c, s, b, steps, j.f.pairs, d.out)
	case j.f.by == byStatistic:
		w := j.l.Window
		return k.WindowStatistic(c, s, b, steps, j.f.statistic, w.Param, w.Trend, j.l.Grid, d.out)
	case j.f.by == byOrder:
		return k.WindowOrder(c, s, b, steps, j.f.mad, j.l.Window.Param, j.at(j.fault), d.out)
	case j.f.by == byOver:
		return k.WindowOver(c, s, b, steps, j.f.op, d.out)
	default:
		return k.WindowEnds(c, s, b, steps, j.f.ends, d.out)
	}
}
