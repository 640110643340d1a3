package frame

import (
	"slices"
	"sync"

	"github.com/promwarp/promwarp/cpuexec/column"
)

// Frames are the frames that come up while a window is evaluated over many
// series. The zero value has none yet, and its Span is to be set. Several goroutines use them:
// finding a frame that is there takes no lock, since all look for one with each series.
type Frames struct {
	Span    Span
	byTimes sync.Map // frames by timesKey

	mu  sync.Mutex // of who adds one
	all []*Frame   // the retained frames
	own int        // of them, those over times that were decoded for one series
}

// timesKey tells times apart quickly, if not for certain.
type timesKey struct {
	column.Place              // of those that are shared
	shared, own         int   // how many of these there are, and of others
	first, middle, last int64 // of the others
}

const (
	// maxFrameSteps bounds the frames that are kept, counted in steps: 24 to 40 bytes each.
	maxFrameSteps = 1 << 20
	// maxOwn bounds those over times that were decoded for one series.
	maxOwn = 64
	// searchedPerStep is how many samples a step has at most where those of another series are
	// compared with them: of more it takes less to find the windows.
	searchedPerStep = 16
)

var framePool = sync.Pool{New: func() any { return new(Frame) }}

// Over returns the frame over t, of which there must be at least one. single is
// the caller's own, for times that no other series is expected to have.
func (f *Frames) Over(t column.Times, single *Frame) *Frame {
	fr := f.known(t)
	if fr == nil {
		single.reset(f.Span, t, t.Own)
		return single
	}
	fr.made.Do(func() { fr.reset(f.Span, t, fr.own) })
	return fr
}

// known returns the frame that series with times t share, or nil if they have none.
func (f *Frames) known(t column.Times) *Frame {
	if !t.Several() || t.Known == 0 && len(t.Own) > searchedPerStep*f.Span.Grid.Steps {
		return nil
	}
	key := timesKey{Place: t.Place, shared: t.Known, own: len(t.Own)}
	if n := len(t.Own); n > 0 {
		key.first, key.middle, key.last = t.Own[0], t.Own[n/2], t.Own[n-1]
	}
	found, ok := f.byTimes.Load(key)
	if !ok {
		found = f.add(key, t.Own)
	}
	if fr, _ := found.(*Frame); fr != nil && slices.Equal(fr.own, t.Own) {
		return fr
	}
	return nil
}

// add adds a frame to keep over times that begin with a shared list's, and returns it: nil if there
// are enough, or the one that somebody else has just added.
func (f *Frames) add(key timesKey, own []int64) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	if found, ok := f.byTimes.Load(key); ok {
		return found
	}
	if len(f.all) >= 16 && len(f.all)*f.Span.Grid.Steps >= maxFrameSteps || key.shared == 0 && f.own == maxOwn {
		return nil
	}
	if key.shared == 0 {
		f.own++
	}
	fr := framePool.Get().(*Frame)
	fr.made = sync.Once{}
	fr.own = append(fr.own[:0], own...)
	f.all = append(f.all, fr)
	f.byTimes.Store(key, fr)
	return fr
}

// Release gives back what the frames have borrowed, and them. None may be used any
// more.
func (f *Frames) Release() {
	for _, fr := range f.all {
		fr.ts, fr.of, fr.runs = nil, column.Times{}, column.Runs{}
		framePool.Put(fr)
	}
	f.all = nil
	f.byTimes.Clear()
}
