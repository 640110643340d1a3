package window

import (
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
)

// Frames are the frames that come up while a window is evaluated over many
// series. Several goroutines use them: whoever looks for a frame that is there
// takes no lock, since all look for one with each series.
type Frames struct {
	span    Span
	byTimes sync.Map // frames by timesKey

	mu  sync.Mutex // of who adds one
	all []*frame   // those that are kept
	// How often times that were decoded for one series had a frame already, and how often not.
	hits, misses atomic.Int64
}

// timesKey tells times apart quickly, if not for certain.
type timesKey struct {
	place               column.Place // of those that are a shared list's
	shared, own         int          // how many of these there are, and of others
	first, middle, last int64        // of the others
}

// maxFrameSteps bounds the frames that are kept, counted in steps: 24 to 40
// bytes each.
const maxFrameSteps = 1 << 20

var framePool = sync.Pool{New: func() any { return new(frame) }}

// NewFrames are no frames yet, of windows of s.
func NewFrames(s Span) *Frames { return &Frames{span: s} }

// over returns the frame over t, of which there must be at least one. single is
// the caller's own, for times that no other series is expected to have.
func (f *Frames) over(t column.Times, single *frame) *frame {
	fr := f.known(t)
	if fr == nil {
		single.set(t, t.Own)
		single.reset(f.span)
		return single
	}
	fr.made.Do(func() {
		fr.set(t, fr.own)
		fr.reset(f.span)
	})
	return fr
}

// known returns the frame that series with times t share, or nil if they have
// none. It looks for another series that was decoded as long as that has been worth it.
func (f *Frames) known(t column.Times) *frame {
	misses := f.misses.Load()
	if !t.Several() || t.Known == 0 && misses > 64 && f.hits.Load() < misses {
		return nil
	}
	key := timesKey{place: t.Place(), shared: t.Known, own: len(t.Own)}
	if n := len(t.Own); n > 0 {
		key.first, key.middle, key.last = t.Own[0], t.Own[n/2], t.Own[n-1]
	}
	found, ok := f.byTimes.Load(key)
	if !ok {
		found, ok = f.add(key, t.Own)
	}
	if fr, _ := found.(*frame); fr != nil && slices.Equal(fr.own, t.Own) {
		if ok && t.Known == 0 {
			f.hits.Add(1)
		}
		return fr
	}
	return nil
}

// add adds a frame to keep over times that begin with a shared list's, and returns it: nil if there
// are enough, or the one that somebody else has just added.
func (f *Frames) add(key timesKey, own []int64) (found any, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found, ok = f.byTimes.Load(key); ok {
		return found, true
	}
	if key.shared == 0 {
		f.misses.Add(1)
	}
	if len(f.all) >= 16 && len(f.all)*f.span.Grid.Steps >= maxFrameSteps {
		return nil, false
	}
	fr := framePool.Get().(*frame)
	fr.made = sync.Once{}
	fr.own = append(fr.own[:0], own...)
	f.all = append(f.all, fr)
	f.byTimes.Store(key, fr)
	return fr, false
}

// Release gives back what the frames have borrowed, and them. None may be used any
// more.
func (f *Frames) Release() {
	for _, fr := range f.all {
		fr.release()
		framePool.Put(fr)
	}
	f.all = nil
	f.byTimes.Clear()
}

// frame is the windows of all steps over one list of sample times: what a window
// function needs besides the values. Series that are scraped together have the
// same times and share a frame, so that finding the windows costs once what it
// would cost for each.
type frame struct {
	times
	span   Span
	bounds              // of the windows
	any    []uint64     // bitmap of the steps with a sample
	counts dense.Counts // of a function with a value wherever there is a sample

	own  []int64 // times that are no shared list's
	made sync.Once

	extra     extrapolation // made when first needed, or
	ends      edges         // of extended windows
	extraMade sync.Once
	line      []trend // made when first needed
	lineMade  sync.Once
}

// reset makes f the frame of s over its times.
func (f *frame) reset(s Span) {
	f.span = s
	f.extraMade = sync.Once{}
	f.lineMade = sync.Once{}
	words := (s.Grid.Steps + 63) / 64
	f.any = slices.Grow(f.any[:0], words)[:words]
	f.counts = f.find(&f.times, s, f.any)
}

// times are the times of a frame's samples: runs where there are some, and else, or where
// somebody asks, a list.
type times struct {
	n    int
	of   column.Times // with tail for its own
	tail []int64
	runs column.Runs

	once   sync.Once
	ts     []int64
	joined []int64     // memory for ts where they are in no other
	memory column.Runs // for runs
}

// set makes t the times of, with tail in place of its own.
func (t *times) set(of column.Times, tail []int64) {
	t.of, t.tail, t.n = of, tail, of.Known+len(tail)
	t.runs = of.Runs(tail, &t.memory)
	t.once = sync.Once{}
}

// list returns all times in ms.
func (t *times) list() []int64 {
	t.once.Do(func() { t.ts = t.of.Join(t.tail, &t.joined) })
	return t.ts
}

// at is the time of sample i in ms.
func (t *times) at(i int) int64 {
	if i >= t.of.Known {
		return t.tail[i-t.of.Known]
	}
	if len(t.runs.Even) == 0 {
		return t.list()[i]
	}
	k := sort.Search(len(t.runs.Even), func(k int) bool { return int(t.runs.Even[k].To) > i })
	return t.runs.At(k, int32(i))
}

// release gives back what is borrowed.
func (t *times) release() {
	t.ts, t.of, t.runs = nil, column.Times{}, column.Runs{}
}
