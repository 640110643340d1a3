package main

import (
	"maps"
	"slices"
	"time"
)

// percentile is the smallest of all that at least share of them do not exceed (the nearest
// rank); 0 of none.
func percentile(all []time.Duration, share float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	rank := int(share*float64(len(sorted)) + 0.999999)
	return sorted[min(max(rank, 1), len(sorted))-1]
}

// pace is how a server's time for a query compares with the reference's.
type pace struct {
	got, want time.Duration
	deadline  time.Duration // that the query had
	slack     time.Duration // how much later than it an answer may come
	compare   bool          // whether want is known
	patience  int           // how many times as long everything may take
}

// held says whether the query was answered or refused within 1.5 times the reference's time and
// 10 ms, or at its deadline.
func (p pace) held() bool {
	limit := p.deadline + p.slack
	if p.compare {
		limit = min(limit, time.Duration(p.patience)*(p.want*3/2+10*time.Millisecond))
	}
	return p.got <= limit
}

// within says whether got is at most limit and a tenth.
func within(got, limit int64) bool { return float64(got) <= 1.1*float64(limit) }

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
