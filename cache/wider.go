package cache

import (
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
)

// A selector is answered from what is kept of a wider one where that is certain
// to be what the upstream would answer: where every series that the narrow one
// matches is matched by the wide one, too. Then its series are those of the wide
// one whose labels it matches.

// maxSubsumed is the most series of a wide selection that are looked through for
// a narrow one: beyond that fetching may be faster.
const maxSubsumed = 500_000

// maxWider is the most entries that are looked at for a wider selector. Each takes about 0.5 µs
// with the cache's mutex held. One that is not found costs a fetch, never a wrong answer.
const maxWider = 512

// Answerer is what an Upstream may also be: one that matches selectors with the
// labels that series have, but for external labels that it adds to all of them as
// a Prometheus does. Only its selectors are answered from wider ones. What joins
// the series of several sources, each with external labels of its own, is none.
type Answerer interface {
	// Answers reports whether the selector is answered at all; for others there
	// is nothing, whatever the upstream has.
	Answers(matchers []*labels.Matcher) bool
}

// supersets are what is kept of selectors that match all that e does. The cache's mutex must be held.
func (c *Cache) supersets(e *entry, m tile.Moment) (found []superset) {
	if !c.answers(e) {
		return nil
	}
	for _, w := range c.index.Wider(e.matchers, maxWider) {
		if w != e && w.sel != nil && w.sel.NumSeries() <= maxSubsumed && matching.ImpliesAll(e.matchers, w.matchers) && c.answers(w) {
			found = append(found, superset{w, w.sel, w.covered.Usable(m).Old()})
		}
	}
	return found
}

func (c *Cache) answers(e *entry) bool {
	a, ok := c.up.(Answerer)
	return ok && a.Answers(e.matchers)
}

// maxLacking is the most entries that lacks looks at. Each takes about 0.5 µs with the cache's
// mutex held.
const maxLacking = 1024

// lacks reports whether some kept series is known to lack a label. It looks at
// two series of each of some entries. One that is not found costs a fetch, never a wrong answer.
func (c *Cache) lacks(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := range c.sample(maxLacking) {
		if e.sel.NumSeries() == 0 {
			continue
		}
		if !e.sel.Labels(0).Has(name) || !e.sel.Labels(e.sel.NumSeries()-1).Has(name) {
			return true
		}
	}
	return false
}
