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

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Key encodes a set of matchers: equal sets, in any order and with any
// repetitions, give equal keys, and different sets different ones.
func Key(matchers []*labels.Matcher) string {
	ms := slices.Clone(matchers)
	slices.SortFunc(ms, compareMatchers)
	ms = slices.CompactFunc(ms, func(a, b *labels.Matcher) bool { return compareMatchers(a, b) == 0 })
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
