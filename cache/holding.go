package cache

import (
	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
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
	h := selection.Holding{Sel: e.sel, Sources: map[string]int64{}}
	covered, asked := e.covered, tile.Span{From: a.MinT, To: min(a.MaxT, q.at.Now) + 1}
	if e.sel == nil && s.wider.sel != nil {
		h.Sel, h.Matchers, covered = s.wider.sel, a.Matchers, s.wider.entry.covered
	}
	h.MinT, h.MaxT, h.Asked = asked.From, asked.To-1, asked.To-asked.From
	if within := covered.Within(asked); len(within) > 0 {
		covered = within
	} else {
		h.MinT, h.MaxT = tile.MinTime, tile.MaxTime
	}
	for _, c := range covered {
		h.Held += c.To - c.From
	}
	for _, p := range parts {
		p.To = min(p.To, q.at.Now+1)
		if p.Empty() {
			continue
		}
		within := p.And(asked)
		h.Sources[p.from.String()] += max(0, within.To-within.From)
		if p.from == fromUpstream {
			h.Fetched += p.To - p.From
		}
	}
	return []selection.Holding{h}
}
