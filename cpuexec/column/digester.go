package column

import (
	"slices"
	"unsafe"
	"weak"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/selection"
)

// digestedAtOnce is the number of chunks that are decoded before they are digested: their samples
// fit into a core's cache.
const digestedAtOnce = 32

// digest makes digests of the chunks cs of series i, and of those before and behind them that are
// known, and retains them. It returns nil if there is no room.
//
// What is known of a chunk holds if the chunk comes behind the sample that it came behind. Other
// chunks are decoded.
func (s *Reader) digest(q *Request, u use, kind Kind, cs []selection.Chunk, i int) (*Digests, error) {
	old, d := u.entry.digests[kind].Load(), &Digests{kind: kind}
	if !q.Set.makeRoom(d.sizeOf(len(cs)), u.before) {
		return nil, nil
	}
	if old == nil {
		old = d
	}
	d, err := s.digestFrom(q.Sel, old, cs, i)
	if err == nil && d.sums.inexact && !old.sums.inexact && len(old.offsets) > 0 { // maybe for its unit
		d, err = s.digestFrom(q.Sel, &Digests{kind: kind}, cs, i)
	}
	if err != nil || !q.Set.retainDigests(u.entry, u.before, d) {
		return nil, err
	}
	return d, nil
}

// digestFrom makes digests of chunks of which old may know some.
func (s *Reader) digestFrom(sel *selection.Selection, old *Digests, cs []selection.Chunk, i int) (*Digests, error) {
	d := &Digests{kind: old.kind}
	d.counts[samples], d.counts[changes], d.sums.upTo = []uint32{0}, []uint32{0}, make([]exact.Int192, 1)
	next := old.indexOf(sel, cs[0]) // the chunk of old that may be copied behind what there is
	if next > 0 {
		d.copy(old, old.living(), next)
	}
	for k := 0; k < len(cs); {
		if n := old.match(sel, cs[k:], next); n > 0 {
			d.copy(old, next, next+n)
			k, next = k+n, next+n
			continue
		}
		from := k
		for k++; k < len(cs) && k-from < digestedAtOnce && old.indexOf(sel, cs[k]) < 0; {
			k++
		}
		if err := s.digestChunks(sel, d, cs[from:k], i); err != nil {
			return nil, err
		}
		if next = old.indexOf(sel, cs[k-1]); next >= 0 && old.count(next) > 0 {
			next++
		} else {
			next = -1
		}
	}
	if next >= 0 {
		d.copy(old, next, len(old.offsets))
	}
	return d.clone(), nil
}

// digestChunks decodes chunks of series i and adds them to d.
func (s *Reader) digestChunks(sel *selection.Selection, d *Digests, cs []selection.Chunk, i int) error {
	s.buf.Reset()
	in, err := s.more(sel, i, cs, true)
	if err != nil {
		return err
	}
	ts, vs := in.Times.Own, in.Values
	for _, c := range cs {
		n := int(c.Samples)
		if s.buf.Marked { // some are left out
			n = notAfter(ts, c.MaxT)
		}
		d.addChunk(weak.Make(sel.Slab(int(c.Slab))), c.Off)
		d.add(vs[:n])
		ts, vs = ts[n:], vs[n:]
	}
	return nil
}

// addChunk adds a chunk in a slab.
func (d *Digests) addChunk(slab weak.Pointer[selection.Slab], offset uint32) {
	d.offsets = append(d.offsets, offset)
	if n := len(d.slabs); n == 0 || d.slabs[n-1].slab != slab {
		d.slabs = append(d.slabs, slabRange{slab: slab})
	}
	d.slabs[len(d.slabs)-1].end = len(d.offsets)
}

// add adds the values of the chunk that was added.
func (d *Digests) add(vs []float64) {
	all, last := d.counts[samples][len(d.offsets)-1], 0.0
	d.counts[samples] = append(d.counts[samples], all+uint32(len(vs)))
	if all > 0 {
		last = d.values[lasts][len(d.offsets)-2]
	} else if len(vs) > 0 {
		last = vs[0] // there is none before it
	}
	changed := uint32(0)
	for i, v := range vs {
		if v < last && d.kind == Falls {
			d.falls.add(all+uint32(i), last)
		}
		if v != last && (v == v || last == last) { // NaN is no other than NaN
			changed++
		}
		last = v
	}
	d.values[lasts] = append(d.values[lasts], last)
	if d.kind == Changes {
		d.counts[changes] = append(d.counts[changes], d.counts[changes][len(d.offsets)-1]+changed)
	}
	if d.kind == Extremes {
		least, most := last, last // of none, a value that others are no more extreme than
		if len(vs) > 0 {
			least, most = Extreme(vs, true), Extreme(vs, false)
		}
		d.values[leasts], d.values[mosts] = append(d.values[leasts], least), append(d.values[mosts], most)
	}
	if d.kind == Sums {
		d.sums.add(len(d.offsets)-1, vs)
	}
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

// add adds a sample that is less than the one before.
func (f *falls) add(at uint32, before float64) {
	if f.many = f.many || len(f.at) >= mostFalls(at); f.many {
		f.at, f.before = nil, nil
		return
	}
	f.at, f.before = append(f.at, at), append(f.before, before)
}

// copy adds what old knows of its chunks from to to, the end excluded.
func (d *Digests) copy(old *Digests, from, to int) {
	if from >= to {
		return
	}
	first, at := len(d.offsets), from
	for _, r := range old.slabs {
		for ; at < min(r.end, to); at++ {
			d.addChunk(r.slab, old.offsets[at])
		}
	}
	more := d.counts[samples][first] - old.counts[samples][from] // if it is below zero, it overflows twice
	begin, end := old.fallsBetween(from, to)
	for k := begin; k < end; k++ {
		d.falls.add(old.falls.at[k]+more, old.falls.before[k])
	}
	if d.falls.many = d.falls.many || old.falls.many; d.falls.many {
		d.falls = falls{many: true}
	}
	for kind, counts := range old.counts {
		if len(counts) > to {
			more := d.counts[kind][first] - counts[from]
			for _, n := range counts[from+1 : to+1] {
				d.counts[kind] = append(d.counts[kind], n+more)
			}
		}
	}
	for kind, values := range old.values {
		if len(values) >= to {
			d.values[kind] = append(d.values[kind], values[from:to]...)
		}
	}
	if d.kind == Sums {
		d.sums.copy(&old.sums, from, to, first)
	}
}

// clone copies d into memory of its size.
func (d *Digests) clone() *Digests {
	out := &Digests{slabs: slices.Clone(d.slabs), offsets: slices.Clone(d.offsets), kind: d.kind, falls: d.falls, sums: d.sums}
	for kind := range d.counts {
		out.counts[kind] = slices.Clone(d.counts[kind])
	}
	for kind := range d.values {
		out.values[kind] = slices.Clone(d.values[kind])
	}
	out.falls.at, out.falls.before = slices.Clone(d.falls.at), slices.Clone(d.falls.before)
	out.sums.upTo = slices.Clone(d.sums.upTo)
	return out
}

// sizeOf is the memory in bytes that digests like d take of a number of chunks.
func (d *Digests) sizeOf(chunks int) int64 {
	each := int64(16) // its place, samples and last value
	if d.kind == Changes {
		each += 4
	}
	if d.kind == Extremes {
		each += 16
	}
	if d.kind == Sums {
		each += int64(unsafe.Sizeof(exact.Int192{}))
	}
	size := int64(unsafe.Sizeof(account{})+unsafe.Sizeof(*d)) + int64(len(d.slabs))*int64(unsafe.Sizeof(slabRange{}))
	return size + int64(chunks)*each + 12*int64(len(d.falls.at)) + 4*int64(len(d.sums.odd))
}

// living is the first chunk whose slab is in use. Those before will not be asked for again.
func (d *Digests) living() (from int) {
	for _, r := range d.slabs {
		if r.slab.Value() != nil {
			break
		}
		from = r.end
	}
	return from
}
