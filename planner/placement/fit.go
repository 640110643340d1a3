package placement

import "time"

// timed is how long a leaf took.
type timed struct {
	Series, Samples, Windows int64
	Took                     time.Duration
}

// measurements are the leaves that costs are found from.
type measurements struct {
	Least timed   // hardly any work
	Small timed   // clearly more work, but not enough to keep the executor busy
	Busy  []timed // enough for that, of different shapes
}

// fit finds the costs whose estimates come closest to what was measured: by least squares
// of relative errors, over costs that are not negative.
func (m *measurements) fit() Costs {
	c := Costs{Slow: 1}
	var rows [][unknowns]float64
	for _, t := range m.Busy {
		// As shares of the time that is to be explained.
		took := max(1, float64(t.Took-m.Least.Took))
		rows = append(rows, [unknowns]float64{float64(t.Series) / took, float64(t.Samples) / took, float64(t.Windows) / took, 1 / took})
	}
	x := closest(rows)
	c.Series, c.Sample, c.Window, c.Ramp = x[0], x[1], x[2], time.Duration(x[3])
	if last := len(m.Busy) - 1; c.Sample == 0 && last >= 0 {
		c.Sample = float64(m.Busy[last].Took) / 100 / float64(m.Busy[last].Samples) // not nothing
	}
	least := c.work(float64(m.Least.Series), float64(m.Least.Samples), float64(m.Least.Windows))
	if more := c.work(float64(m.Small.Series), float64(m.Small.Samples), float64(m.Small.Windows)) - least; more > 0 {
		c.Slow = max(1, min(slowest, float64(m.Small.Took-m.Least.Took)/more))
	}
	c.Fixed = max(0, m.Least.Took-time.Duration(c.Slow*least))
	c.Ramp += m.Least.Took - c.Fixed
	return c
}

// unknowns are the costs of a series, a sample and a window, and the ramp.
const unknowns = 4

// closest is the x, none of it negative, for which the sum of the squares of
// rows·x - 1 is least. It goes down one coordinate after the other.
func closest(rows [][unknowns]float64) (x [unknowns]float64) {
	var square [unknowns]float64 // of each column
	left := make([]float64, len(rows))
	for i, row := range rows {
		left[i] = 1
		for k, v := range row {
			square[k] += v * v
		}
	}
	const passes = 20_000 // a few ms
	for range passes {
		for k := range x {
			if square[k] == 0 {
				continue
			}
			down := 0.0
			for i, row := range rows {
				down += row[k] * left[i]
			}
			to := max(0, x[k]+down/square[k])
			for i, row := range rows {
				left[i] -= row[k] * (to - x[k])
			}
			x[k] = to
		}
	}
	return x
}
