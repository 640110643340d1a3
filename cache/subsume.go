package cache

import (
	"slices"
	"strings"

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

// Answerer is what an Upstream may also be: one that matches selectors with the
// labels that series have, but for external labels that it adds to all of them as
// a Prometheus does. Only its selectors are answered from wider ones. What joins
// the series of several sources, each with external labels of its own, is none.
type Answerer interface {
	// Answers reports whether the selector is answered at all; for others there
	// is nothing, whatever the upstream has.
	Answers(matchers []*labels.Matcher) bool
}

// wider finds an entry that covers something of what is missing for a selector
// and matches all that it does, and what it covers of it. The cache's mutex must
// be held.
func (c *Cache) wider(e *entry, missing spans, m moment) (from *entry, has coverage) {
	if !c.answers(e) {
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
				both = append(both, w.covered.usable(m).old().within(s, m.oldest)...)
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
	return ok && a.Answers(e.matchers)
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
		if !slices.ContainsFunc(narrow, func(n *labels.Matcher) bool { return implies(n, w) }) {
			return false
		}
	}
	return true
}

// implies reports whether it is certain that every value that n matches is
// matched by w, and both are of the same label. Whether a dot matches a newline
// depends on the version of a Prometheus, so nothing is certain of values with one.
func implies(n, w *labels.Matcher) bool {
	if n.Name != w.Name {
		return false
	}
	matched := func(v string) bool { return w.Matches(v) && !hasNewline(v) }
	switch {
	case sameMatcher(n, w):
		return true
	case n.Type == labels.MatchEqual:
		return matched(n.Value)
	case n.Type == labels.MatchRegexp && len(n.SetMatches()) > 0:
		return !slices.ContainsFunc(n.SetMatches(), func(v string) bool { return !matched(v) })
	case w.Type == labels.MatchNotEqual:
		return !n.Matches(w.Value) && !hasNewline(w.Value)
	}
	return false
}

func hasNewline(v string) bool { return strings.Contains(v, "\n") }

// narrowed returns the series of sel, which is what wide matched, that narrow
// matches, and whether it is certain that they are what the upstream would give.
//
// A Prometheus matches series by the labels that it has stored and then adds its
// external labels to all that lack them. A matcher that fixes one to the value
// that it has is made to match series that lack it, and comes to the same here;
// others do not. So of any other matcher that only one of the two selectors has,
// the label must be known not to be external: some series from the same upstream
// lacks it. lacks says whether one outside of sel is known.
func narrowed(sel *selection.Selection, narrow, wide []*labels.Matcher, lacks func(name string) bool) (*selection.Selection, bool) {
	doubts := map[string]struct{}{} // labels that may be external
	doubt := func(name string) {
		if _, ok := doubts[name]; !ok && name != commonmodel.MetricNameLabel && !lacks(name) {
			doubts[name] = struct{}{}
		}
	}
	var filters []*filter
	for _, n := range narrow {
		if !containsMatcher(wide, n) {
			filters = append(filters, &filter{Matcher: n})
			if n.Type != labels.MatchEqual || n.Value == "" {
				doubt(n.Name)
			}
		}
	}
	for _, w := range wide {
		if !containsMatcher(narrow, w) && (w.Type != labels.MatchRegexp || w.Value != ".*") {
			doubt(w.Name)
		}
	}
	certain := true
	out := sel.Filter(func(l labels.Labels) bool {
		for name := range doubts {
			if !l.Has(name) {
				delete(doubts, name)
			}
		}
		matches := true
		for _, f := range filters {
			v := l.Get(f.Name)
			certain = certain && (f.Type == labels.MatchEqual || !hasNewline(v))
			matches = matches && f.matches(v)
		}
		return matches
	})
	return out, certain && len(doubts) == 0
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

func containsMatcher(ms []*labels.Matcher, m *labels.Matcher) bool {
	return slices.ContainsFunc(ms, func(o *labels.Matcher) bool { return sameMatcher(o, m) })
}

func sameMatcher(a, b *labels.Matcher) bool { return compareMatchers(a, b) == 0 }

// filter is a matcher that remembers its last answer, as series in order have the
// same value again and again.
type filter struct {
	*labels.Matcher
	asked bool
	last  string
	was   bool
}

func (f *filter) matches(value string) bool {
	if !f.asked || value != f.last {
		f.asked, f.last, f.was = true, value, f.Matches(value)
	}
	return f.was
}
