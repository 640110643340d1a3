package column

import (
	"math"
	"slices"
	"unsafe"
	"weak"

	"github.com/prometheus/prometheus/model/value"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/selection"
)

// digester makes Digests, chunk by chunk.
type digester struct {
	*Digests
	last  float64 // sample
	knows bool    // what the last sample is
}

// digestedAtOnce is the number of chunks that are decoded before they are digested: their samples
// fit into a core's cache.
const digestedAtOnce = 32

// digest makes digests of the chunks cs of series i, and of those before and behind them that are
// known, and retains them. It decodes the chunks of which too little is known. It returns nil if
// there is no room.
func (s *Reader) digest(q *Request, u use, parts Parts, cs []selection.Chunk, i int) (*Digests, error) {
	old := u.entry.digests.Load()
	if old != nil {
		parts |= old.parts
	}
	least := int64(unsafe.Sizeof(account{})+unsafe.Sizeof(Digests{})) + int64(len(cs))*parts.digestSize()
	if !q.Set.makeRoom(least, u.before) {
		return nil, nil
	}
	if old != nil && old.parts != parts {
		old = nil
	}
	defer func() { s.marker.Digests = nil }()
	d, err := s.digestFrom(q.Sel, old, parts, cs, i)
	if d == nil && err == nil {
		d, err = s.digestFrom(q.Sel, nil, parts, cs, i)
	}
	if err != nil || !q.Set.retainDigests(u.entry, u.before, d) {
		return nil, err
	}
	return d, nil
}

// digestFrom makes digests of chunks that old has some of, if it is not nil. It returns nil if it
// cannot find out what a chunk's first sample is compared with.
//
// What old knows of a chunk holds if the chunk comes behind the sample that it came behind. Of a
// chunk behind another one, all is found out anew.
func (s *Reader) digestFrom(sel *selection.Selection, old *Digests, parts Parts, cs []selection.Chunk, i int) (*Digests, error) {
	b, about := &s.marker, len(cs)
	if old != nil {
		about = max(about, len(old.offsets)+8)
	}
	b.begin(parts, about)
	next := -1 // the chunk of old that may be copied behind what there is
	if old != nil {
		if next = old.indexOf(sel, cs[0]); next > 0 {
			b.copy(old, old.living(), next)
		}
	}
	before := len(b.offsets) // chunks that are not in cs
	for k := 0; k < len(cs); {
		if next >= 0 {
			if n := old.match(sel, cs[k:], next); n > 0 {
				b.copy(old, next, next+n)
				k, next = k+n, next+n
				continue
			}
		}
		from := k // what is decoded
		for from > 0 && !b.knows && b.count(before+from-1) == 0 {
			from--
		}
		if !b.knows && from == 0 && before > 0 {
			return nil, nil
		}
		if !b.knows && from > 0 {
			from--
		}
		until := k + 1
		for until < len(cs) && until-k < digestedAtOnce && (old == nil || old.indexOf(sel, cs[until]) < 0) {
			until++
		}
		if err := s.digestChunks(sel, cs, i, [3]int{from, k, until}); err != nil {
			return nil, err
		}
		k, next = until, -1
		if old != nil && b.count(before+k-1) > 0 {
			if next = old.indexOf(sel, cs[k-1]); next >= 0 {
				next++
			}
		}
	}
	if next > 0 {
		b.copy(old, next, len(old.offsets))
	}
	return b.finish(), nil
}

// digestChunks decodes chunks of series i, of those from the first number on, adds those from the
// second to the third, and compares them with the others.
func (s *Reader) digestChunks(sel *selection.Selection, cs []selection.Chunk, i int, of [3]int) error {
	b := &s.marker
	s.buf.Reset()
	in, err := s.more(sel, i, cs[of[0]:of[2]], true)
	if err != nil {
		return err
	}
	ts, vs := in.Times.Own, in.Values
	for k := of[0]; k < of[2]; k++ {
		n := int(cs[k].Samples)
		if s.buf.Marked { // some are left out
			n = notAfter(ts, cs[k].MaxT)
		}
		if k >= of[1] {
			b.add(sel, cs[k], vs[:n])
		}
		if n > 0 {
			b.last, b.knows = vs[n-1], true
		}
		ts, vs = ts[n:], vs[n:]
	}
	return nil
}

// begin begins digests with those parts of that number of chunks, about.
func (b *digester) begin(parts Parts, chunks int) {
	b.Digests, b.knows = &Digests{parts: parts}, false
	b.offsets, b.upTo = make([]uint32, 0, chunks), make([]uint32, 1, chunks+1)
	if parts&Changes != 0 {
		b.changes = make([]uint32, 1, chunks+1)
	}
	if parts&Extremes != 0 {
		b.least, b.most = make([]float64, 0, chunks), make([]float64, 0, chunks)
	}
	if parts&Sums != 0 {
		b.sums.upTo = make([]exact.Int192, 1, chunks+1)
	}
}

// addChunk adds a chunk in a slab.
func (b *digester) addChunk(slab weak.Pointer[selection.Slab], offset uint32) {
	b.offsets = append(b.offsets, offset)
	if n := len(b.slabs); n == 0 || b.slabs[n-1].slab != slab {
		b.slabs = append(b.slabs, slabRange{slab: slab})
	}
	b.slabs[len(b.slabs)-1].end = len(b.offsets)
}

// add adds a chunk of sel, which has those samples.
func (b *digester) add(sel *selection.Selection, c selection.Chunk, vs []float64) {
	b.addChunk(weak.Make(sel.Slab(int(c.Slab))), c.Off)
	all := b.upTo[len(b.upTo)-1]
	b.upTo = append(b.upTo, all+uint32(len(vs)))
	if b.parts&Falls != 0 {
		if len(vs) > 0 && b.knows && vs[0] < b.last {
			b.fall(all, b.last)
		}
		for i := 1; i < len(vs); i++ {
			if vs[i] < vs[i-1] {
				b.fall(all+uint32(i), vs[i-1])
			}
		}
	}
	if b.parts&Changes != 0 {
		n := b.changes[len(b.changes)-1]
		for i, v := range vs {
			before := b.last
			if i > 0 {
				before = vs[i-1]
			}
			if (i > 0 || b.knows) && before != v && (before == before || v == v) {
				n++
			}
		}
		b.changes = append(b.changes, n)
	}
	if b.parts&Extremes != 0 {
		least, most := extremesOf(vs)
		b.least, b.most = append(b.least, least), append(b.most, most)
	}
	if b.parts&Sums != 0 {
		b.sums.add(len(b.offsets)-1, vs)
	}
}

// extremesOf returns the least and the largest of values as Extreme does; of none, stale markers.
func extremesOf(vs []float64) (least, most float64) {
	least = math.Float64frombits(value.StaleNaN)
	most = least
	if len(vs) > 0 {
		least, most = Extreme(vs, true), Extreme(vs, false)
	}
	return least, most
}

// Extreme is the smallest or the largest of values: the first of equal ones, NaN only if all are,
// and the last then. It has the bits of Prometheus's functions.
func Extreme(vs []float64, smallest bool) float64 {
	best := exact.Extreme(vs, smallest)
	if best == best && best != 0 {
		return best
	}
	best = vs[0]
	for _, v := range vs[1:] {
		if smallest && v < best || !smallest && v > best || best != best {
			best = v
		}
	}
	return best
}

// mostFalls is how many falls are known of n samples at most: of more, as gauges have, it takes
// less memory to retain columns.
func mostFalls(n uint32) int { return 64 + int(n)/16 }

// fall adds a sample that is less than the one before.
func (b *digester) fall(at uint32, before float64) {
	f := &b.falls
	if f.many = f.many || len(f.at) >= mostFalls(at); f.many {
		f.at, f.before = nil, nil
		return
	}
	f.at, f.before = append(f.at, at), append(f.before, before)
}

// copy adds what old knows of its chunks from to to, the end excluded.
func (b *digester) copy(old *Digests, from, to int) {
	if from >= to {
		return
	}
	begin := 0
	for _, r := range old.slabs {
		for k := max(begin, from); k < min(r.end, to); k++ {
			b.addChunk(r.slab, old.offsets[k])
		}
		begin = r.end
	}
	all := b.upTo[len(b.upTo)-1]
	more := all - old.upTo[from] // may be below zero, which comes out right
	for _, n := range old.upTo[from+1 : to+1] {
		b.upTo = append(b.upTo, n+more)
	}
	first, _ := slices.BinarySearch(old.falls.at, old.upTo[from])
	end, _ := slices.BinarySearch(old.falls.at, old.upTo[to])
	for k := first; k < end; k++ {
		b.fall(old.falls.at[k]+more, old.falls.before[k])
	}
	if b.falls.many = b.falls.many || old.falls.many; b.falls.many {
		b.falls = falls{many: true}
	}
	if b.parts&Changes != 0 {
		more := b.changes[len(b.changes)-1] - old.changes[from]
		for _, n := range old.changes[from+1 : to+1] {
			b.changes = append(b.changes, n+more)
		}
	}
	if b.parts&Extremes != 0 {
		b.least, b.most = append(b.least, old.least[from:to]...), append(b.most, old.most[from:to]...)
	}
	if b.parts&Sums != 0 {
		b.sums.copy(&old.sums, from, to, len(b.offsets)-(to-from))
	}
	b.knows = false
}

// finish returns what was made, in memory that fits.
func (b *digester) finish() *Digests {
	d := b.Digests
	fit(&d.slabs)
	fit(&d.offsets)
	fit(&d.upTo)
	fit(&d.changes)
	fit(&d.falls.at)
	fit(&d.falls.before)
	fit(&d.least)
	fit(&d.most)
	fit(&d.sums.upTo)
	fit(&d.sums.odd)
	return d
}

// fit copies a list into memory of its size, where it has much more.
func fit[T any](list *[]T) {
	if cap(*list) > len(*list)+len(*list)/16 {
		*list = append(make([]T, 0, len(*list)), *list...)
	}
}

// living is the first chunk whose slab is in use, before which no chunk will be asked for again.
func (d *Digests) living() int {
	from := 0
	for _, r := range d.slabs {
		if r.slab.Value() != nil {
			break
		}
		from = r.end
	}
	return from
}
