package answer

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/remoteread/wire"
)

// selector checks that the series of one answer are among those that were asked for.
type selector struct {
	matchers []matcher
	// added says that the store may have added labels after it matched series, which are
	// not known. Then a label that a series may have got so need not match.
	added bool
}

// matcher is one matcher and what may have been added.
type matcher struct {
	*labels.Matcher
	asAdded []byte // the one value that does not match and that the store may have added
	lacked  bool   // whether a series had no such label, so that it is none that is added
}

func newSelector(ms []*labels.Matcher, added bool) selector {
	s := selector{added: added, matchers: make([]matcher, len(ms))}
	for i, m := range ms {
		s.matchers[i].Matcher = m
	}
	return s
}

// check returns an error if the series with labels ls, which have different names, is none
// of those that were asked for.
func (s *selector) check(ls []wire.Label) error {
	for i := range s.matchers {
		m := &s.matchers[i]
		var value []byte
		if k := slices.IndexFunc(ls, func(l wire.Label) bool { return string(l.Name) == m.Name }); k >= 0 {
			value = ls[k].Value
		}
		if m.Matches(wire.String(value)) {
			m.lacked = m.lacked || len(value) == 0
			if m.asAdded == nil || len(value) > 0 {
				continue
			}
		} else if s.added && m.mayBeAdded(value) {
			continue
		}
		return &UnaskedError{series: wire.Describe(ls), by: s.String(), External: m.Matches("")}
	}
	return nil
}

// mayBeAdded reports whether the store may have added the label with that value after it
// found that the series, which lacked it, matches. What it adds it adds to all series, and
// the same value.
func (m *matcher) mayBeAdded(value []byte) bool {
	if m.Name == model.MetricNameLabel || m.lacked || !m.Matches("") || m.asAdded != nil && !bytes.Equal(m.asAdded, value) {
		return false
	}
	if m.asAdded == nil {
		m.asAdded = append([]byte{}, value...)
	}
	return true
}

// String is the selector as PromQL has it, or the beginning of a very long one.
func (s *selector) String() string {
	var b strings.Builder
	b.WriteByte('{')
	for i, m := range s.matchers {
		if i > 0 {
			b.WriteString(", ")
		}
		if b.Len() > wire.MaxSeriesText {
			b.WriteString("…")
			break
		}
		fmt.Fprintf(&b, "%s%s%q", wire.Short([]byte(m.Name)), m.Type, wire.Short([]byte(m.Value)))
	}
	b.WriteByte('}')
	return b.String()
}

// UnaskedError is for an answer with a series that was not asked for.
type UnaskedError struct {
	series, by string
	External   bool // whether that may be so because of an external label
}

func (e *UnaskedError) Error() string {
	return fmt.Sprintf("series %s does not match %s, which was asked for", e.series, e.by)
}
