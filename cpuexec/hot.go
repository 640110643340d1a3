package cpuexec

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/selection"
)

// hotSet keeps the decoded columns of series that are asked for again and again,
// within a limit in bytes. They hang on the series' memos, so that they go with
// the selections they belong to; the set only counts them and decides who has to
// go.
//
// A series is admitted while there is room, and otherwise only in place of one
// that was last used before the newcomer's own last use but one. So what is
// larger than the limit and read over and over keeps a part of itself decoded
// instead of pushing itself out, and what is read once pushes out nothing.
type hotSet struct {
	limit int64        // bytes
	clock atomic.Int64 // ticks with every window evaluated

	mu    sync.Mutex
	bytes int64
	ring  []hotSlot // all series admitted
	hand  int       // where the search for one to go starts
	times map[uint64][]*sharedTimes
	seed  maphash.Seed
}

// sharedTimes are the times of a column, shared by all columns that have the same.
type sharedTimes struct {
	ts    []int64    // with some spare memory behind it
	spare sync.Mutex // held by who uses that
	hash  uint64
	refs  int // slots, guarded by the set's mutex
}

// column is the decoded samples of a series.
type column struct {
	*sharedTimes
	vs     []float64  // with some spare memory behind it
	spare  sync.Mutex // held by who uses that
	resets atomic.Pointer[[]int32]
}

// spareSamples is the number of samples that may be put behind a column without
// copying it: those that are too young to be kept, half an hour's.
const spareSamples = 128

// hotColumns are the decoded samples of some consecutive chunks of a series.
type hotColumns struct {
	chunks []selection.Origin
	all    *column
	clean  *column // the same without stale markers
}

// hotSeries is what a memo holds.
type hotSeries struct {
	used atomic.Int64 // tick of the last use
	cols atomic.Pointer[hotColumns]
}

// hotSlot is the set's account of a series: what it holds, and the times it
// refers to.
type hotSlot struct {
	series weak.Pointer[hotSeries]
	cols   weak.Pointer[hotColumns]
	size   int64
	times  []*sharedTimes
}

func newHotSet(limit int64) *hotSet {
	return &hotSet{limit: limit, times: map[uint64][]*sharedTimes{}, seed: maphash.MakeSeed()}
}

// series returns what memo m holds and the tick of the use before this one, at
// tick now. It returns nil if nothing is to be kept.
func (h *hotSet) series(m *selection.Memo, now int64) (s *hotSeries, before int64) {
	if m == nil || h.limit <= 0 {
		return nil, 0
	}
	s, _ = m.Load().(*hotSeries)
	if s == nil {
		s = &hotSeries{}
		// That there is a memo says that it was used once before.
		s.used.Store(now - firstUse)
		m.CompareAndSwap(nil, s)
		s = m.Load().(*hotSeries)
	}
	return s, s.used.Swap(now)
}

// isHot reports whether a series has columns.
func isHot(m *selection.Memo) bool {
	if m == nil {
		return false
	}
	s, ok := m.Load().(*hotSeries)
	return ok && s.cols.Load() != nil
}

// keep puts the samples at ts, vs, decoded from the given chunks, into s if there
// is room for them. They are copied.
func (h *hotSet) keep(s *hotSeries, before int64, chunks []selection.Origin, ts []int64, vs []float64, stale bool) *hotColumns {
	size := hotSize(len(chunks), len(vs), stale)
	// Its times may be new, too.
	if !h.room(2*size, before) {
		return nil
	}
	c := &hotColumns{chunks: chunks, all: newColumn(len(vs))}
	c.all.vs = append(c.all.vs, vs...)
	c.clean = c.all
	if stale {
		n := 0
		for _, v := range vs {
			if !value.IsStaleNaN(v) {
				n++
			}
		}
		c.clean = newColumn(n)
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	slot := hotSlot{series: weak.Make(s), cols: weak.Make(c), size: size}
	slot.times = append(slot.times, h.intern(ts))
	c.all.sharedTimes = slot.times[0]
	if stale {
		clean := make([]int64, 0, len(vs))
		for k, v := range vs {
			if !value.IsStaleNaN(v) {
				c.clean.vs = append(c.clean.vs, v)
				clean = append(clean, ts[k])
			}
		}
		c.clean.sharedTimes = h.intern(clean)
		slot.times = append(slot.times, c.clean.sharedTimes)
	}
	h.ring = append(h.ring, slot)
	h.bytes += size
	s.cols.Store(c)
	return c
}

// hotSize is the memory of the columns of so many chunks and samples, without
// that of their times.
func hotSize(chunks, samples int, stale bool) int64 {
	size := int64(unsafe.Sizeof(hotSlot{})+unsafe.Sizeof(hotColumns{})) + int64(chunks)*int64(unsafe.Sizeof(selection.Origin{}))
	size += 8 * int64(samples+spareSamples)
	if stale {
		size *= 2
	}
	return size
}

// newColumn returns a column with memory for n samples.
func newColumn(n int) *column { return &column{vs: make([]float64, 0, n+spareSamples)} }

// intern returns the shared times equal to ts. The set's mutex must be held.
func (h *hotSet) intern(ts []int64) *sharedTimes {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(ts))), 8*len(ts))
	hash := maphash.Bytes(h.seed, raw)
	for _, t := range h.times[hash] {
		if slices.Equal(t.ts, ts) {
			t.refs++
			return t
		}
	}
	t := &sharedTimes{ts: append(make([]int64, 0, len(ts)+spareSamples), ts...), hash: hash, refs: 1}
	h.times[hash] = append(h.times[hash], t)
	h.bytes += 8 * int64(cap(t.ts))
	return t
}

// firstUse is how many ticks ago a series that is seen for the first time is
// taken to have been used before.
const firstUse = 16

// maxSearch is the number of series that are looked at for one to go.
const maxSearch = 64

// room makes room for size bytes, at the cost of series that were last used
// before the given tick, and reports whether there is.
func (h *hotSet) room(size, before int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for tries := 0; h.bytes+size > h.limit; tries++ {
		if tries == maxSearch || len(h.ring) == 0 {
			return false
		}
		h.hand %= len(h.ring)
		slot := h.ring[h.hand]
		s, c := slot.series.Value(), slot.cols.Value()
		gone := s == nil || c == nil || s.cols.Load() != c
		if !gone && s.used.Load() >= before {
			h.hand++
			continue
		}
		if !gone {
			s.cols.CompareAndSwap(c, nil)
		}
		h.drop(h.hand)
	}
	return true
}

// drop takes slot i off the account. The set's mutex must be held.
func (h *hotSet) drop(i int) {
	slot, last := h.ring[i], len(h.ring)-1
	h.ring[i], h.ring[last] = h.ring[last], hotSlot{}
	h.ring = h.ring[:last]
	h.bytes -= slot.size
	for _, t := range slot.times {
		if t.refs--; t.refs > 0 {
			continue
		}
		h.bytes -= 8 * int64(cap(t.ts))
		same := slices.DeleteFunc(h.times[t.hash], func(o *sharedTimes) bool { return o == t })
		if len(same) == 0 {
			delete(h.times, t.hash)
		} else {
			h.times[t.hash] = same
		}
	}
}

// size is the number of bytes that decoded columns take. Those whose selections
// are gone are taken off first.
func (h *hotSet) size() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := len(h.ring) - 1; i >= 0; i-- {
		if s := h.ring[i].series.Value(); s == nil || h.ring[i].cols.Value() == nil {
			h.drop(i)
		}
	}
	return h.bytes
}

// resetsBetween appends the samples of c from lo to hi, the end excluded, that
// are less than the one before, counted from lo, to resets.
func (c *column) resetsBetween(lo, hi int, resets []int32) []int32 {
	all := c.resets.Load()
	if all == nil {
		found := slices.Clip(findResets(c.vs, 0, nil))
		all = &found
		c.resets.Store(all)
	}
	from, _ := slices.BinarySearch(*all, int32(lo+1))
	for _, r := range (*all)[from:] {
		if int(r) >= hi {
			break
		}
		resets = append(resets, r-int32(lo))
	}
	return resets
}
