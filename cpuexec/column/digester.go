package column

import (
	"math"
	"slices"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/selection"
)

// digestedAtOnce is the number of chunks that are decoded before they are digested: their samples
// fit into a core's cache.
const digestedAtOnce = 32

// digest makes digests of the chunks cs of series i, and of those before and behind them that are
// known, and retains them. It returns the index of the first of cs, and nil if there is no room.
//
// What is known of a chunk holds if the chunk comes behind the sample that it came behind. Other
// chunks are decoded. As time goes on, as many of the first are left out as there are new ones.
func (s *Reader) digest(q *Request, u use, kind Kind, cs []selection.Chunk, i int) (_ *Digests, index int, err error) {
	sel, old, d := q.Sel, u.entry.digests[kind].Load(), &Digests{kind: kind, samples: []uint32{0}}
	if !q.Set.makeRoom(d.sizeOf(len(cs)), u.before) {
		return nil, 0, nil
	}
	if old == nil {
		old = &Digests{}
	}
	d.changes, d.sums = []uint32{0}, make([]exact.Int192, 1)
	next := slices.Index(old.chunks, sel.Origin(cs[0])) // the chunk of old that may be copied behind what there is
	d.copy(old, max(0, next-max(0, len(old.chunks)-len(cs))), next)
	index = len(d.chunks)
	for k := 0; k < len(cs); {
		if n := run(old.chunks, next, sel, cs[k:]); n > 0 {
			d.copy(old, next, next+n)
			k, next = k+n, next+n
			continue
		}
		from := k
		for k++; k < len(cs) && k-from < digestedAtOnce && !slices.Contains(old.chunks, sel.Origin(cs[k])); {
			k++
		}
		if err := s.digestChunks(sel, d, cs[from:k], i); err != nil {
			return nil, 0, err
		}
		if next = slices.Index(old.chunks, sel.Origin(cs[k-1])); next >= 0 && old.samples[next] < old.samples[next+1] {
			next++
		} else {
			next = -1
		}
	}
	if next >= 0 {
		d.copy(old, next, len(old.chunks))
	}
	if d.clip(); !q.Set.retainDigests(u.entry, u.before, d) {
		return nil, 0, nil
	}
	return d, index, nil
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
		d.add(sel.Origin(c), vs[:n])
		ts, vs = ts[n:], vs[n:]
	}
	return nil
}

// mostFalls is how many falls are known of a chunk of n samples at most: of more, as gauges have, columns
// take less memory.
func mostFalls(n int) int { return 8 + n/16 }

// add adds a chunk with these values.
func (d *Digests) add(chunk selection.Origin, vs []float64) {
	n, all, falls, known, last := len(d.chunks), d.samples[len(d.chunks)], len(d.falls), true, 0.0
	switch {
	case all == 0 && len(vs) > 0:
		last = vs[0] // there is none before it
	case n > 0:
		last = d.lasts[n-1]
	}
	switch d.kind {
	case Falls:
		eachFall(last, vs, func(i int, before float64) {
			d.falls, d.before = append(d.falls, all+uint32(i)), append(d.before, before)
		})
		known = len(d.falls)-falls <= mostFalls(len(vs))
	case Changes:
		d.changes = append(d.changes, d.changes[n]+changed(last, vs))
	case Extremes:
		least, most := last, last // of none, a value that others are no more extreme than
		if len(vs) > 0 {
			least, most = extreme(vs, true), extreme(vs, false)
		}
		d.leasts, d.mosts = append(d.leasts, least), append(d.mosts, most)
	case Sums:
		for _, v := range vs {
			known = d.total.Add(v) && known
		}
		d.sums = append(d.sums, d.total.Units)
	}
	if !known {
		d.falls, d.before = append(d.falls[:falls], all), append(d.before[:falls], math.NaN())
	}
	if len(vs) > 0 {
		last = vs[len(vs)-1]
	}
	d.chunks, d.samples, d.lasts = append(d.chunks, chunk), append(d.samples, all+uint32(len(vs))), append(d.lasts, last)
}

// copy adds what old knows of its chunks from to to, the end excluded.
func (d *Digests) copy(old *Digests, from, to int) {
	if from >= to {
		return
	}
	begin, end := old.fallsBetween(from, to)
	d.before = append(d.before, old.before[begin:end]...)
	more := d.samples[len(d.chunks)] - old.samples[from] // if it is below zero, it overflows twice
	for _, at := range old.falls[begin:end] {
		d.falls = append(d.falls, at+more)
	}
	d.chunks, d.lasts = append(d.chunks, old.chunks[from:to]...), append(d.lasts, old.lasts[from:to]...)
	d.samples = further(d.samples, old.samples[from:to+1])
	switch d.kind {
	case Changes:
		d.changes = further(d.changes, old.changes[from:to+1])
	case Extremes:
		d.leasts, d.mosts = append(d.leasts, old.leasts[from:to]...), append(d.mosts, old.mosts[from:to]...)
	case Sums:
		more := d.total.Units.Sub(old.sums[from])
		for _, sum := range old.sums[from+1 : to+1] {
			d.sums = append(d.sums, sum.Add(more))
		}
		d.total.Cover(&old.total)
		d.total.Units = d.sums[len(d.chunks)]
	}
}

// further appends others to counts. Both are sums up to each chunk; those of others begin anew at their first.
func further(counts, others []uint32) []uint32 {
	more := counts[len(counts)-1] - others[0]
	for _, n := range others[1:] {
		counts = append(counts, n+more)
	}
	return counts
}

// clip copies all into memory of its size.
func (d *Digests) clip() {
	d.chunks, d.samples, d.changes = slices.Clone(d.chunks), slices.Clone(d.samples), slices.Clone(d.changes)
	d.lasts, d.leasts, d.mosts = slices.Clone(d.lasts), slices.Clone(d.leasts), slices.Clone(d.mosts)
	d.falls, d.before, d.sums = slices.Clone(d.falls), slices.Clone(d.before), slices.Clone(d.sums)
}

// sizeOf is the memory in bytes that digests like d take of a number of chunks.
func (d *Digests) sizeOf(chunks int) int64 {
	each := [kinds]int{Falls: 20, Changes: 24, Extremes: 36, Sums: 44}[d.kind]
	return int64(unsafe.Sizeof(account{})) + int64(unsafe.Sizeof(*d)) + int64(chunks*each) + 12*int64(len(d.falls))
}
