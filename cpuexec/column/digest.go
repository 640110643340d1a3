package column

import (
	"math"
	"slices"
	"sort"
	"sync/atomic"
	"weak"

	"github.com/promwarp/promwarp/selection"
)

// Kind says what Digests know of chunks besides how many samples these have, and the last one.
type Kind int

// The kinds, of which a series may have each.
const (
	Falls    Kind = iota // the values before those that are less
	Changes              // how many samples differ from the one before
	Extremes             // the least and the largest value
	Sums                 // sums, if they are exact
	kinds
)

// Digests are what is known of some consecutive chunks of a series, without stale markers, whose
// samples are not there. All counts are sums up to a chunk, so that what lies between two chunks is
// a difference, and costs the same however many these are:
//
//	chunk         0       1       2       3
//	samples   0     120     240     355     475
//	falls at           131             360        a counter was reset at these samples
//	before             7e4             812        and had those values before
//
// A sample is compared with the one before, also across chunks. Digests never change, but for
// their place.
type Digests struct {
	slabs   []slabRange
	offsets []uint32 // where chunks lie in their slabs
	kind    Kind
	counts  [2][]uint32  // before each chunk, and at last all: samples, and those that differ from the one before
	values  [3][]float64 // of each chunk the last one, or that before it, the least and the largest
	falls   falls
	sums    sums
	place   atomic.Pointer[place]
}

// What counts and values are of.
const (
	samples = 0
	changes = 1
	lasts   = 0
	leasts  = 1
	mosts   = 2
)

// slabRange says in which slab the chunks before end lie, which are not in an earlier range. The
// slab may be gone: digests keep none alive.
type slabRange struct {
	slab weak.Pointer[selection.Slab]
	end  int
}

// falls are the samples that are less than the one before, as long as they are few.
type falls struct {
	at     []uint32
	before []float64
	many   bool
}

// place says that chunks from an index on were found in a table, from at on.
type place struct {
	table             weak.Pointer[selection.Chunk]
	at, index, chunks int
}

// count is the number of samples of chunk k.
func (d *Digests) count(k int) int {
	return int(d.counts[samples][k+1] - d.counts[samples][k])
}

// fallsBetween returns which falls are in the chunks from to to, the end excluded.
func (d *Digests) fallsBetween(from, to int) (begin, end int) {
	begin, _ = slices.BinarySearch(d.falls.at, d.counts[samples][from])
	end, _ = slices.BinarySearch(d.falls.at, d.counts[samples][to])
	return begin, end
}

// indexOf returns the index of a chunk of sel, or -1.
func (d *Digests) indexOf(sel *selection.Selection, c selection.Chunk) int {
	slab, from := weak.Make(sel.Slab(int(c.Slab))), 0
	for _, r := range d.slabs {
		if r.slab == slab {
			if k := slices.Index(d.offsets[from:r.end], c.Off); k >= 0 {
				return from + k
			}
		}
		from = r.end
	}
	return -1
}

// match returns how many of cs, from the first on, are the chunks from index k on: none if that is
// below 0.
func (d *Digests) match(sel *selection.Selection, cs []selection.Chunk, k int) (n int) {
	if k < 0 {
		return 0
	}
	var slab weak.Pointer[selection.Slab] // of that number in sel
	number := uint32(math.MaxUint32)
	for _, r := range d.slabs {
		for ; k+n < r.end && n < len(cs); n++ {
			c := &cs[n]
			if c.Slab != number {
				slab, number = weak.Make(sel.Slab(int(c.Slab))), c.Slab
			}
			if r.slab != slab || d.offsets[k+n] != c.Off {
				return n
			}
		}
	}
	return n
}

// find returns the index of the first of chunks cs of a query, which begin at a place of its table,
// or -1 if not all of them are there in a row.
func (d *Digests) find(q *Request, at int, cs []selection.Chunk) int {
	known := d.place.Load()
	if known != nil && known.table == q.Table && at >= known.at && at+len(cs) <= known.at+known.chunks {
		return known.index + at - known.at
	}
	k := d.indexOf(q.Sel, cs[0])
	if d.match(q.Sel, cs, k) < len(cs) {
		return -1
	}
	if known == nil || len(cs) >= known.chunks || known.table.Value() == nil { // few are soon found again
		d.place.Store(&place{table: q.Table, at: at, index: k, chunks: len(cs)})
	}
	return k
}

// View is digests of the chunks that a query reads of a series.
type View struct {
	digests       *Digests
	series        int
	table, behind []selection.Chunk
	stays         int // chunks of the table that have digests
	at            int // which are those from here on
	begin, end    int // chunks of the table within the last window
}

// besideColumns is how many times as many chunks a window must have where its samples are decoded: these
// are read as fast as digests of 64 chunks.
const besideColumns = 2

// Digests returns a view of series i of a kind, for that number of windows. It reports false where
// the samples had better be read: where windows have few chunks, or digests have no room.
func (s *Reader) Digests(q *Request, kind Kind, windows, i int) (v View, ok bool, err error) {
	sel := q.Sel
	v = View{series: i}
	v.at, v.table, v.behind = sel.OverlappingApart(i, q.Mint, q.Maxt)
	for v.stays = len(v.table); v.stays > 0 && v.table[v.stays-1].MaxT >= sel.KeptUntil; {
		v.stays--
	}
	least := q.LeastChunks
	if IsDecoded(sel.Memo(i)) {
		least *= besideColumns
	}
	if v.stays < least*windows {
		return v, false, nil
	}
	u := s.use(q, i)
	if u.entry == nil {
		return v, false, nil
	}
	d, cs := u.entry.digests[kind].Load(), v.table[:v.stays]
	known := -1 // the index of the first chunk
	if d != nil {
		known = d.find(q, v.at, cs)
	}
	if known < 0 {
		if d, err = s.digest(q, u, kind, cs, i); d == nil || err != nil {
			return v, false, err
		}
		known = d.find(q, v.at, cs)
	}
	v.digests, v.at = d, known
	return v, known >= 0, nil
}

// Digested is a window of samples of which some are only known by digests of their chunks.
type Digested struct {
	Start, End          int64 // of the window, ms
	FirstTime, LastTime int64 // of its samples
	Lo, Hi              int32 // its samples, the end excluded, as all windows of a view count them
	Head                []float64
	Tail                []float64 // the last sample of the chunks, and those behind them
	digests             *Digests
	begin, end          int // chunks between head and tail
}

// Window fills w with the next of the windows of v, of the samples later than start and not later
// than end. It reports false if few chunks are within it.
func (s *Reader) Window(q *Request, v *View, start, end int64, w *Digested) (ok bool, err error) {
	d, cs := v.digests, v.table
	for v.begin < v.stays && cs[v.begin].MinT <= start {
		v.begin++
	}
	switch {
	case cs[v.stays-1].MaxT <= end:
		v.end = v.stays
	case v.end == 0:
		v.end = sort.Search(v.stays, func(k int) bool { return cs[k].MaxT > end })
	default:
		for cs[v.end].MaxT <= end {
			v.end++
		}
	}
	if v.end-v.begin < q.LeastChunks {
		return false, nil
	}
	for k := max(v.begin-1, 0); k < v.end; k++ { // the first with a sample
		if cs[k].MaxT <= start || d.count(v.at+k) == 0 {
			continue
		}
		if ok, err = s.window(q, v, k, start, end, w); ok || err != nil || k >= v.begin {
			break
		}
	}
	return ok, err
}

// window fills w with a window that begins in chunk first. It reports false if that has no sample
// in the window, or no chunk with a sample is between that and the window's end.
func (s *Reader) window(q *Request, v *View, first int, start, end int64, w *Digested) (bool, error) {
	d, cs := v.digests, v.table
	from, to := v.at+first+1, v.at+v.end
	for to > from && d.count(to-1) == 0 {
		to--
	}
	if to == from {
		return false, nil
	}
	s.needed = append(s.needed[:0], cs[first], cs[to-1-v.at])
	for _, behind := range [2][]selection.Chunk{cs[v.end:], v.behind} {
		for _, c := range behind {
			if c.MinT <= end {
				s.needed = append(s.needed, c)
			}
		}
	}
	s.buf.Reset()
	in, err := s.more(q.Sel, v.series, s.needed, true)
	if err != nil {
		return false, err
	}
	ts, vs := in.Times.Own, in.Values
	lo, mid := notAfter(ts, start), notAfter(ts, cs[first].MaxT)
	last, hi := mid+d.count(to-1)-1, notAfter(ts, end)
	if lo >= mid || last >= hi || ts[last] > cs[to-1-v.at].MaxT {
		return false, nil
	}
	*w = Digested{
		Start: start, End: end, FirstTime: ts[lo], LastTime: ts[hi-1],
		Lo: int32(d.counts[samples][from]) - int32(mid-lo), Hi: int32(d.counts[samples][to]) + int32(hi-last-1),
		Head: vs[lo:mid], Tail: vs[last:hi], digests: d, begin: from, end: to,
	}
	s.Stats.Digested += to - 1 - from
	return true, nil
}

// notAfter is the number of times that are not later than at (ms).
func notAfter(ts []int64, at int64) int {
	return sort.Search(len(ts), func(k int) bool { return ts[k] > at })
}

// Samples is how many samples the window has.
func (w *Digested) Samples() int { return int(w.Hi - w.Lo) }

// Falls returns the values before those samples of the chunks that are less than the one before, in
// order. It reports false if these are too many to be known.
func (w *Digested) Falls() (before []float64, ok bool) {
	begin, end := w.digests.fallsBetween(w.begin, w.end)
	return w.digests.falls.before[begin:end], !w.digests.falls.many
}

// Changes is the number of samples of the chunks that differ from the one before.
func (w *Digested) Changes() int {
	return int(w.digests.counts[changes][w.end] - w.digests.counts[changes][w.begin])
}

// Extremes are the least and the largest value of each chunk.
func (w *Digested) Extremes() (least, most []float64) {
	return w.digests.values[leasts][w.begin:w.end], w.digests.values[mosts][w.begin:w.end]
}
