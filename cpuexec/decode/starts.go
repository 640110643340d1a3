package decode

import (
	"sort"
	"unsafe"

	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection"
)

// startRun is a stretch of a series' samples with one start timestamp: from sample from
// on, until the next run.
type startRun struct {
	from  int32
	start int64 // ms, 0 for none
}

// Starts are the start timestamps of a series' samples in time order. Those before
// the first run have none, which is 0, and neighbouring runs differ. Counters have one
// run for each time that they were reset, deltas one for each sample.
type Starts []startRun

// SizeBytes is the memory of the runs in bytes.
func (s Starts) SizeBytes() int64 { return int64(cap(s)) * int64(unsafe.Sizeof(startRun{})) }

// last is the start timestamp of the last run.
func (s Starts) last() int64 {
	if len(s) == 0 {
		return 0
	}
	return s[len(s)-1].start
}

// Add notes the start timestamp of the samples from from on, which is not before the
// last run.
func (s *Starts) Add(from int, start int64) {
	if n := len(*s) - 1; n >= 0 && (*s)[n].from == int32(from) {
		*s = (*s)[:n] // which has no samples
	}
	if s.last() != start {
		*s = append(*s, startRun{int32(from), start})
	}
}

// Cut returns the runs of samples lo to hi, the end excluded, counted from lo, in the
// memory of scratch.
func (s Starts) Cut(lo, hi int, scratch Starts) Starts {
	out := scratch[:0]
	first := sort.Search(len(s), func(k int) bool { return int(s[k].from) > lo })
	for _, r := range s[max(first-1, 0):] {
		if int(r.from) >= hi {
			break
		}
		out.Add(max(int(r.from)-lo, 0), r.start)
	}
	return out
}

// Join adds the runs of samples that come behind the first n.
func (s *Starts) Join(n int, tail Starts) {
	if len(tail) == 0 || tail[0].from > 0 {
		s.Add(n, 0)
	}
	for _, r := range tail {
		s.Add(n+int(r.from), r.start)
	}
}

// DropStale drops the stale markers among vs, the samples from sample first on.
func (s *Starts) DropStale(first int, vs []float64) {
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
		s.Add(int(r.from)-markers, r.start) // overwrites what was read already
	}
}

// StartCursor looks up start timestamps of samples in time order.
type StartCursor struct {
	runs  Starts // those behind the sample
	start int64  // of the sample
}

// Cursor is a cursor before the first sample.
func (s Starts) Cursor() StartCursor { return StartCursor{runs: s} }

// At is the start timestamp of sample i.
func (c *StartCursor) At(i int32) int64 {
	for len(c.runs) > 0 && c.runs[0].from <= i {
		c.start, c.runs = c.runs[0].start, c.runs[1:]
	}
	return c.start
}

// changes calls f with every sample whose start timestamp differs from that of the
// sample before: its index and the two start timestamps.
func (s Starts) changes(samples int, f func(i int32, before, start int64)) {
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

// Resets appends the samples, as indices, whose start timestamp says that the counter
// was reset since the sample before.
func (s Starts) Resets(ts []int64, out []int32) []int32 {
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

// Overlaps appends the samples, as indices, that start before the sample before them
// was taken, and not when that one does.
func (s Starts) Overlaps(ts []int64, out []int32) []int32 {
	s.changes(len(ts), func(i int32, _, start int64) {
		if start != 0 && start < ts[i-1] {
			out = append(out, i)
		}
	})
	return out
}

// Seconds appends the start timestamps of samples in seconds to out, keeping stale
// markers.
func (s Starts) Seconds(out, vs []float64) []float64 {
	at := s.Cursor()
	for i, v := range vs {
		if start := at.At(int32(i)); !value.IsStaleNaN(v) {
			v = float64(start) / 1000
		}
		out = append(out, v)
	}
	return out
}

// hasStartsKey is the key of the note on whether a selection has start timestamps.
type hasStartsKey struct{}

// HasStarts reports whether some samples of a selection have start timestamps. It looks at
// the header byte in which XOR2 chunks say so.
func HasStarts(s *selection.Selection) bool {
	if !s.Has(chunkenc.EncXOR2) {
		return false
	}
	return selection.Note(s.Notes, hasStartsKey{}, func() bool {
		for i := range s.NumSeries() {
			for _, c := range s.Chunks(i) {
				if b := s.Bytes(c); c.Enc == chunkenc.EncXOR2 && (len(b) < 3 || b[2] != 0) {
					return true
				}
			}
		}
		return false
	})
}
