package cache

import (
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
	h.Fetching, h.FetchedByte = c.pace.line()
	return []selection.Holding{h}
}

// pace is how long fetches take: sums for a line through their bytes and seconds. The cache's mutex
// guards it.
type pace struct{ n, bytes, seconds, squares, products float64 }

const (
	// paceKept is the share of what was measured before that each fetch leaves.
	paceKept = 0.9
	// What is assumed before anything was measured, and weighs paceAssumed fetches for ever, so that
	// fetches of one size say nothing wild of others.
	paceAssumed    = 0.05
	assumedFixed   = 0.002 // seconds
	assumedLarge   = 1e6   // bytes
	assumedSeconds = 0.012 // of so many
)

// observe notes a fetch.
func (p *pace) observe(bytes int64, took time.Duration) {
	x, y := float64(bytes), took.Seconds()
	p.n, p.bytes, p.seconds = p.n*paceKept+1, p.bytes*paceKept+x, p.seconds*paceKept+y
	p.squares, p.products = p.squares*paceKept+x*x, p.products*paceKept+x*y
}

// line is what a fetch takes however small it is, and what each byte takes besides, in ns.
func (p *pace) line() (fixed time.Duration, perByte float64) {
	const w = paceAssumed
	n, x, y := p.n+2*w, p.bytes+w*assumedLarge, p.seconds+w*(assumedFixed+assumedSeconds)
	xx, xy := p.squares+w*assumedLarge*assumedLarge, p.products+w*assumedLarge*assumedSeconds
	slope := max(0, (n*xy-x*y)/(n*xx-x*x)) // seconds
	return time.Duration(max(0, (y-slope*x)/n) * 1e9), slope * 1e9
}
