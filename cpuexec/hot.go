package cpuexec

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/promwarp/promwarp/cpuexec/decode"
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
	even  evenRuns   // what ts is made of, or nil
	spare sync.Mutex // held by who uses that
	hash  uint64
	refs  int // slots, guarded by the set's mutex
}

// column is the decoded samples of a series.
type column struct {
	*sharedTimes
	packed               // the values, where they can be
	vs     []float64     // the values where they can't, with some spare memory behind
	spare  sync.Mutex    // held by who uses that
	starts decode.Starts // start timestamps, if they were wanted
	resets found         // samples that are less than the one before
	stale  found         // stale markers
}

// spareSamples is the number of samples that may be put behind a column without
// copying it: those that are too young to be kept, up to 40 minutes' of them 15 s
// apart.
const spareSamples = 192

// hotColumns are the decoded samples of some consecutive chunks of a series.
type hotColumns struct {
	chunks []selection.Origin
	all    *column
	clean  *column // the same without stale markers
	starts bool    // start timestamps were wanted
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

// tick begins the evaluation of a window and returns its number.
func (h *hotSet) tick() int64 { return h.clock.Add(1) }

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

// keep puts samples decoded from the given chunks into s if there is room for them. They
// are copied.
func (h *hotSet) keep(s *hotSeries, before int64, chunks []selection.Origin, from *decode.Buffer) *hotColumns {
	ts, vs := from.Times, from.Values
	c := &hotColumns{chunks: chunks, all: newColumn(vs, from.Starts), starts: from.WantStarts}
	c.clean = c.all
	size := leastSize(len(chunks), 0) + c.all.size()
	lists := []*sharedTimes{h.newTimes(ts)}
	if from.Stale {
		ts, vs, starts := slices.Clone(ts), slices.Clone(vs), slices.Clone(from.Starts)
		starts.DropStale(0, vs)
		n := len(vs) - decode.RemoveStale(ts, vs)
		c.clean = newColumn(vs[:n], starts)
		size += c.clean.size()
		lists = append(lists, h.newTimes(ts[:n]))
	}
	// The times may be new, too.
	for _, t := range lists {
		size += t.mostSize()
	}
	if !h.room(size, before) {
		return nil
	}

	h.mu.Lock()
	defer h.mu.Unlock()
	slot := hotSlot{series: weak.Make(s), cols: weak.Make(c), size: size}
	for _, t := range lists {
		slot.size -= t.mostSize()
		slot.times = append(slot.times, h.intern(t))
	}
	c.all.sharedTimes, c.clean.sharedTimes = slot.times[0], slot.times[len(slot.times)-1]
	h.ring = append(h.ring, slot)
	h.bytes += slot.size
	s.cols.Store(c)
	return c
}

// newColumn returns a column of values and their start timestamps, still without times.
func newColumn(vs []float64, starts decode.Starts) *column {
	c := &column{starts: slices.Clone(starts)}
	if base, unit, ok := rangeOf(vs); ok {
		c.packed = pack(vs, base, unit)
	} else {
		c.vs = append(make([]float64, 0, len(vs)+spareSamples), vs...)
	}
	return c
}

// size is the memory of the values and start timestamps in bytes.
func (c *column) size() int64 {
	return 8*int64(cap(c.vs)) + 4*int64(cap(c.units)) + c.starts.SizeBytes()
}

// values returns the values of samples lo to hi, the end excluded: those that are
// kept, or a copy in scratch.
func (c *column) values(lo, hi int, scratch *[]float64) []float64 {
	if c.units == nil {
		return c.vs[lo:hi]
	}
	*scratch = c.packed.append((*scratch)[:0], lo, hi)
	return *scratch
}

// all returns all values.
func (c *column) all() []float64 {
	var scratch []float64
	return c.values(0, len(c.ts), &scratch)
}

// leastSize is the memory in bytes that columns of so many chunks and samples take
// at least.
func leastSize(chunks, samples int) int64 {
	return int64(unsafe.Sizeof(hotSlot{})+unsafe.Sizeof(hotColumns{})) + int64(chunks)*int64(unsafe.Sizeof(selection.Origin{})) + 4*int64(samples)
}

// newTimes returns ts as what may be shared. It still lies in memory of the caller's.
func (h *hotSet) newTimes(ts []int64) *sharedTimes {
	raw := unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(ts))), 8*len(ts))
	return &sharedTimes{ts: ts, hash: maphash.Bytes(h.seed, raw), refs: 1}
}

// intern returns the shared times equal to t: those that there are, or a copy. The
// set's mutex must be held.
func (h *hotSet) intern(t *sharedTimes) *sharedTimes {
	for _, known := range h.times[t.hash] {
		if slices.Equal(known.ts, t.ts) {
			known.refs++
			return known
		}
	}
	t.even = findRuns(t.ts)
	t.ts = append(make([]int64, 0, len(t.ts)+spareSamples), t.ts...)
	h.times[t.hash] = append(h.times[t.hash], t)
	h.bytes += t.size()
	return t
}

// size is the memory of t in bytes.
func (t *sharedTimes) size() int64 {
	return 8*int64(cap(t.ts)) + int64(len(t.even))*int64(unsafe.Sizeof(evenRun{}))
}

// mostSize is the most that size may come to once t is interned.
func (t *sharedTimes) mostSize() int64 {
	n := int64(len(t.ts))
	return 8*(n+spareSamples) + (n/minEven+1)*int64(unsafe.Sizeof(evenRun{}))
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
		h.bytes -= t.size()
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

// found are samples of a column that are worth knowing, as indices: looked for when
// first asked for, and known from then on.
type found struct{ list atomic.Pointer[[]int32] }

// between appends those from lo to hi, the end excluded, counted from lo, to out.
// find finds all.
func (f *found) between(lo, hi int, out []int32, find func() []int32) []int32 {
	all := f.list.Load()
	if all == nil {
		list := slices.Clip(find())
		all = &list
		f.list.Store(all)
	}
	from, _ := slices.BinarySearch(*all, int32(lo))
	for _, i := range (*all)[from:] {
		if int(i) >= hi {
			break
		}
		out = append(out, i-int32(lo))
	}
	return out
}
