// Package matching compares sets of matchers: whether they are the same, whether one implies
// another, whether both may match one series. It says yes to the first two only where that is
// certain, and no to the third likewise.
//
// Start with Key and ImpliesAll.
package matching

import (
	"cmp"
	"encoding/binary"
	"slices"
	"strings"

	commonmodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/selection"
)

// Key encodes a set of matchers: equal sets, in any order and with any
// repetitions, give equal keys, and different sets different ones.
func Key(matchers []*labels.Matcher) string {
	ms := slices.Clone(matchers)
	slices.SortFunc(ms, compareMatchers)
	ms = slices.CompactFunc(ms, sameMatcher)
	var b []byte
	for _, m := range ms {
		b = append(b, byte(m.Type))
		b = binary.AppendUvarint(b, uint64(len(m.Name)))
		b = append(b, m.Name...)
		b = binary.AppendUvarint(b, uint64(len(m.Value)))
		b = append(b, m.Value...)
	}
	return string(b)
}

func compareMatchers(a, b *labels.Matcher) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Value, b.Value))
}

func sameMatcher(a, b *labels.Matcher) bool { return compareMatchers(a, b) == 0 }

// Text is a set of matchers as PromQL writes a selector.
func Text(matchers []*labels.Matcher) string {
	return (&parser.VectorSelector{Name: FixedName(matchers), LabelMatchers: matchers}).String()
}

// Parse returns the matchers that a key encodes.
func Parse(key string) ([]*labels.Matcher, error) {
	var ms []*labels.Matcher
	text := func() (s string) {
		n, used := binary.Uvarint([]byte(key))
		if used <= 0 || n > uint64(len(key)-used) {
			key = ""
			return ""
		}
		s, key = key[used:used+int(n)], key[used+int(n):]
		return s
	}
	for key != "" {
		typ := labels.MatchType(key[0])
		key = key[1:]
		name := text()
		m, err := labels.NewMatcher(typ, name, text())
		if err != nil {
			return nil, err
		}
		ms = append(ms, m)
	}
	return ms, nil
}

// FixedName is the metric name that matchers fix, or empty if they do not.
func FixedName(ms []*labels.Matcher) string {
	for _, m := range ms {
		if m.Name == commonmodel.MetricNameLabel && m.Type == labels.MatchEqual {
			return m.Value
		}
	}
	return ""
}

// ImpliesAll reports whether it is certain that whatever narrow matches is
// matched by wide.
func ImpliesAll(narrow, wide []*labels.Matcher) bool {
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

// Narrowed returns the series of sel, which is what wide matched, that narrow
// matches, and whether it is certain that they are what the upstream would give.
//
// A Prometheus matches series by the labels that it has stored and then adds its
// external labels to all that lack them. A matcher that fixes one to the value
// that it has is made to match series that lack it, and comes to the same here;
// others do not. So of any other matcher that only one of the two selectors has,
// the label must be known not to be external: some series from the same upstream
// lacks it. lacks says whether one outside of sel is known.
func Narrowed(sel *selection.Selection, narrow, wide []*labels.Matcher, lacks func(name string) bool) (*selection.Selection, bool) {
	doubts := map[string]struct{}{} // labels that may be external
	doubt := func(name string) {
		if _, ok := doubts[name]; !ok && name != commonmodel.MetricNameLabel && !lacks(name) {
			doubts[name] = struct{}{}
		}
	}
	var filters []*labels.Matcher
	for _, n := range narrow {
		if !ContainsMatcher(wide, n) {
			filters = append(filters, n)
			if n.Type != labels.MatchEqual || n.Value == "" {
				doubt(n.Name)
			}
		}
	}
	for _, w := range wide {
		if !ContainsMatcher(narrow, w) && (w.Type != labels.MatchRegexp || w.Value != ".*") {
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
			matches = matches && f.Matches(v)
		}
		return matches
	})
	return out, certain && len(doubts) == 0
}

func ContainsMatcher(ms []*labels.Matcher, m *labels.Matcher) bool {
	return slices.ContainsFunc(ms, func(o *labels.Matcher) bool { return sameMatcher(o, m) })
}

// MeetAny reports whether some series may be matched by ms and one of the
// selectors; no selector stands for one that matches everything.
func MeetAny(ms []*labels.Matcher, selectors [][]*labels.Matcher) bool {
	return len(selectors) == 0 || slices.ContainsFunc(selectors, func(s []*labels.Matcher) bool { return mayMeet(ms, s) })
}

// mayMeet reports whether some series may be matched by both a and b. It is
// false only where that is certain: both name the same label and one of them
// fixes it to a value that the other refuses.
func mayMeet(a, b []*labels.Matcher) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Name != y.Name {
				continue
			}
			if x.Type == labels.MatchEqual && !y.Matches(x.Value) || y.Type == labels.MatchEqual && !x.Matches(y.Value) {
				return false
			}
		}
	}
	return true
}
