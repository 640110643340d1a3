package answer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
	"unsafe"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/protobuf/encoding/protowire"
)

// finder makes out the series of the answer to one question. A series that is expected has the labels
// that are there already.
type finder struct {
	scratch   labels.ScratchBuilder
	view      *View    // or nil
	asked     selector // expected series are known to be of it
	sorts     bool     // whether labels may come in any order
	expected  index
	walked    []label
	overwrite labels.Labels // the labels that were looked for last
}

func newFinder(p *Part, sorts bool) finder {
	f := finder{
		scratch: labels.NewScratchBuilder(0), view: p.View, sorts: sorts,
		asked: newSelector(p.Asked, p.View == nil), expected: index{series: p.Expected.Series},
	}
	f.scratch.SetUnsafeAdd(true) // what it is given lies in an answer and is copied
	return f
}

// find returns the labels of a prompb.TimeSeries or prompb.ChunkedSeries, its number among the expected
// ones or -1, and the fields behind the labels.
func (f *finder) find(series []byte) (l labels.Labels, number int, rest []byte, err error) {
	f.walked = f.walked[:0]
	var field Field
	for rest = series; len(rest) > 0 && rest[0] == labelTag; {
		n, err := field.read(rest, "a series")
		if err != nil {
			return l, -1, nil, err
		}
		label, err := walkLabel(field.Bytes)
		if err != nil {
			return l, -1, nil, err
		}
		f.walked, rest = append(f.walked, label), rest[n:]
	}
	ls := f.walked
	if f.view.Adds() {
		if ls, err = f.view.Strip(ls); err != nil {
			return l, -1, nil, err
		}
	}
	if len(f.expected.series) > 0 && f.overwritten(ls) {
		if i := f.expected.find(f.overwrite); i >= 0 {
			return f.expected.series[i], i, rest, nil
		}
	}
	if f.sorts {
		slices.SortStableFunc(ls, func(a, b label) int { return bytes.Compare(a.Name, b.Name) })
	}
	if l, err = f.make(ls); err == nil {
		err = f.asked.check(ls)
	}
	return l, -1, rest, err
}

// labelTag begins a label in a series.
const labelTag = 1<<3 | byte(protowire.BytesType)

// errLate is for a label behind samples or chunks. All that write protobuf write fields in order.
var errLate = errors.New("a series has a label behind its samples")

// index finds expected series by their labels, in whatever order they come.
type index struct {
	series  []labels.Labels
	next    int            // number of the series that is likely to come next
	numbers map[uint64]int // by hash; nil until it is needed
}

// find returns the number of the series with the given labels, or -1. Of two with the same hash it
// finds one.
func (x *index) find(l labels.Labels) int {
	if x.next >= len(x.series) || !labels.Equal(x.series[x.next], l) {
		if x.numbers == nil {
			x.numbers = make(map[uint64]int, len(x.series))
			for i, l := range x.series {
				x.numbers[l.Hash()] = i
			}
		}
		i, ok := x.numbers[l.Hash()]
		if !ok || !labels.Equal(x.series[i], l) {
			return -1
		}
		x.next = i
	}
	x.next++
	return x.next - 1
}

// selector checks that the series of one answer are among the series that were asked for.
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
// of the series that were asked for.
func (s *selector) check(ls []label) error {
	for i := range s.matchers {
		m := &s.matchers[i]
		var value []byte
		if k := slices.IndexFunc(ls, func(l label) bool { return string(l.Name) == m.Name }); k >= 0 {
			value = ls[k].Value
		}
		if m.Matches(stringOf(value)) {
			m.lacked = m.lacked || len(value) == 0
			if m.asAdded == nil || len(value) > 0 {
				continue
			}
		} else if s.added && m.mayBeAdded(value) {
			continue
		}
		return &UnaskedError{series: describe(ls), by: s.String(), External: m.Matches("")}
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
	return inBraces(len(s.matchers), func(i int) string {
		m := s.matchers[i]
		return fmt.Sprintf("%s%s%q", short([]byte(m.Name)), m.Type, short([]byte(m.Value)))
	})
}

// UnaskedError is for an answer with a series that was not asked for.
type UnaskedError struct {
	series, by string
	External   bool // whether that may be so because of an external label
}

func (e *UnaskedError) Error() string {
	return fmt.Sprintf("series %s does not match %s, which was asked for", e.series, e.by)
}

// label is a label as it lies in an answer.
type label struct{ Name, Value []byte }

// walkLabel goes through a prompb.Label.
func walkLabel(b []byte) (l label, err error) {
	for f, err := range typed(b, "a label", protowire.BytesType, protowire.BytesType) {
		switch {
		case err != nil:
			return l, err
		case f.Num == 1:
			l.Name = f.Bytes
		default:
			l.Value = f.Bytes
		}
	}
	return l, nil
}

// make makes labels of ls, which it checks.
func (f *finder) make(ls []label) (labels.Labels, error) {
	f.scratch.Reset()
	for i, l := range ls {
		if err := checkLabel(stringOf(l.Name), stringOf(l.Value)); err != nil {
			return labels.Labels{}, fmt.Errorf("series %s: %w", describe(ls), err)
		}
		if i > 0 {
			switch prev := ls[i-1].Name; strings.Compare(stringOf(prev), stringOf(l.Name)) {
			case 0:
				return labels.Labels{}, fmt.Errorf("series %s: label %q appears twice", describe(ls), l.Name)
			case 1:
				return labels.Labels{}, fmt.Errorf("series %s: labels are not sorted: %q comes after %q", describe(ls), l.Name, prev)
			}
		}
		f.scratch.Add(stringOf(l.Name), stringOf(l.Value))
	}
	return f.scratch.Labels(), nil
}

// overwritten makes out what ls are, unchecked, in memory that the next call uses again.
// It does not if one is too long.
func (f *finder) overwritten(ls []label) bool {
	f.scratch.Reset()
	for _, l := range ls {
		if len(l.Name) > maxLabel || len(l.Value) > maxLabel {
			return false
		}
		f.scratch.Add(stringOf(l.Name), stringOf(l.Value))
	}
	f.scratch.Overwrite(&f.overwrite)
	return true
}

// maxLabel is the most bytes of a label's name or value that labels.Labels can
// hold; it panics on longer ones.
const maxLabel = 1<<24 - 1

// checkLabel checks one label as Prometheus does on what it reads.
func checkLabel(name, value string) error {
	switch {
	case name == "":
		return errors.New("a label has no name")
	case len(name) > maxLabel || len(value) > maxLabel:
		return fmt.Errorf("label %q is longer than %d bytes", short([]byte(name)), maxLabel)
	case !utf8.ValidString(name):
		return fmt.Errorf("label name %q is not valid UTF-8", name)
	case !utf8.ValidString(value):
		return fmt.Errorf("the value of label %q is not valid UTF-8", name)
	case name == model.MetricNameLabel && value == "":
		return errors.New("the metric name is empty")
	}
	return nil
}

// maxSeriesText is the most bytes of a series in a message, about.
const maxSeriesText = 512

// describe is the text of labels that may not be valid.
func describe(ls []label) string {
	return inBraces(len(ls), func(i int) string { return fmt.Sprintf("%s=%q", short(ls[i].Name), short(ls[i].Value)) })
}

// inBraces is the text of n items, or of the first of very many.
func inBraces(n int, item func(i int) string) string {
	var b strings.Builder
	b.WriteByte('{')
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		if b.Len() > maxSeriesText {
			b.WriteString("…")
			break
		}
		b.WriteString(item(i))
	}
	b.WriteByte('}')
	return b.String()
}

// short is b, or the beginning of a very long one.
func short(b []byte) string {
	const most = 128
	if len(b) > most {
		return strings.ToValidUTF8(string(b[:most]), "�") + "…"
	}
	return strings.ToValidUTF8(string(b), "�")
}

// stringOf is b as a string that shares its bytes.
func stringOf(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
