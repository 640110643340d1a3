package cache

import (
	"math"
	"sync/atomic"

	"github.com/promwarp/promwarp/selection"
)

// Every flight has a revision of its own, which the tiles that it brings have as
// long as they are kept. So tiles that were fetched again, because they were too
// old, dropped or evicted, or that come from disk or a wider selector, have another
// one than before, whether or not their samples have changed.

// revisions is the last revision given away, in all caches.
var revisions atomic.Uint64

// revised returns cs with the given revision.
func (cs coverage) revised(revision uint64) coverage {
	var out coverage
	for _, c := range cs {
		c.revision = revision
		out = out.append(c)
	}
	return out
}

// from returns sel, which has of the stretches what is kept of the selector with the
// given key, with that as its provenance.
func (cs coverage) from(key string, sel *selection.Selection) *selection.Selection {
	if len(cs) == 0 {
		return sel
	}
	p := &selection.Provenance{Selector: key, Settled: make([]selection.Settled, len(cs))}
	for i, c := range cs {
		p.Settled[i] = selection.Settled{From: c.from, To: c.to, Revision: c.revision}
	}
	return sel.From(p)
}

// untouched is what a selection joined from what was kept and what the flights
// brought has of the former alone. Chunks of the latter may reach back into it, with
// samples that the upstream has got since.
func (l *lookup) untouched() coverage {
	left := l.left()
	for _, f := range l.flights {
		left = left.without(extent(f.sel))
	}
	return left
}

// brought is what a flight's own selection has of what is kept of it.
func (f *flight) brought() coverage {
	if len(f.ws) > 0 {
		return nil // nothing is
	}
	return f.has.within(f.kept(), math.MinInt64)
}

// extent is the span from the start of sel's earliest chunk to the end of its
// latest.
func extent(sel *selection.Selection) span {
	s := span{math.MaxInt64, math.MinInt64}
	for i := range sel.NumSeries() {
		cs := sel.Chunks(i)
		s.from, s.to = min(s.from, cs[0].MinT), max(s.to, cs[len(cs)-1].MaxT+1)
	}
	return s
}
