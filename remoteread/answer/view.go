package answer

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"
	"github.com/prometheus/prometheus/storage/remote"
	"google.golang.org/protobuf/encoding/protowire"
)

// A Prometheus adds its external labels to every series that it sends by remote read
// and that lacks them. It matches series before that, by the labels that it has stored,
// with one exception: a matcher that sets an external label equal to the value that it
// has is made to match series that lack it. A query that is sent to that Prometheus
// shows none of this, so a client undoes it:
//
//   - An equality matcher on an external label becomes a regular expression, which is
//     matched as it is.
//   - Each request asks for the series that have none of the external labels of their
//     own; these are taken off. The same request asks for series that do have one, of
//     which there are nearly always none:
//
//     query 0  {x, cluster="", room=""}   series to take cluster and room off
//     query 1  {x, cluster!=""}           must be empty
//     query 2  {x, room!=""}              must be empty
//     query 3  {witness}                  see witnessNames
//
//   - Where one is not empty, series that have that label and series that lack it are
//     fetched by requests of their own, so that each is known to be one or the other.
//   - Every series of query 0 must have all of the labels with the values that they are
//     known to have. Where the witness does not testify to that, the labels are read again
//     after the store has begun to answer. If they have changed, the fetch starts anew.

// ErrRelabelled is for an answer that was made with other external labels than known.
var ErrRelabelled = errors.New("the store's external labels are not those that were known")

// ClashError is for an answer with series that have an external label of their own.
type ClashError struct{ Label string }

func (e *ClashError) Error() string {
	return fmt.Sprintf("some series have a label %q of their own", e.Label)
}

// View is how the series of one fetch are asked for and what becomes of their labels.
type View struct {
	all      labels.Labels          // the external labels when the fetch began
	kept     labels.Labels          // those of them that series keep
	Asked    []*labels.Matcher      // what all series must match as they are shown
	Matchers []*prompb.LabelMatcher // what all series must match by the labels that are stored
	absent   []string               // external labels that the series are known to lack
	Open     []string               // external labels of which that is to be found out
	// own are matchers that series with an open label of their own must match beside.
	own map[string][]*prompb.LabelMatcher
	// witness is asked for in each request; nil for none.
	Witness *labels.Labels
}

// NewView is the view on what ms match in a store with external labels ext: series with those of them
// that are kept, and without the others.
func NewView(ext, kept labels.Labels, ms []*labels.Matcher) (*View, error) {
	v := &View{all: ext, kept: kept, Asked: ms}
	wire, err := remote.ToLabelMatchers(ms)
	if err != nil {
		return nil, err
	}
	// So that the store matches each by the labels that it has stored.
	for i, m := range wire {
		if m.Type == prompb.LabelMatcher_EQ && m.Value != "" && ext.Has(m.Name) {
			wire[i] = &prompb.LabelMatcher{Type: prompb.LabelMatcher_RE, Name: m.Name, Value: regexp.QuoteMeta(m.Value)}
		}
	}
	only := map[string]bool{} // labels that series must have of their own
	for _, m := range ms {
		// A series without the label shows the value that is kept.
		if ext.Has(m.Name) && !m.Matches(kept.Get(m.Name)) {
			only[m.Name] = true
		}
	}
	ext.Range(func(l labels.Label) {
		if !only[l.Name] {
			v.Open = append(v.Open, l.Name)
		} else if kept.Has(l.Name) {
			wire = With(wire, prompb.LabelMatcher_NEQ, l.Name, "")
		}
	})
	for _, m := range wire {
		if kept.Has(m.Name) && slices.Contains(v.Open, m.Name) {
			if v.own == nil {
				v.own = map[string][]*prompb.LabelMatcher{}
			}
			v.own[m.Name] = append(v.own[m.Name], m)
		} else {
			v.Matchers = append(v.Matchers, m)
		}
	}
	return v, nil
}

// With returns ms and one matcher more.
func With(ms []*prompb.LabelMatcher, typ prompb.LabelMatcher_Type, name, value string) []*prompb.LabelMatcher {
	return append(slices.Clip(ms), &prompb.LabelMatcher{Type: typ, Name: name, Value: value})
}

// Queries returns the queries of a request for what matches ms, which are the view's and
// perhaps more: the first for the series, the others for series that have one of the
// open labels of their own, in the order of those. A nil view has one query.
func (v *View) Queries(ms []*prompb.LabelMatcher) [][]*prompb.LabelMatcher {
	if !v.Adds() {
		return [][]*prompb.LabelMatcher{ms}
	}
	first := ms
	for _, names := range [][]string{v.absent, v.Open} {
		for _, name := range names {
			first = With(first, prompb.LabelMatcher_EQ, name, "")
		}
	}
	out := [][]*prompb.LabelMatcher{first}
	for _, name := range v.Open {
		out = append(out, v.having(name, ms))
	}
	return out
}

// NumQueries is how many queries Queries returns.
func (v *View) NumQueries() int64 {
	if !v.Adds() {
		return 1
	}
	return int64(1 + len(v.Open))
}

// having returns ms and matchers for series that have an open label of their own.
func (v *View) having(name string, ms []*prompb.LabelMatcher) []*prompb.LabelMatcher {
	return With(append(slices.Clip(ms), v.own[name]...), prompb.LabelMatcher_NEQ, name, "")
}

// Alike reports whether two views, which may be nil, are of the same external labels and witness: one
// request may be for both.
func (v *View) Alike(o *View) bool {
	if v == nil || o == nil {
		return v == o
	}
	return v.Witness == o.Witness && labels.Equal(v.all, o.all)
}

// Split returns the views on the series that lack an open label and on series that have
// it.
func (v *View) Split(name string) (lack, have *View) {
	rest := slices.DeleteFunc(slices.Clone(v.Open), func(n string) bool { return n == name })
	l, h := *v, *v
	l.absent, l.Open = append(slices.Clip(v.absent), name), rest
	h.Matchers, h.Open = v.having(name, v.Matchers), rest
	return &l, &h
}

// Clashing returns an open label that some of series, as they are to be seen, have of their own, or ""
// if none has one. Where labels are kept one of the added value does not show.
func (v *View) Clashing(series []labels.Labels) string {
	if v == nil {
		return ""
	}
	for _, name := range v.Open {
		seen := v.kept.Get(name)
		if slices.ContainsFunc(series, func(l labels.Labels) bool { return l.Get(name) != seen }) {
			return name
		}
	}
	return ""
}

// Clash is the error for series in the answer to query i of the view's queries.
func (v *View) Clash(i int64) error {
	if i < 1 || i > int64(len(v.Open)) {
		return fmt.Errorf("the answer is for query %d of a request with %d", i, 1+len(v.Open))
	}
	return &ClashError{v.Open[i-1]}
}

// Added reports whether the labels that the store adds are ext.
func (v *View) Added(ext labels.Labels) bool { return labels.Equal(ext, v.all) }

// Adds reports whether the store adds labels to the series.
func (v *View) Adds() bool { return v != nil && len(v.absent)+len(v.Open) > 0 }

// Strip takes the labels off that the store has added to a series, or leaves them if they
// are to be kept. It may change ls. It fails if they are not there.
func (v *View) Strip(ls []label) ([]label, error) {
	found := 0
	out := ls[:0]
	for _, l := range ls {
		if !slices.Contains(v.absent, stringOf(l.Name)) && !slices.Contains(v.Open, stringOf(l.Name)) {
			out = append(out, l)
			continue
		}
		if v.all.Get(stringOf(l.Name)) != stringOf(l.Value) {
			return nil, ErrRelabelled
		}
		found++
		if v.kept.Has(stringOf(l.Name)) {
			out = append(out, l)
		}
	}
	if found != len(v.absent)+len(v.Open) {
		return nil, ErrRelabelled
	}
	return out, nil
}

// A witness is a series that the store is known to have and whose labels are known as they
// are stored. A request that asks for it, too, tells with which external labels it was
// answered: where the witness comes with those that are known and no others, they need
// not be read again. It cannot tell of an external label that has the name of one of its
// own labels. So only a series that has no labels but those below is a witness, as up is
// in most Prometheis; an external label of one of these names would do nothing to what
// was scraped. That such a label has come is found out when the store's settings are read
// anyway.

// witnessNames are the only labels that a witness may have.
var witnessNames = []string{model.MetricNameLabel, "instance", "job"}

// WitnessRange is how far back a witness is asked for, ms: it must be alive.
const WitnessRange = 5 * 60_000

// WitnessQuery asks for the witness of v, by the labels that are stored.
func (v *View) WitnessQuery() *prompb.Query {
	var ms []*prompb.LabelMatcher
	v.Witness.Range(func(l labels.Label) {
		ms = append(ms, &prompb.LabelMatcher{Type: prompb.LabelMatcher_EQ, Name: l.Name, Value: l.Value})
	})
	v.all.Range(func(l labels.Label) {
		ms = append(ms, &prompb.LabelMatcher{Type: prompb.LabelMatcher_EQ, Name: l.Name})
	})
	now := time.Now().UnixMilli()
	return &prompb.Query{StartTimestampMs: now - WitnessRange, EndTimestampMs: now, Matchers: ms}
}

// WitnessIndex is the number of the query for the witness, behind those of the view, or -1.
func (v *View) WitnessIndex() int64 {
	if v == nil || v.Witness == nil {
		return -1
	}
	return v.NumQueries()
}

// Testifies reports whether a series, a prompb.TimeSeries or prompb.ChunkedSeries, is the
// witness with the external labels that are known and no others.
func (v *View) Testifies(series []byte) bool {
	want := labels.NewBuilder(*v.Witness)
	v.all.Range(func(l labels.Label) { want.Set(l.Name, l.Value) })
	expected := want.Labels()
	found := 0
	for f, err := range typed(series, "a series", protowire.BytesType) {
		if err != nil {
			return false
		}
		l, err := walkLabel(f.Bytes)
		if err != nil || len(l.Value) == 0 || expected.Get(stringOf(l.Name)) != stringOf(l.Value) {
			return false
		}
		found++
	}
	return found == expected.Len()
}

// Testified reports whether a prompb.QueryResult has the witness as it should be.
func (v *View) Testified(result []byte) bool {
	for f, err := range typed(result, "a result", protowire.BytesType) {
		if err == nil && v.Testifies(f.Bytes) {
			return true
		}
	}
	return false
}

// HasWitness reports whether there may be a witness of external labels ext: none of them has the
// name of a label that a witness may have.
func HasWitness(ext labels.Labels) bool {
	return !slices.ContainsFunc(witnessNames, ext.Has)
}

// FitsWitness reports whether a series with labels l may be a witness.
func FitsWitness(l labels.Labels) bool {
	fits := true
	l.Range(func(l labels.Label) { fits = fits && slices.Contains(witnessNames, l.Name) })
	return fits
}
