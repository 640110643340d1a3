package column

import (
	"slices"
	"sort"
	"sync/atomic"
	"weak"

	"github.com/promwarp/promwarp/cpuexec/exact"
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
	kind    Kind
	chunks  []selection.Origin
	samples []uint32  // before each chunk, and at last all
	lasts   []float64 // the last value up to each chunk's end
	falls   []uint32  // samples that are less than the one before
	before  []float64 // the values before these; NaN says of a chunk's first sample that the chunk is unknown
	changes []uint32  // before each chunk, and at last all
	leasts  []float64 // of each chunk
	mosts   []float64
	sums    []exact.Int192 // before each chunk, and at last of all
	total   exact.Total    // of all samples, with bounds that hold for all sums
	place   atomic.Pointer[place]
}

// place says that chunks from an index on were found in a table, from at on.
type place struct {
	table             weak.Pointer[selection.Chunk]
	at, index, chunks int
}

// run returns how many of cs, from the first on, are the known chunks from index k on: none if that
// is below 0.
func run(known []selection.Origin, k int, sel *selection.Selection, cs []selection.Chunk) (n int) {
	for k >= 0 && n < len(cs) && k+n < len(known) && known[k+n] == sel.Origin(cs[n]) {
		n++
	}
	return n
}

// find returns the index of the first of chunks cs of a query, which begin at a place of its table,
// or -1 if not all of them are there in a row.
func (d *Digests) find(q *Request, at int, cs []selection.Chunk) int {
	if d == nil {
		return -1
	}
	known := d.place.Load()
	if known != nil && known.table == q.Table && at >= known.at && at+len(cs) <= known.at+known.chunks {
		return known.index + at - known.at
	}
	k := slices.Index(d.chunks, q.Sel.Origin(cs[0]))
	if run(d.chunks, k, q.Sel, cs) < len(cs) {
		return -1
	}
	d.place.Store(&place{table: q.Table, at: at, index: k, chunks: len(cs)})
	return k
}

// View is digests of the chunks that a query reads of a series.
type View struct {
	digests       *Digests
	index         int // of the first chunk of the table
	series        int
	table, behind []selection.Chunk
	stays         int // chunks of the table that have digests
}

// besideColumns is how many times as many chunks a window must have where its samples are decoded: these
// are read as fast as digests of 64 chunks.
const besideColumns = 2

// Digests returns a view of series i of a kind, for that number of windows. It reports false where
// the samples had better be read: where windows have few chunks, or digests have no room.
func (s *Reader) Digests(q *Request, kind Kind, windows, i int) (v View, ok bool, err error) {
	sel, at := q.Sel, 0
	v.series = i
	at, v.table, v.behind = sel.OverlappingApart(i, q.Mint, q.Maxt)
	for v.stays = len(v.table); v.stays > 0 && v.table[v.stays-1].MaxT >= sel.KeptUntil; {
		v.stays--
	}
	least := q.LeastChunks * windows
	if IsDecoded(sel.Memo(i)) {
		least *= besideColumns
	}
	if v.stays <= least {
		return v, false, nil
	}
	u := s.use(q, i)
	if u.entry == nil {
		return v, false, nil
	}
	v.digests = u.entry.digests[kind].Load()
	if v.index = v.digests.find(q, at, v.table[:v.stays]); v.index < 0 {
		v.digests, v.index, err = s.digest(q, u, kind, v.table[:v.stays], i)
	}
	return v, v.digests != nil, err
}

// Digested is a window of samples of which some are only known by digests of their chunks.
type Digested struct {
	Start, End          int64     // of the window, ms
	FirstTime, LastTime int64     // of its samples
	Lo, Hi              int32     // its samples, the end excluded, as all windows of a view count them
	Head, Tail          []float64 // samples before the chunks and behind them, one at least of each
	digests             *Digests
	begin, end          int // chunks between head and tail
}

// Window fills w with the window of v of the samples later than start and not later than end. It
// reports false if few chunks are within it.
func (s *Reader) Window(q *Request, v *View, start, end int64, w *Digested) (ok bool, err error) {
	d, first, to := v.digests, ended(v.table[:v.stays], start), ended(v.table[:v.stays], end)
	if to-first <= q.LeastChunks {
		return false, nil
	}
	for first+1 < to {
		s.needed = append(s.needed[:0], v.table[first])
		for _, behind := range [2][]selection.Chunk{v.table[to:], v.behind} {
			for _, c := range behind {
				if c.MinT <= end {
					s.needed = append(s.needed, c)
				}
			}
		}
		if len(s.needed) == 1 { // the last sample is in the last chunk
			to--
			continue
		}
		s.buf.Reset()
		in, err := s.more(q.Sel, v.series, s.needed, true)
		if err != nil {
			return false, err
		}
		ts, vs := in.Times.Own, in.Values
		lo, mid, hi := notAfter(ts, start), notAfter(ts, v.table[first].MaxT), notAfter(ts, end)
		switch {
		case lo == mid: // where stale markers are all that is left of a chunk
			first++
		case mid == hi:
			to--
		default:
			begin, behind := v.index+first+1, v.index+to
			*w = Digested{
				Start: start, End: end, FirstTime: ts[lo], LastTime: ts[hi-1],
				Lo: int32(d.samples[begin]) - int32(mid-lo), Hi: int32(d.samples[behind]) + int32(hi-mid),
				Head: vs[lo:mid], Tail: vs[mid:hi], digests: d, begin: begin, end: behind,
			}
			s.Stats.Digested += to - 1 - first
			return true, nil
		}
	}
	return false, nil
}

// ended is the number of chunks that have no sample later than at (ms), mostly none or all.
func ended(cs []selection.Chunk, at int64) int {
	switch n := len(cs); {
	case cs[0].MaxT > at:
		return 0
	case cs[n-1].MaxT <= at:
		return n
	default:
		return sort.Search(n, func(k int) bool { return cs[k].MaxT > at })
	}
}

// notAfter is the number of times that are not later than at (ms).
func notAfter(ts []int64, at int64) int {
	return sort.Search(len(ts), func(k int) bool { return ts[k] > at })
}

// Samples is how many samples the window has.
func (w *Digested) Samples() int { return int(w.Hi - w.Lo) }

// Falls calls do with the values before all samples that are less than the one before, in order. It
// reports false if these are not known.
func (w *Digested) Falls(do func(before float64)) bool {
	each := func(_ int, before float64) { do(before) }
	eachFall(w.Head[0], w.Head, each)
	begin, end := w.digests.fallsBetween(w.begin, w.end)
	for _, before := range w.digests.before[begin:end] {
		if before != before {
			return false
		}
		do(before)
	}
	eachFall(w.digests.lasts[w.end-1], w.Tail, each)
	return true
}

// eachFall calls do with each of vs that is less than the value before it, and that. before is the
// value before the first.
func eachFall(before float64, vs []float64, do func(i int, before float64)) {
	for i, v := range vs {
		if v < before {
			do(i, before)
		}
		before = v
	}
}

// fallsBetween returns which falls are in the chunks from to to, the end excluded.
func (d *Digests) fallsBetween(from, to int) (begin, end int) {
	begin, _ = slices.BinarySearch(d.falls, d.samples[from])
	end, _ = slices.BinarySearch(d.falls, d.samples[to])
	return begin, end
}

// Changes is the number of samples that differ from the one before.
func (w *Digested) Changes() int {
	d := w.digests
	between := d.changes[w.end] - d.changes[w.begin]
	return int(changed(w.Head[0], w.Head) + between + changed(d.lasts[w.end-1], w.Tail))
}

// changed is how many of vs differ from the value before.
func changed(before float64, vs []float64) (n uint32) {
	for _, v := range vs {
		if v != before && (v == v || before == before) { // NaN is no other than NaN
			n++
		}
		before = v
	}
	return n
}

// Extreme is the smallest or the largest value.
func (w *Digested) Extreme(smallest bool) float64 {
	between := w.digests.mosts
	if smallest {
		between = w.digests.leasts
	}
	parts := [...]float64{extreme(w.Head, smallest), extreme(between[w.begin:w.end], smallest), extreme(w.Tail, smallest)}
	return extreme(parts[:], smallest)
}

// extreme is the smallest or the largest of values with the bits of Prometheus's functions.
func extreme(vs []float64, smallest bool) float64 {
	best := exact.Extreme(vs, smallest)
	if best != best || best == 0 {
		best = exact.FirstExtreme(vs, smallest)
	}
	return best
}

// Total is the sum of all samples. It reports false where one does not suit.
func (w *Digested) Total() (t exact.Total, ok bool) {
	d := w.digests
	begin, end := d.fallsBetween(w.begin, w.end)
	t, ok = d.total, begin == end
	t.Units = d.sums[w.end].Sub(d.sums[w.begin])
	for _, vs := range [2][]float64{w.Head, w.Tail} {
		for _, v := range vs {
			ok = ok && t.Add(v)
		}
	}
	return t, ok
}
