package cache

import (
	"slices"

	commonmodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/selection"
)

// A selector is answered from what is kept of a wider one where that is certain
// to be what the upstream would answer: where every series that the narrow one
// matches is matched by the wide one, too. Then its series are those of the wide
// one whose labels it matches.

// maxSubsumed is the most series of a wide selection that are looked through for
// a narrow one: beyond that fetching may be faster.
const maxSubsumed = 500_000

// Answerer is what an Upstream may also be: one that answers only some selectors
// and for others returns nothing, whatever it has.
type Answerer interface {
	Answers(matchers []*labels.Matcher) bool
}

// wider finds an entry that covers something of what is missing for a selector
// and matches all that it does, and what it covers of it. The cache's mutex must
// be held.
func (c *Cache) wider(e *entry, missing spans, oldest int64) (from *entry, has coverage) {
	if a, ok := c.up.(Answerer); ok && !a.Answers(e.matchers) {
		return nil, nil
	}
	var most int64
	for _, name := range slices.Compact([]string{fixedName(e.matchers), ""}) {
		for w := range c.byName[name] {
			if w == e || w.sel == nil || w.sel.NumSeries() > maxSubsumed {
				continue
			}
			var both coverage
			for _, s := range missing {
				both = append(both, w.covered.within(s, oldest)...)
			}
			n := both.all().tiles(c.tile)
			if n > most && impliesAll(e.matchers, w.matchers) && c.answers(w) {
				from, has, most = w, both, n
			}
		}
	}
	return from, has
}

func (c *Cache) answers(e *entry) bool {
	a, ok := c.up.(Answerer)
	return !ok || a.Answers(e.matchers)
}

// fixedName is the metric name that matchers fix, or empty if they do not.
func fixedName(ms []*labels.Matcher) string {
	for _, m := range ms {
		if m.Name == commonmodel.MetricNameLabel && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}

// impliesAll reports whether it is certain that whatever narrow matches is
// matched by wide.
func impliesAll(narrow, wide []*labels.Matcher) bool {
	for _, w := range wide {
		if !slices.ContainsFunc(narrow, func(n *labels.Matcher) bool { return implies(n, w) }) && !matchesAll(w) {
			return false
		}
	}
	return true
}

// implies reports whether it is certain that every value that n matches is
// matched by w, and both are of the same label.
func implies(n, w *labels.Matcher) bool {
	if n.Name != w.Name {
		return false
	}
	switch {
	case n.Type == w.Type && n.Value == w.Value:
		return true
	case n.Type == labels.MatchEqual:
		return w.Matches(n.Value)
	case n.Type == labels.MatchRegexp && len(n.SetMatches()) > 0:
		return !slices.ContainsFunc(n.SetMatches(), func(v string) bool { return !w.Matches(v) })
	case w.Type == labels.MatchNotEqual && w.Value == "", w.Type == labels.MatchRegexp && w.Value == ".+":
		return !n.Matches("")
	case w.Type == labels.MatchNotEqual:
		return !n.Matches(w.Value)
	}
	return false
}

// matchesAll reports whether it is certain that m matches every value.
func matchesAll(m *labels.Matcher) bool {
	return m.Type == labels.MatchRegexp && m.Value == ".*"
}

// narrowed returns the series of sel, which is what wide matched, that narrow
// matches, and whether it is certain that they are what the upstream would give.
//
// A Prometheus adds its external labels to every series that it returns, after
// it has matched: of the matchers of such a label it takes out one that fixes it
// to the value that it has, and has others match series that lack it. So where
// the two selectors differ by more than a fixed value, the label must be known
// not to be external: series have different values of it, or lack it.
func narrowed(sel *selection.Selection, narrow, wide []*labels.Matcher) (*selection.Selection, bool) {
	var watched []*watched
	watch := func(m *labels.Matcher, filters, fixed bool) {
		watched = append(watched, newWatched(m, filters, fixed || m.Name == commonmodel.MetricNameLabel))
	}
	for _, n := range narrow {
		if !containsMatcher(wide, n) {
			watch(n, true, n.Type == labels.MatchEqual && n.Value != "")
		}
	}
	for _, w := range wide {
		if !containsMatcher(narrow, w) && !matchesAll(w) {
			watch(w, false, false)
		}
	}
	out := sel.Filter(func(l labels.Labels) bool {
		matches := true
		for _, m := range watched {
			matches = m.matches(l.Get(m.Name)) && matches
		}
		return matches
	})
	for _, m := range watched {
		if !m.known {
			return nil, false
		}
	}
	return out, true
}

func containsMatcher(ms []*labels.Matcher, m *labels.Matcher) bool {
	return slices.ContainsFunc(ms, func(o *labels.Matcher) bool { return compareMatchers(o, m) == 0 })
}

// watched is a matcher and what is known of its label. It remembers its last
// answer, as series in order have the same value again and again.
type watched struct {
	*labels.Matcher
	filters bool // whether series that it does not match are left out
	known   bool // whether it is certain that it is matched as here
	asked   bool
	last    string
	was     bool
}

func newWatched(m *labels.Matcher, filters, known bool) *watched {
	return &watched{Matcher: m, filters: filters, known: known}
}

// matches sees the value of a series and says whether the series is to be kept.
func (m *watched) matches(value string) bool {
	if m.asked && value == m.last {
		return m.was
	}
	m.known = m.known || m.asked // the value differs from the one before
	m.asked, m.last, m.was = true, value, !m.filters || m.Matches(value)
	return m.was
}
