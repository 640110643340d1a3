package cpuexec

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"
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

	made   sync.Once
	shared int          // how many of ts are a shared list's
	tail   []int64      // those behind them
	lender *sharedTimes // in whose spare memory ts ends
	joined []int64      // memory for ts where they are in no other
	even   evenRuns     // of ts, where the shared list has some

	extra     extrapolation // made when first needed
	extraMade sync.Once
	used      atomic.Int64 // series evaluated over it and not yet settled
}

// reset makes f the frame of s over ts, which its runs are of if it has any.
func (f *frame) reset(ts []int64, s span) {
	f.ts, f.span, f.extraMade = ts, s, sync.Once{}
	words := (s.grid.Steps + 63) / 64
	f.any = slices.Grow(f.any[:0], words)[:words]
	f.counts = f.find(ts, f.even, s, f.any)
}

// join makes f the frame of s over t with tail for its own times. With borrow, it
// puts these into the spare memory of the shared list where it may.
func (f *frame) join(t sampleTimes, tail []int64, borrow bool, s span) {
	if f.even = f.even[:0]; t.list != nil && t.list.even != nil {
		f.even = t.list.even.cut(int32(t.at), int32(t.at+len(t.shared)), f.even).add(tail)
	}
	switch {
	case len(tail) == 0:
		f.reset(t.shared, s)
	case len(t.shared) == 0:
		f.reset(tail, s)
	case borrow && t.atEnd() && cap(t.list.ts)-len(t.list.ts) >= len(tail) && t.list.spare.TryLock():
		f.lender = t.list
		f.reset(append(t.list.ts[t.at:], tail...), s)
	default:
		f.joined = append(append(f.joined[:0], t.shared...), tail...)
		f.reset(f.joined, s)
	}
}

// settle adds the samples of the series evaluated over f to the statistics, and
// gives back what f has borrowed.
func (f *frame) settle(sc stepCounts) {
	if f.lender != nil {
		f.lender.spare.Unlock()
		f.lender = nil
	}
	used := f.used.Swap(0)
	if used == 0 {
		return
	}
	if f.span.totals {
		sc.all[0] += used * int64(f.total)
		sc.fresh[0] += used * int64(f.fresh())
		return
	}
	seen := int32(0)
	for k, hi := range f.hi {
		lo := f.lo[k]
		switch {
		case lo == hi:
		case f.span.instant:
			sc.all[k] += used
			sc.fresh[k] += used
		default:
			sc.all[k] += used * int64(hi-lo)
			sc.fresh[k] += used * int64(hi-max(lo, seen))
		}
		seen = hi
	}
}

// fresh is the number of samples in the windows that no earlier one had, over all
// steps. An instant selector's newest sample is read anew at each.
func (f *frame) fresh() int {
	apart := f.span.scan.Fixed == nil && f.span.width < f.span.grid.Interval
	if f.span.instant || apart || f.from == f.to {
		return f.total
	}
	return int(f.hi[f.to-1] - f.lo[f.from])
}

// frames are the frames that come up while a window is evaluated over many
// series. Several goroutines use them.
type frames struct {
	span span

	mu        sync.Mutex
	byAddress map[*int64][]*frame // over times that many series share
	byContent map[timesKey]*frame // over times that were decoded for one series
	all       []*frame            // those in the maps
	hits      int                 // of byContent
	misses    int
}

// timesKey tells lists of times apart quickly, if not for certain.
type timesKey struct {
	n                   int
	first, middle, last int64
}

// maxFrameSteps bounds the frames that are kept, counted in steps: 24 to 40
// bytes each.
const maxFrameSteps = 1 << 20

var framePool = sync.Pool{New: func() any { return new(frame) }}

func newFrames(s span) *frames {
	return &frames{span: s, byAddress: map[*int64][]*frame{}, byContent: map[timesKey]*frame{}}
}

// over returns the frame over t, of which there must be at least one. single is
// the caller's own, for times that no other series is expected to have; what is
// in it is settled first.
func (f *frames) over(t sampleTimes, single *frame, sc stepCounts) *frame {
	fr := f.known(t)
	if fr == nil {
		single.settle(sc)
		single.join(t, t.own, false, f.span)
		return single
	}
	fr.made.Do(func() { fr.join(t, fr.tail, true, f.span) })
	return fr
}

// known returns the frame that series with times t share, or nil if they have
// none.
func (f *frames) known(t sampleTimes) *frame {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(t.shared) == 0 {
		return f.decoded(t.own)
	}
	for _, fr := range f.byAddress[&t.shared[0]] {
		if fr.shared == len(t.shared) && slices.Equal(fr.tail, t.own) {
			return fr
		}
	}
	fr := f.take()
	if fr != nil {
		fr.shared, fr.tail = len(t.shared), append(fr.tail[:0], t.own...)
		f.byAddress[&t.shared[0]] = append(f.byAddress[&t.shared[0]], fr)
	}
	return fr
}

// decoded returns the frame over ts, which is scratch memory. It looks for
// another series with equal times as long as that has been worth it.
func (f *frames) decoded(ts []int64) *frame {
	if f.misses > 64 && f.hits < f.misses {
		return nil
	}
	key := timesKey{len(ts), ts[0], ts[len(ts)/2], ts[len(ts)-1]}
	fr, ok := f.byContent[key]
	if ok && slices.Equal(fr.tail, ts) {
		f.hits++
		return fr
	}
	f.misses++
	if ok {
		return nil
	}
	if fr = f.take(); fr != nil {
		fr.shared, fr.tail = 0, append(fr.tail[:0], ts...)
		f.byContent[key] = fr
	}
	return fr
}

// take returns a frame to keep, or nil if there are enough.
func (f *frames) take() *frame {
	if len(f.all) >= 16 && len(f.all)*f.span.grid.Steps >= maxFrameSteps {
		return nil
	}
	fr := framePool.Get().(*frame)
	fr.made = sync.Once{}
	f.all = append(f.all, fr)
	return fr
}

// settle adds the samples of all series evaluated to the statistics. No frame
// may be used any more.
func (f *frames) settle(sc stepCounts) {
	for _, fr := range f.all {
		fr.settle(sc)
		fr.ts = nil
		framePool.Put(fr)
	}
	f.all, f.byAddress, f.byContent = nil, nil, nil
}

// within returns the part of ts, which ascend, that lies in mint to maxt (ms,
// both included), as indices.
func within(ts []int64, mint, maxt int64) (lo, hi int) {
	lo = sort.Search(len(ts), func(k int) bool { return ts[k] >= mint })
	hi = lo + sort.Search(len(ts)-lo, func(k int) bool { return ts[lo+k] > maxt })
	return lo, hi
}
