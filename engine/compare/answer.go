package compare

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/plan"
)

// Answer is what an engine answered: a value, of which a *plan.Matrix is one, or an error.
type Answer struct {
	Value parser.Value
	Notes annotations.Annotations // warnings and infos
	Err   error
}

// Difference is the first that two answers have.
type Difference struct {
	What         string // what differs: "value", "series", "annotations", …
	Series       string // labels; empty where it is not of one series
	Time         int64  // ms since the epoch, of the series
	Ours, Theirs string
}

// series is one row of an answer.
type series struct {
	labels     labels.Labels
	floats     iter.Seq2[int64, float64]
	histograms []promql.HPoint
}

// Differ returns the first difference of our answer to a query from Prometheus's, or nil. Values
// may be apart by tolerance, relative to the larger; 0 compares bits. All NaNs are one value.
func Differ(query string, ours, theirs Answer, tolerance float64) *Difference {
	if d := differ("error", fmt.Sprint(ours.Err), fmt.Sprint(theirs.Err)); d != nil || ours.Err != nil {
		return d
	}
	if d := differ("annotations", notes(query, ours.Notes), notes(query, theirs.Notes)); d != nil {
		return d
	}
	if d := differ("type", string(ours.Value.Type()), string(theirs.Value.Type())); d != nil {
		return d
	}
	if text, ok := ours.Value.(promql.String); ok {
		return differ("value", text.String(), theirs.Value.String())
	}
	a, b := all(ours.Value), all(theirs.Value)
	for i := range min(len(a), len(b)) {
		if !labels.Equal(a[i].labels, b[i].labels) {
			return differ("series", a[i].labels.String(), b[i].labels.String())
		}
	}
	if d := differ("number of series", strconv.Itoa(len(a)), strconv.Itoa(len(b))); d != nil {
		return d
	}
	for i := range a {
		if d := a[i].differ(b[i], tolerance); d != nil {
			return d
		}
	}
	return nil
}

func differ(what, ours, theirs string) *Difference {
	if ours == theirs {
		return nil
	}
	return &Difference{What: what, Ours: ours, Theirs: theirs}
}

// notes are the texts of annotations in one order.
func notes(query string, a annotations.Annotations) string {
	warnings, infos := a.AsStrings(query, 0, 0)
	slices.Sort(warnings)
	slices.Sort(infos)
	return fmt.Sprintf("%q %q", warnings, infos)
}

// all are the rows of a value.
func all(v parser.Value) (rows []series) {
	switch v := v.(type) {
	case *plan.Matrix:
		for i := range v.Rows {
			rows = append(rows, series{labels: v.Rows[i].Labels, floats: v.Rows[i].All(v.Grid)})
		}
	case promql.Matrix:
		for _, s := range v {
			rows = append(rows, series{s.Metric, floats(s.Floats), s.Histograms})
		}
	case promql.Vector:
		for _, s := range v {
			row := series{labels: s.Metric, floats: floats(nil)}
			if s.H != nil {
				row.histograms = []promql.HPoint{{T: s.T, H: s.H}}
			} else {
				row.floats = floats([]promql.FPoint{{T: s.T, F: s.F}})
			}
			rows = append(rows, row)
		}
	case promql.Scalar:
		rows = []series{{floats: floats([]promql.FPoint{{T: v.T, F: v.V}})}}
	}
	return rows
}

func floats(points []promql.FPoint) iter.Seq2[int64, float64] {
	return func(yield func(int64, float64) bool) {
		for _, p := range points {
			if !yield(p.T, p.F) {
				return
			}
		}
	}
}

// differ returns the first difference of two rows of the same labels.
func (s series) differ(other series, tolerance float64) *Difference {
	at := func(t int64, ours, theirs string) *Difference {
		return &Difference{What: "value", Series: s.labels.String(), Time: t, Ours: ours, Theirs: theirs}
	}
	next, stop := iter.Pull2(other.floats)
	defer stop()
	for t, v := range s.floats {
		u, w, ok := next()
		switch {
		case !ok || u > t:
			return at(t, printed(v), none)
		case u < t:
			return at(u, none, printed(w))
		case !near(v, w, tolerance):
			return at(t, printed(v), printed(w))
		}
	}
	if t, w, ok := next(); ok {
		return at(t, none, printed(w))
	}
	for i := range max(len(s.histograms), len(other.histograms)) {
		switch {
		case i == len(other.histograms):
			return at(s.histograms[i].T, s.histograms[i].H.String(), none)
		case i == len(s.histograms):
			return at(other.histograms[i].T, none, other.histograms[i].H.String())
		}
		a, b := s.histograms[i], other.histograms[i]
		if a.T != b.T || !a.H.Equals(b.H) && a.H.String() != b.H.String() {
			return at(min(a.T, b.T), a.String(), b.String())
		}
	}
	return nil
}

// none stands for a value that is not there.
const none = "no value"

func printed(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// near reports whether two values are the same bits, both NaN, or within tolerance.
func near(v, w, tolerance float64) bool {
	switch {
	case math.Float64bits(v) == math.Float64bits(w), math.IsNaN(v) && math.IsNaN(w):
		return true
	case tolerance == 0, math.IsInf(v, 0), math.IsInf(w, 0):
		return false
	}
	return math.Abs(v-w) <= tolerance*max(math.Abs(v), math.Abs(w))
}
