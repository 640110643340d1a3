// Package report turns measured times into a result, and a result into JSON and tables.
//
// A Result has stages, a Stage rows, one a question, and a Row what it cost each contender. What a
// later run measures is added to what is there. Start with Result.Write.
package report

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// Timing is how long something took, in ms.
type Timing struct {
	Median float64   `json:"medianMs"`
	Min    float64   `json:"minMs"`
	Max    float64   `json:"maxMs"`
	All    []float64 `json:"allMs"` // in the order of the rounds
}

// NewTiming describes some durations, at least one.
func NewTiming(ds []time.Duration) Timing {
	all := make([]float64, len(ds))
	for i, d := range ds {
		all[i] = float64(d.Microseconds()) / 1000
	}
	return Timing{Median: Median(all), Min: slices.Min(all), Max: slices.Max(all), All: all}
}

// Median of an even number is the mean of the two in the middle; NaN of none.
func Median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// Limits say how often one thing is timed.
type Limits struct {
	Rounds int
	Budget time.Duration // for the rounds of one figure
}

// Median calls f once to warm up, unless that took more than the budget, and then up to Rounds
// times within the budget. It returns the median of how long it took, in ms.
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
	return Median(took), nil
}

// percentile is the value that a share of all does not exceed.
func (t Timing) percentile(share float64) float64 {
	v := slices.Sorted(slices.Values(t.All))
	return v[int(math.Ceil(share*float64(len(v))))-1]
}

// GeometricMean of positive numbers, NaN for none.
func GeometricMean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(v)))
}

// Number is a number for reading, of about three digits, or nothing for 0 and what is none.
func Number(v float64) string {
	switch {
	case v == 0 || math.IsNaN(v):
		return ""
	case v < 0.095:
		return fmt.Sprintf("%.3f", v)
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// Times is how many times as large a is as b, for reading, or nothing where one is not known.
func Times(a, b float64) string {
	if a == 0 || b == 0 || math.IsNaN(a/b) {
		return ""
	}
	return Number(a/b) + "×"
}

// milliseconds writes a time, nothing for none.
func milliseconds(ms float64) string {
	if ms <= 0 || math.IsNaN(ms) {
		return ""
	}
	return fmt.Sprintf("%.1f", ms)
}
