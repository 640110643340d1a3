package cpuexec

import (
	"sort"
	"unsafe"

	"github.com/prometheus/prometheus/model/value"
)

// startRun is a stretch of a series' samples with one start timestamp: from sample from
// on, until the next run.
type startRun struct {
	from  int32
	start int64 // ms, 0 for none
}

// startRuns are the start timestamps of a series' samples in time order. Those before
// the first run have none, which is 0, and neighbouring runs differ. Counters have one
// run for each time that they were reset, deltas one for each sample.
type startRuns []startRun

// size is the memory of the runs in bytes.
func (s startRuns) size() int64 { return int64(cap(s)) * int64(unsafe.Sizeof(startRun{})) }

// last is the start timestamp of the last run.
func (s startRuns) last() int64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].start
}

// add notes the start timestamp of the samples from from on, which is not before the
// last run.
func (s *startRuns) add(from int, start int64) {
	if n := len(*s) - 1; n >= 0 && (*s)[n].from == int32(from) {
		*s = (*s)[:n] // which has no samples
	}
	if s.last() != start {
		*s = append(*s, startRun{int32(from), start})
	}
}

// cut returns the runs of samples lo to hi, the end excluded, counted from lo, in the
// memory of scratch.
func (s startRuns) cut(lo, hi int, scratch startRuns) startRuns {
	out := scratch[:0]
	first := sort.Search(len(s), func(k int) bool { return int(s[k].from) > lo })
	for _, r := range s[max(first-1, 0):] {
		if int(r.from) >= hi {
			break
		}
		out.add(max(int(r.from)-lo, 0), r.start)
	}
	return out
}

// join adds the runs of samples that come behind the first n.
func (s *startRuns) join(n int, tail startRuns) {
	if len(tail) == 0 || tail[0].from > 0 {
		s.add(n, 0)
	}
	for _, r := range tail {
		s.add(n+int(r.from), r.start)
	}
}

// dropStale drops the stale markers among vs, the samples from sample first on.
func (s *startRuns) dropStale(first int, vs []float64) {
	k := len(*s)
	for k > 0 && int((*s)[k-1].from) >= first {
		k--
	}
	behind := (*s)[k:]
	*s = (*s)[:k]
	i, markers := 0, 0
	for _, r := range behind {
		for ; i < int(r.from)-first; i++ {
			if value.IsStaleNaN(vs[i]) {
				markers++
			}
		}
		s.add(int(r.from)-markers, r.start) // overwrites what was read already
	}
}

// startCursor looks up start timestamps of samples in time order.
type startCursor struct {
	runs  startRuns // those behind the sample
	start int64     // of the sample
}

// cursor is a cursor before the first sample.
func (s startRuns) cursor() startCursor { return startCursor{runs: s} }

// at is the start timestamp of sample i.
func (c *startCursor) at(i int32) int64 {
	for len(c.runs) > 0 && c.runs[0].from <= i {
		c.start, c.runs = c.runs[0].start, c.runs[1:]
	}
	return c.start
}

// changes calls f with every sample whose start timestamp differs from that of the
// sample before: its index and the two start timestamps.
func (s startRuns) changes(samples int, f func(i int32, before, start int64)) {
	before := int64(0)
	for _, r := range s {
		if int(r.from) >= samples {
			break
		}
		if r.from > 0 {
			f(r.from, before, r.start)
		}
		before = r.start
	}
}

// resets appends the samples, as indices, whose start timestamp says that the counter
// was reset since the sample before.
func (s startRuns) resets(ts []int64, out []int32) []int32 {
	s.changes(len(ts), func(i int32, before, start int64) {
		if startsAnew(before, ts[i-1], start, ts[i]) {
			out = append(out, i)
		}
	})
	return out
}

// startsAnew is Prometheus's isStartTimestampReset for a sample at t with start
// timestamp start and the one before it, at last with start timestamp before, which
// differs.
//
// What starts at the sample before is a delta, unless that one's own start is unknown:
// not given, or not before it.
func startsAnew(before, last, start, t int64) bool {
	switch {
	case start == 0 || start >= t || start < last:
		return false
	case start > last:
		return true
	default:
		return before != 0 && before < last
	}
}

// overlaps appends the samples, as indices, that start before the sample before them
// was taken, and not when that one does.
func (s startRuns) overlaps(ts []int64, out []int32) []int32 {
	s.changes(len(ts), func(i int32, _, start int64) {
		if start != 0 && start < ts[i-1] {
			out = append(out, i)
		}
	})
	return out
}

// mergeIndices merges two lists of indices, each in order, into out.
func mergeIndices(a, b, out []int32) []int32 {
	for len(a) > 0 || len(b) > 0 {
		switch {
		case len(b) == 0 || len(a) > 0 && a[0] < b[0]:
			out, a = append(out, a[0]), a[1:]
		case len(a) == 0 || b[0] < a[0]:
			out, b = append(out, b[0]), b[1:]
		default:
			a = a[1:]
		}
	}
	return out
}
