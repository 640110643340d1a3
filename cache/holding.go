package cache

import (
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
	h := selection.Holding{Sel: e.sel, Covered: e.covered.Pairs(), Now: q.at.Now, Sources: map[string]int64{}}
	if e.sel == nil && s.wider.sel != nil {
		h.Sel, h.Narrow, h.Covered = s.wider.sel, true, s.wider.entry.covered.Pairs()
	}
	for _, p := range parts {
		p.To = min(p.To, q.at.Now+1)
		if p.Empty() {
			continue
		}
		h.Sources[p.from.String()] += max(0, min(p.To, a.MaxT+1)-max(p.From, a.MinT))
		if p.from == fromUpstream {
			h.Fetched += p.To - p.From
		}
	}
	return []selection.Holding{h}
}
