package placement

import "time"

// Costs are what an executor was measured to take for leaves. One that is too small
// to keep the whole executor busy (a core a series, a GPU's many threads) takes longer
// for each series, sample and window, until it has lost Ramp:
//
//	Fixed + min(Slow * work, Ramp + work)
//
// where work is the sum of the costs of all series, samples and windows.
type Costs struct {
	// Fixed is what a leaf takes however small it is.
	Fixed time.Duration `json:"fixed_ns"`
	// Series, Sample and Window are what each takes of a leaf that keeps the executor
	// busy, in ns.
	Series float64 `json:"series_ns"`
	Sample float64 `json:"sample_ns"`
	Window float64 `json:"window_ns"`
	// Slow is how many times as long they take of a small leaf, at least 1.
	Slow float64 `json:"slow"`
	// Ramp is the time that is lost until the executor is busy.
	Ramp time.Duration `json:"ramp_ns"`
}

// slowest is the largest Slow that is believed.
const slowest = 64

// sound reports whether estimates can be made from the costs.
func (c *Costs) sound() bool {
	for _, ns := range []float64{c.Series, c.Sample, c.Window} {
		if !(ns >= 0) || ns > float64(time.Minute) {
			return false
		}
	}
	return c.Sample > 0 && c.Slow >= 1 && c.Slow <= slowest &&
		c.Fixed >= 0 && c.Fixed < time.Minute && c.Ramp >= 0 && c.Ramp < time.Minute
}

// work is what so many series, samples and windows take of a busy executor, in ns.
func (c *Costs) work(series, samples, windows float64) float64 {
	return series*c.Series + samples*c.Sample + windows*c.Window
}

// estimate is how long the executor takes for a leaf, in seconds.
func (c *Costs) estimate(series, samples, windows float64) float64 {
	work := c.work(series, samples, windows)
	return (float64(c.Fixed) + min(c.Slow*work, float64(c.Ramp)+work)) / 1e9
}
