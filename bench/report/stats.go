// Package report turns measured times into a result, and a result into JSON,
// a table for a terminal and one in Markdown.
package report

import (
	"math"
	"slices"
	"time"
)

// Timing is how long a contender took to answer a query, in ms.
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
	return Timing{Median: median(all), Min: slices.Min(all), Max: slices.Max(all), All: all}
}

// median of an even number is the mean of the two in the middle.
func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	n := len(v)
	return (v[(n-1)/2] + v[n/2]) / 2
}

// GeometricMean of positive numbers, NaN for none.
func GeometricMean(v []float64) float64 {
	var sum float64
	for _, x := range v {
		sum += math.Log(x)
	}
	return math.Exp(sum / float64(len(v)))
}
