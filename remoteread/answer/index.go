package answer

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/promwarp/promwarp/remoteread/external"
	"github.com/promwarp/promwarp/remoteread/wire"
)

// finder makes out the series of the answer to one question. A series that is expected is known by
// its bytes, and has the labels that are there already.
type finder struct {
	maker     wire.LabelMaker
	view      *external.View // or nil
	asked     selector       // expected series are known to be of it
	sorts     bool           // whether labels may come in any order
	expected  index
	walked    []wire.Label
	overwrite labels.Labels // those that were looked for last
}

// begin begins with what p asks for.
func (f *finder) begin(p *Part) {
	f.view, f.asked, f.expected = p.View, newSelector(p.Asked, p.View == nil), index{series: p.Expected.Series}
}

// find returns the labels of a prompb.TimeSeries or prompb.ChunkedSeries, its number among the expected
// ones or -1, and the fields behind the labels.
func (f *finder) find(series []byte) (l labels.Labels, number int, rest []byte, err error) {
	if !f.view.Adds() {
		if i, n := f.expected.match(series); i >= 0 {
			return f.expected.series[i], i, series[n:], nil
		}
	}
	f.walked = f.walked[:0]
	for rest = series; len(rest) > 0 && rest[0] == labelTag; {
		field, n, err := wire.FirstField(rest, "a series")
		if err != nil {
			return l, -1, nil, err
		}
		label, err := wire.WalkLabel(field.Bytes)
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
	if len(f.expected.series) > 0 && f.maker.Overwrite(ls, &f.overwrite) {
		if i := f.expected.find(f.overwrite); i >= 0 {
			return f.expected.series[i], i, rest, nil
		}
	}
	if f.sorts {
		slices.SortStableFunc(ls, func(a, b wire.Label) int { return bytes.Compare(a.Name, b.Name) })
	}
	if l, err = f.maker.Make(ls); err == nil {
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

// lookAhead is how many series that are likely to come next are looked at before all
// others. More than one, as series end.
const lookAhead = 3

// match returns the number of the series whose labels the given prompb.TimeSeries or
// prompb.ChunkedSeries starts with, if it is one of those that are likely to come next,
// and how many bytes the labels take; or -1.
func (x *index) match(wire []byte) (i, n int) {
	for i := x.next; i < min(x.next+lookAhead, len(x.series)); i++ {
		if n := startsWith(wire, x.series[i]); n > 0 {
			x.next = i + 1
			return i, n
		}
	}
	return -1, 0
}

// find returns the number of the series with the given labels, or -1. Of two with the same hash it
// finds one.
func (x *index) find(l labels.Labels) int {
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
	x.next = i + 1
	return i
}

var errDiffer = errors.New("labels differ")

// startsWith returns how many bytes the labels take that wire starts with, if they are l
// and each is encoded in the usual way, and otherwise 0.
func startsWith(wire []byte, l labels.Labels) int {
	at := 0
	err := l.Validate(func(l labels.Label) error {
		n, m := len(l.Name), len(l.Value)
		b := wire[at:]
		if n+m+4 > 0x7f || len(b) < n+m+6 || b[0] != labelTag || b[1] != byte(n+m+4) || b[2] != 0x0a || b[3] != byte(n) ||
			string(b[4:4+n]) != l.Name || b[4+n] != 0x12 || b[5+n] != byte(m) || string(b[6+n:6+n+m]) != l.Value {
			return errDiffer
		}
		at += n + m + 6
		return nil
	})
	if err != nil || at < len(wire) && wire[at] == labelTag { // another label
		return 0
	}
	return at
}

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
