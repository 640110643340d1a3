package external

import (
	"slices"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"github.com/promwarp/promwarp/remoteread/wire"
)

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
		ms = With(ms, prompb.LabelMatcher_EQ, l.Name, l.Value)
	})
	v.all.Range(func(l labels.Label) { ms = With(ms, prompb.LabelMatcher_EQ, l.Name, "") })
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
	for len(series) > 0 {
		num, b, n, err := wire.NextField(series, "a series", 2)
		if err != nil {
			return false
		}
		series = series[n:]
		if num != 1 {
			continue
		}
		l, err := wire.WalkLabel(b)
		if err != nil || len(l.Value) == 0 || expected.Get(wire.String(l.Name)) != wire.String(l.Value) {
			return false
		}
		found++
	}
	return found == expected.Len()
}

// Testified reports whether a prompb.QueryResult has the witness as it should be.
func (v *View) Testified(result []byte) bool {
	for len(result) > 0 {
		num, series, n, err := wire.NextField(result, "a result", 1)
		if err != nil {
			return false
		}
		result = result[n:]
		if num == 1 && v.Testifies(series) {
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
