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
	h := selection.Holding{Sel: e.sel, Covered: e.covered.Pairs(), Now: q.at.Now, Sources: map[string]int64{}, Fetching: c.pace.expect}
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

// pace is how many times as long fetches were measured to take as a millisecond and 10 ns a byte, as
// a logarithm. The cache's mutex guards it.
type pace float64

const (
	paceWeight = 0.25 // of the newest fetch
	// paceOutlier is how many times as long as expected a fetch may take before it counts no more for
	// it.
	paceOutlier = 4
)

// observe notes a fetch.
func (p *pace) observe(bytes int64, took time.Duration) {
	off, most := math.Log(max(1, float64(took))/float64(p.expect(bytes))), math.Log(paceOutlier)
	*p += pace(paceWeight * max(-most, min(most, off)))
}

// expect is how long a fetch of that many bytes takes.
func (p pace) expect(bytes int64) time.Duration {
	return time.Duration((1e6 + 10*float64(bytes)) * math.Exp(float64(p)))
}
