// Package column retains the decoded samples of series, and reads samples: from there where they
// are retained, from chunks where they are not.
//
// A Request and a series of its selection go into a Reader; Samples come out, a slice of a
// column, or a column and what was decoded behind it. Times are shared by all columns that
// have the same, and described by runs at even distances (Runs) where they have such. Values
// that are integers, a multiple of a power of two away from the least of them, are Packed into 4
// bytes. What is read is the same whether it was retained or not. The columns of a Set stay
// within its limit, and go with the selections that they belong to.
//
// Start with Reader.Load.
package column

import (
	"cmp"
	"hash/maphash"
	"math"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
	"weak"

	"github.com/promwarp/promwarp/cpuexec/decode"
	"github.com/promwarp/promwarp/selection"
)

// Set retains the decoded columns of series, and digests of their chunks, within a limit in
// bytes. They hang on the series' memos, so that they go with the selections they belong to; the
// set only counts them and decides who has to go.
//
// A series is admitted while there is room, and otherwise only in place of one
// that was last used before the newcomer's own last use but one. So what is
// larger than the limit and read over and over keeps a part of itself decoded
// instead of pushing itself out, and what is read once pushes out nothing. That
// counts as used firstUse ticks earlier than it was, so that it is evicted first.
type Set struct {
	limit int64        // bytes
	clock atomic.Int64 // ticks with every query evaluated

	mu    sync.Mutex
	bytes int64
	ring  []account // all series admitted
	hand  int       // where the search for one to go starts
	swept uint64    // the collector's cycles before what is gone was last taken off
	times map[uint64][]*SharedTimes
	seed  maphash.Seed
}

// Tick begins the evaluation of a query and returns its number.
func (h *Set) Tick() int64 { return h.clock.Add(1) }

// account is the set's of a series: what it holds, and the times it
// refers to.
type account struct {
	series  weak.Pointer[entry]
	column  weak.Pointer[column]
	digests weak.Pointer[Digests] // in place of a column
	size    int64
	times   *SharedTimes // of a column
	used    int64        // tick of the last use, as Shrink found it
}

// entry is the series' entry if it still has the column or the digests, else nil.
func (a *account) entry() *entry {
	e, c, d := a.series.Value(), a.column.Value(), a.digests.Value()
	if e == nil || (c == nil || e.plain.Load() != c && e.marked.Load() != c) && (d == nil || e.digests[d.kind].Load() != d) {
		return nil
	}
	return e
}

// NewSet returns a set of columns that together take at most limit bytes; with 0 none are
// retained.
func NewSet(limit int64) *Set {
	return &Set{limit: limit, times: map[uint64][]*SharedTimes{}, seed: maphash.MakeSeed()}
}

// entry is what a memo holds.
type entry struct {
	used  atomic.Int64 // tick of the last use
	first atomic.Int64 // tick of the first
	// Its columns without stale markers and with them: the same where there are none.
	plain, marked atomic.Pointer[column]
	digests       [kinds]atomic.Pointer[Digests] // of its chunks
}

// use returns what memo m holds and the tick of the use before this one, which may be
// never, at tick now. It returns nil if nothing is to be retained.
func (h *Set) use(m *selection.Memo, now int64) (s *entry, before int64) {
	if m == nil || h.limit <= 0 {
		return nil, 0
	}
	s, _ = m.Load().(*entry)
	if s == nil {
		s = &entry{}
		s.used.Store(never)
		m.CompareAndSwap(nil, s)
		s = m.Load().(*entry)
	}
	if before = s.used.Swap(now); before == never {
		s.first.Store(now)
	}
	if s.first.Load() == now {
		s.used.Store(now - firstUse)
		return s, never
	}
	return s, before
}

// never is the tick of the use before the first.
const never = math.MinInt64

// IsDecoded reports whether a series has columns.
func IsDecoded(m *selection.Memo) bool {
	if m == nil {
		return false
	}
	s, ok := m.Load().(*entry)
	return ok && (s.plain.Load() != nil || s.marked.Load() != nil)
}

// retain puts samples decoded from the given chunks into s if there is room for them. They
// are copied.
func (h *Set) retain(s *entry, before int64, chunks []selection.Origin, from *decode.Buffer) *column {
	c := &column{chunks: chunks, starts: slices.Clone(from.Starts), withStarts: from.WantStarts, marked: from.Marked, withStale: from.Stale}
	var packed bool
	if c.Packed, packed = packIfExact(from.Values); !packed {
		c.vs = slices.Clone(from.Values)
	}
	size := leastSize(len(chunks), 0) + 8*int64(cap(c.vs)) + 4*int64(cap(c.Units)) + c.starts.SizeBytes()
	times := 8*int64(len(from.Times)) + int64(unsafe.Sizeof(EvenRun{})) // at most; they may be new, too
	if !h.makeRoom(size+times, before) {
		return nil
	}
	hash := h.hash(from.Times)
	h.mu.Lock()
	defer h.mu.Unlock()
	c.SharedTimes = h.intern(from.Times, hash)
	h.ring = append(h.ring, account{series: weak.Make(s), column: weak.Make(c), size: size, times: c.SharedTimes})
	h.bytes += size
	if !c.withStale {
		s.plain.Store(c)
	}
	if !c.marked || c.withStale {
		s.marked.Store(c)
	}
	return c
}

// retainDigests puts digests into s if there is room for them.
func (h *Set) retainDigests(s *entry, before int64, d *Digests) bool {
	size := d.sizeOf(len(d.chunks))
	if !h.makeRoom(size, before) {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ring = append(h.ring, account{series: weak.Make(s), digests: weak.Make(d), size: size})
	h.bytes += size
	s.digests[d.kind].Store(d)
	return true
}

// leastSize is the least memory in bytes that columns of a number of chunks and samples take.
func leastSize(chunks, samples int) int64 {
	return int64(unsafe.Sizeof(account{})+unsafe.Sizeof(column{})) + int64(chunks)*int64(unsafe.Sizeof(selection.Origin(0))) + 4*int64(samples)
}

// hashed is the number of times at the beginning and at the end of a list that its hash is of.
const hashed = 512

func (h *Set) hash(ts []int64) uint64 {
	of := func(ts []int64) uint64 {
		return maphash.Bytes(h.seed, unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(ts))), 8*len(ts)))
	}
	return of(ts[:min(len(ts), hashed)]) ^ 31*of(ts[max(0, len(ts)-hashed):])
}

// intern returns the shared times equal to ts: existing ones, or a copy. The
// set's mutex must be held.
func (h *Set) intern(ts []int64, hash uint64) *SharedTimes {
	for _, known := range h.times[hash] {
		if known.equal(ts) {
			known.refs++
			known.lent.Store(true)
			return known
		}
	}
	t := &SharedTimes{n: len(ts), hash: hash, refs: 1, runs: findRuns(ts)}
	if len(t.runs.Even) == 0 {
		t.ts = slices.Clone(ts)
	}
	h.times[hash] = append(h.times[hash], t)
	h.bytes += t.size()
	return t
}

// firstUse is how many ticks earlier than it was the first use of a series counts.
const firstUse = 16

// maxSearch is the number of series that are looked at for one to go.
const maxSearch = 64

// makeRoom makes room for size bytes, at the cost of series that were last used
// before the given tick, and reports whether there is.
func (h *Set) makeRoom(size, before int64) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for tries := 0; h.bytes+size > h.limit; tries++ {
		if tries == maxSearch || len(h.ring) == 0 {
			return false
		}
		h.hand %= len(h.ring)
		if s := h.ring[h.hand].entry(); s != nil && s.used.Load() >= before {
			h.hand++
			continue
		}
		h.drop(h.hand)
	}
	return true
}

// drop takes account i off the ring, and its column from its series. The set's mutex must be held.
func (h *Set) drop(i int) {
	gone, last := h.ring[i], len(h.ring)-1
	if e, c, d := gone.entry(), gone.column.Value(), gone.digests.Value(); e != nil {
		if c != nil {
			e.plain.CompareAndSwap(c, nil)
			e.marked.CompareAndSwap(c, nil)
		}
		if d != nil {
			e.digests[d.kind].CompareAndSwap(d, nil)
		}
	}
	h.ring[i], h.ring[last] = h.ring[last], account{}
	h.ring = h.ring[:last]
	h.bytes -= gone.size
	t := gone.times
	if t == nil {
		return
	}
	if t.refs--; t.refs > 0 {
		return
	}
	h.bytes -= t.size()
	same := slices.DeleteFunc(h.times[t.hash], func(o *SharedTimes) bool { return o == t })
	if len(same) == 0 {
		delete(h.times, t.hash)
	} else {
		h.times[t.hash] = same
	}
}

// SizeBytes is the number of bytes that decoded columns take. Those whose selections
// are gone are taken off first; since they go when the collector has been at work, and there may be
// a hundred thousand, they are looked at once after each of its cycles.
func (h *Set) SizeBytes() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	sample := [1]metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample[:])
	cycles := sample[0].Value.Uint64()
	if cycles == h.swept {
		return h.bytes
	}
	h.swept = cycles
	for i := len(h.ring) - 1; i >= 0; i-- {
		if h.ring[i].entry() == nil {
			h.drop(i)
		}
	}
	return h.bytes
}

// Shrink drops series until the set is smaller by that number of bytes, the least recently used
// first, and returns by how many bytes it is. Of series last used at one tick the newest stay.
func (h *Set) Shrink(bytes int64) (freed int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.bytes
	slices.Reverse(h.ring) // of series last used at one tick the newest stay
	for i := range h.ring {
		if s := h.ring[i].entry(); s != nil {
			h.ring[i].used = s.used.Load()
		}
	}
	slices.SortStableFunc(h.ring, func(a, b account) int { return cmp.Compare(b.used, a.used) })
	for before-h.bytes < bytes && len(h.ring) > 0 {
		h.drop(len(h.ring) - 1)
	}
	return before - h.bytes
}
