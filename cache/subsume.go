package cache

import (
	"slices"

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

// Answerer is what an Upstream may also be: one that matches selectors with the
// labels that series have, but for external labels that it adds to all of them as
// a Prometheus does. Only its selectors are answered from wider ones. What joins
// the series of several sources, each with external labels of its own, is none.
type Answerer interface {
	// Answers reports whether the selector is answered at all; for others there
	// is nothing, whatever the upstream has.
	Answers(matchers []*labels.Matcher) bool
}

// superset finds an entry that covers something of what is missing for a selector
// and matches all that it does, and what it covers of it. The cache's mutex must
// be held.
func (c *Cache) superset(e *entry, missing tile.Spans, m tile.Moment) (from *entry, has tile.Coverage) {
	if !c.answers(e) {
		return nil, nil
	}
	var most int64
	for _, name := range slices.Compact([]string{matching.FixedName(e.matchers), ""}) {
		for w := range c.byName[name] {
			if w == e || w.sel == nil || w.sel.NumSeries() > maxSubsumed {
				continue
			}
			var both tile.Coverage
			for _, s := range missing {
				both = append(both, w.covered.Usable(m).Old().Within(s, m.Oldest)...)
			}
			n := both.All().Tiles(c.tile)
			if n > most && matching.ImpliesAll(e.matchers, w.matchers) && c.answers(w) {
				from, has, most = w, both, n
			}
		}
	}
	return from, has
}

func (c *Cache) answers(e *entry) bool {
	a, ok := c.up.(Answerer)
	return ok && a.Answers(e.matchers)
}

// lacks reports whether some kept series is known to lack a label. It looks at
// two of each selector.
func (c *Cache) lacks(name string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.entries {
		if e.sel == nil || e.sel.NumSeries() == 0 {
			continue
		}
		if !e.sel.Labels(0).Has(name) || !e.sel.Labels(e.sel.NumSeries()-1).Has(name) {
			return true
		}
	}
	return false
}
