package gpuexec

import (
	"time"

	"github.com/promwarp/promwarp/cpuexec"
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

// window puts the window function over a batch on a stream.
func (j *job) window(q launch.Queue, d *onDevice, steps launch.Steps) error {
	if j.fuses {
		p := launch.FusedParametersOf(&d.Batch, steps, j.drops(), j.report(d.Number), d.out)
		return q.Chunks(j.f.fusedKernel(p, j.l.Window, d.Mixed), &d.Batch)
	}
	if j.panes != nil {
		return q.WindowPanes(&d.Batch, steps, j.panes, j.f.op, d.suffix, d.prefix, d.out)
	}
	p := launch.WindowParametersOf(&d.Batch, steps, d.out)
	if j.f.by == byOrder {
		k := &launch.WindowOrder{WindowParameters: p, Distance: j.f.mad, Quantile: j.l.Window.Param, Fault: j.at(j.fault)}
		return q.Window(k, &d.Batch, steps, abi.OrderBlock)
	}
	return q.Window(j.f.windowKernel(p, j.l), &d.Batch, steps, abi.WindowBlock)
}

// windowKernel is the kernel of f over stored samples, unless that is of panes or by order.
func (f function) windowKernel(p launch.WindowParameters, l *cpuexec.Leaf) launch.Launcher {
	w := l.Window
	switch f.by {
	case byRate:
		return &launch.WindowRate{WindowParameters: p, Counter: f.counter, Seconds: f.divisor(w.Width)}
	case byPairs:
		return &launch.WindowPairs{WindowParameters: p, Kind: f.pairs}
	case byStatistic:
		return &launch.WindowStatistic{
			WindowParameters: p, Kind: f.statistic, Param: w.Param, Trend: w.Trend, Step: l.Grid.Start, StepInterval: l.Grid.Interval,
		}
	case byOver:
		return &launch.WindowOver{WindowParameters: p, Op: f.op}
	default:
		return &launch.WindowEnds{WindowParameters: p, Kind: f.ends}
	}
}

// drops reports whether stale markers are left out: only the instant selector reads them.
func (j *job) drops() bool { return !j.l.Window.Func.Instant }

// report is where corrupt chunks of batch n are reported.
func (j *job) report(n int) launch.Report {
	return launch.Report{Fault: j.at(j.fault), Base: uint64(n) << 40}
}
