package cpuexec

import (
	"slices"
	"sort"
)

// frame is the windows of all steps over one list of sample times: what a window
// function needs besides the values. Series that are scraped together have the
// same times and share a frame, so that finding the windows costs once what it
// would cost for each.
type frame struct {
	ts     []int64
	span   span
	bounds          // of the windows
	any    []uint64 // bitmap of the steps with a sample
	counts counts   // of a function with a value wherever there is a sample

	extra extrapolation // made when first needed
	used  int64         // series evaluated over it and not yet settled

	shared int     // how many of ts are a shared list's
	own    []int64 // memory for ts where they are not
}

// reset makes f the frame of s over ts.
func (f *frame) reset(ts []int64, s span) {
	f.ts, f.span, f.extra.valid = ts, s, false
	words := (s.grid.Steps + 63) / 64
	f.any = slices.Grow(f.any[:0], words)[:words]
	clear(f.any)
	f.counts = f.find(ts, s)
	for k := range f.lo {
		if f.lo[k] < f.hi[k] {
			f.any[k>>6] |= 1 << (k & 63)
		}
	}
}

// settle adds the samples of the series evaluated over f to the statistics.
func (f *frame) settle(sc stepCounts) {
	if f.used == 0 {
		return
	}
	seen := int32(0)
	for k, hi := range f.hi {
		lo := f.lo[k]
		switch {
		case lo == hi:
		case f.span.instant:
			sc.all[k] += f.used
			sc.fresh[k] += f.used
		default:
			sc.all[k] += f.used * int64(hi-lo)
			sc.fresh[k] += f.used * int64(hi-max(lo, seen))
		}
		seen = hi
	}
	f.used = 0
}

// frames are the frames that a worker has met while it evaluates one window over
// many series.
type frames struct {
	span      span
	byAddress map[*int64][]*frame // over times that many series share
	byContent map[timesKey]*frame // over times that were decoded for one series
	all       []*frame            // those in the maps
	free      []*frame
	joined    []int64
	single    frame // of times that no other series is expected to have
	hits      int   // of byContent
	misses    int
}

// timesKey tells lists of times apart quickly, if not for certain.
type timesKey struct {
	n                   int
	first, middle, last int64
}

// maxFrameSteps bounds the frames that a worker keeps, counted in steps: 24 to 40
// bytes each.
const maxFrameSteps = 1 << 19

// open makes f ready for windows of s.
func (f *frames) open(s span) {
	f.span = s
	f.free = append(f.free, f.all...)
	f.all = f.all[:0]
	f.hits, f.misses = 0, 0
	if f.byAddress == nil {
		f.byAddress, f.byContent = map[*int64][]*frame{}, map[timesKey]*frame{}
	}
	clear(f.byAddress)
	clear(f.byContent)
}

// over returns the frame over t, of which there must be at least one.
func (f *frames) over(t sampleTimes, sc stepCounts) *frame {
	if len(t.shared) == 0 {
		return f.decoded(t.own, sc)
	}
	known := f.byAddress[&t.shared[0]]
	for _, fr := range known {
		if fr.shared == len(t.shared) && slices.Equal(fr.ts[fr.shared:], t.own) {
			return fr
		}
	}
	fr := f.take()
	if fr == nil {
		f.joined = append(append(f.joined[:0], t.shared...), t.own...)
		return f.alone(f.joined, sc)
	}
	ts := t.shared
	if len(t.own) > 0 {
		fr.own = append(append(fr.own[:0], t.shared...), t.own...)
		ts = fr.own
	}
	fr.reset(ts, f.span)
	fr.shared = len(t.shared)
	f.byAddress[&t.shared[0]] = append(known, fr)
	return fr
}

// decoded returns the frame over ts, which is scratch memory. It looks for
// another series with equal times as long as that has been worth it.
func (f *frames) decoded(ts []int64, sc stepCounts) *frame {
	if f.misses > 64 && f.hits < f.misses {
		return f.alone(ts, sc)
	}
	key := timesKey{len(ts), ts[0], ts[len(ts)/2], ts[len(ts)-1]}
	fr, ok := f.byContent[key]
	if ok && slices.Equal(fr.ts, ts) {
		f.hits++
		return fr
	}
	f.misses++
	if !ok {
		fr = f.take()
	}
	if ok || fr == nil {
		return f.alone(ts, sc)
	}
	fr.own = append(fr.own[:0], ts...)
	fr.reset(fr.own, f.span)
	f.byContent[key] = fr
	return fr
}

// alone returns a frame that is gone with the next series.
func (f *frames) alone(ts []int64, sc stepCounts) *frame {
	f.single.settle(sc)
	f.single.reset(ts, f.span)
	return &f.single
}

// take returns a frame to keep, or nil if there are enough.
func (f *frames) take() *frame {
	if len(f.all) >= 16 && len(f.all)*f.span.grid.Steps >= maxFrameSteps {
		return nil
	}
	fr := &frame{}
	if n := len(f.free); n > 0 {
		fr, f.free = f.free[n-1], f.free[:n-1]
	}
	f.all = append(f.all, fr)
	return fr
}

// settle adds the samples of all series evaluated to the statistics.
func (f *frames) settle(sc stepCounts) {
	f.single.settle(sc)
	for _, fr := range f.all {
		fr.settle(sc)
	}
}

// within returns the part of ts, which ascend, that lies in mint to maxt (ms,
// both included), as indices.
func within(ts []int64, mint, maxt int64) (lo, hi int) {
	lo = sort.Search(len(ts), func(k int) bool { return ts[k] >= mint })
	hi = lo + sort.Search(len(ts)-lo, func(k int) bool { return ts[lo+k] > maxt })
	return lo, hi
}
