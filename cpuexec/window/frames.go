package window

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/internal/spin"
)

// Frames are the frames that come up while a window is evaluated over many
// series. Several goroutines use them: whoever looks for a frame over times that series share
// takes no lock, since all look for one with each series.
type Frames struct {
	span Span

	byPlace [places]atomic.Pointer[frame] // over times that many series share, in chains by hash
	mu      sync.Mutex                    // of what follows, and of who adds to a chain
	all     []*frame                      // those that are kept
	// Over times that were decoded for one series.
	byContent map[timesKey]*frame
	hits      int
	misses    int
}

// places is the number of chains of frames.
const places = 128

// placeSeed is that of the hashes that chains go by.
var placeSeed = maphash.MakeSeed()

// timesKey tells lists of times apart quickly, if not for certain.
type timesKey struct {
	n                   int
	first, middle, last int64
}

// maxFrameSteps bounds the frames that are kept, counted in steps: 24 to 40
// bytes each.
const maxFrameSteps = 1 << 20

var framePool = sync.Pool{New: func() any { return new(frame) }}

func NewFrames(s Span) *Frames { return &Frames{span: s, byContent: map[timesKey]*frame{}} }

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
// none.
func (f *Frames) known(t column.Times) *frame {
	if !t.Several() {
		return nil
	}
	if t.Known == 0 {
		spin.Lock(&f.mu)
		defer f.mu.Unlock()
		return f.decoded(t.Own)
	}
	chain := &f.byPlace[maphash.Comparable(placeSeed, t.Place())%places]
	first := chain.Load()
	if fr := find(first, nil, t); fr != nil {
		return fr
	}
	spin.Lock(&f.mu)
	defer f.mu.Unlock()
	now := chain.Load()
	if fr := find(now, first, t); fr != nil { // somebody else has just added it
		return fr
	}
	fr := f.add()
	if fr != nil {
		fr.place, fr.shared, fr.own, fr.next = t.Place(), t.Known, append(fr.own[:0], t.Own...), now
		chain.Store(fr)
	}
	return fr
}

// find returns the frame over times t between first, the first of a chain, and before.
func find(first, before *frame, t column.Times) *frame {
	for fr := first; fr != before; fr = fr.next {
		if fr.place == t.Place() && fr.shared == t.Known && slices.Equal(fr.own, t.Own) {
			return fr
		}
	}
	return nil
}

// decoded returns the frame over ts, which is scratch memory. It looks for
// another series with equal times as long as that has been worth it.
func (f *Frames) decoded(ts []int64) *frame {
	if f.misses > 64 && f.hits < f.misses {
		return nil
	}
	key := timesKey{len(ts), ts[0], ts[len(ts)/2], ts[len(ts)-1]}
	fr, ok := f.byContent[key]
	if ok && slices.Equal(fr.own, ts) {
		f.hits++
		return fr
	}
	f.misses++
	if ok {
		return nil
	}
	if fr = f.add(); fr != nil {
		fr.shared, fr.own = 0, append(fr.own[:0], ts...)
		f.byContent[key] = fr
	}
	return fr
}

// add returns a frame to keep, or nil if there are enough.
func (f *Frames) add() *frame {
	if len(f.all) >= 16 && len(f.all)*f.span.Grid.Steps >= maxFrameSteps {
		return nil
	}
	fr := framePool.Get().(*frame)
	fr.made.Reset()
	f.all = append(f.all, fr)
	return fr
}

// Release gives back what the frames have borrowed, and them. None may be used any
// more.
func (f *Frames) Release() {
	for _, fr := range f.all {
		fr.release()
		fr.place, fr.next = column.Place{}, nil
		framePool.Put(fr)
	}
	f.all, f.byContent = nil, nil
	clear(f.byPlace[:])
}
