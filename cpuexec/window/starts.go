package window

import (
	"slices"
	"sort"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/cpuexec/frame"
)

// This file is what start timestamps change in the functions of counters. Most windows
// are as they would be without: a reset that a start timestamp says is one more among
// the resets that the values show, and only windows whose first sample began
// within them, and the last samples of irate that did, are evaluated once more.

// allResets returns the samples at which the values or the start timestamps say that
// the counter was reset, as indices. The memory is the evaluator's.
func (s *Evaluator) allResets() []int32 {
	resets := s.resets()
	if len(s.in.Starts) == 0 {
		return resets
	}
	s.began = s.in.Starts.Resets(s.fr.List(), s.began[:0])
	s.merged = append(append(s.merged[:0], resets...), s.began...)
	slices.Sort(s.merged)
	s.merged = slices.Compact(s.merged)
	return s.merged
}

// increases fills out with what rate and increase come to over samples some of which
// have start timestamps. It is Prometheus's extrapolatedRate for floats, operation by
// operation.
func (s *Evaluator) increases(kind difference) (points int) {
	fr, in := s.fr, &s.in
	resets := s.allResets()
	s.countOverlaps(fr, in.Starts)
	points = s.extrapolated(kind, resets)
	seconds := kind.seconds(fr.Span.Width)
	starts := in.Starts.Cursor()
	for k := fr.From; k < fr.To; k++ {
		lo, hi := fr.Lo[k], fr.Hi[k]
		if lo == hi {
			continue
		}
		start, end := starts.At(lo), fr.Span.Scan.Times(fr.Span.Grid.At(k))
		for len(resets) > 0 && resets[0] <= lo {
			resets = resets[1:]
		}
		if start == 0 || start <= end-fr.Span.Width || start >= fr.List()[lo] {
			continue
		}
		if hi-lo == 1 {
			points++
		}
		s.out.Set(k, sinceStart(fr.List()[lo:hi], in, lo, resets, start, end, seconds))
	}
	return points
}

// sinceStart is the increase of a counter until end (ms) that was 0 at start, within
// the window, whose samples begin with sample lo and are at ts. seconds divides it, if
// it is not 0.
//
//	increase = (v[last] - v[first] + sum of v[r-1] over resets r + v[first]) *
//	           (covered + to end) / covered
func sinceStart(ts []int64, in *column.Samples, lo int32, resets []int32, start, end int64, seconds float64) float64 {
	n := len(ts)
	last := ts[n-1]
	first := in.At(lo)
	v := in.At(lo+int32(n)-1) - first
	for _, r := range resets {
		if r >= lo+int32(n) {
			break
		}
		v += in.At(r - 1)
	}
	v += first
	spacing := 0.0
	if n > 1 {
		spacing = float64(last-ts[0]) / 1000 / float64(n-1)
	}
	toEnd := float64(end-last) / 1000
	if toEnd >= float64(spacing*1.1) {
		toEnd = spacing / 2
	}
	factor := 1.0
	if covered := float64(last-start) / 1000; covered != 0 {
		factor = (covered + toEnd) / covered
	}
	if seconds != 0 {
		factor /= seconds
	}
	return float64(v * factor)
}

// startedRates fills out with what irate comes to over samples some of which have start
// timestamps.
func (s *Evaluator) startedRates() (points int) {
	fr, in := s.fr, &s.in
	points = s.lastPairs(counterLast)
	e := fr.LastPairs(true)
	s.began = in.Starts.Resets(fr.List(), s.began[:0])
	k := fr.From
	for _, r := range s.began {
		k += sort.Search(fr.To-k, func(n int) bool { return fr.Hi[k+n] > r })
		for ; k < fr.To && fr.Hi[k] == r+1; k++ {
			if fr.Hi[k]-fr.Lo[k] >= 2 {
				s.out.Values[k] = in.At(r) / e.Factor[k]
			}
		}
	}
	return points
}

// countOverlaps counts the steps in whose windows a sample begins before the one before
// it was taken, of which Prometheus's engine says so.
func (s *Evaluator) countOverlaps(fr *frame.Frame, starts decode.Starts) {
	s.began = starts.Overlaps(fr.List(), s.began[:0])
	at := s.began
	if len(at) == 0 {
		return
	}
	for k := fr.From; k < fr.To; k++ {
		for len(at) > 0 && at[0] <= fr.Lo[k] {
			at = at[1:]
		}
		if len(at) > 0 && at[0] < fr.Hi[k] {
			s.Overlaps++
		}
	}
}
