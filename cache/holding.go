package cache

import (
	"math"
	"time"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/selection"
)

// Holdings implements selection.Keeper. It is no use of what is kept, and makes no entry.
func (r *reader) Holdings(a selection.Ask, most int) []selection.Holding {
	c := r.c
	q := question{Span: between(a.MinT, a.MaxT), matchers: a.Matchers, key: matching.Key(a.Matchers), at: c.moment()}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[q.key]
	if e == nil {
		e = &entry{key: q.key, matchers: a.Matchers, name: matching.FixedName(a.Matchers)}
	}
	s := c.state(e, &q, min(most, maxWider))
	parts, _ := need(&q, s)
	h := selection.Holding{Sel: e.sel, Covered: e.covered.Pairs(), Now: q.at.Now}
	if e.sel == nil && s.wider.sel != nil {
		h.Sel, h.Narrow, h.Covered = s.wider.sel, true, s.wider.entry.covered.Pairs()
	}
	for _, p := range parts {
		if p.To = min(p.To, q.at.Now+1); !p.Empty() {
			h.Parts = append(h.Parts, selection.HoldingPart{From: p.From, To: p.To, Source: p.from.String()})
		}
	}
	learned := c.pace
	h.Fetching = learned.expect
	return []selection.Holding{h}
}

// pace is how long fetches were measured to take, by their size: as a logarithm, compared with a
// millisecond and 10 ns a byte. The cache's mutex guards it.
type pace struct {
	off  [paceSizes]float64
	seen [paceSizes]bool
}

const (
	paceSizes  = 16
	paceSize   = 4 // each size is so many times as large as the one before
	paceWeight = 0.25
	// paceOutlier is how many times as long as expected a fetch may take before it counts no more for
	// it.
	paceOutlier = 4
)

// sizeOf is the size of a fetch.
func (p *pace) sizeOf(work float64) int {
	return int(min(paceSizes-1, math.Log(max(work, 1))/math.Log(paceSize)))
}

// observe notes a fetch.
func (p *pace) observe(work float64, took time.Duration) {
	log := math.Log(max(1, float64(took)) / float64(p.expect(work)))
	size, most := p.sizeOf(work), math.Log(paceOutlier)
	if !p.seen[size] {
		p.off[size], p.seen[size] = p.nearest(size), true
	}
	p.off[size] += paceWeight * max(-most, min(most, log))
}

// nearest is what was learned of the size that is nearest of all that were seen.
func (p *pace) nearest(size int) float64 {
	for away := range paceSizes {
		for _, k := range []int{size - away, size + away} {
			if k >= 0 && k < paceSizes && p.seen[k] {
				return p.off[k]
			}
		}
	}
	return 0
}

// expect is how long a fetch takes: of so many bytes, chunks counted (see selection.ChunkBytes).
func (p *pace) expect(work float64) time.Duration {
	return time.Duration((1e6 + 10*work) * math.Exp(p.nearest(p.sizeOf(work))))
}
