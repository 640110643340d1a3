// Package compare compares answers to PromQL.
//
// ReadReply reads what a server answers, Reply.Answer its Answer. Differ names the first difference of
// two. Measure asks two sides, and asks again before it says that answers differ, since samples come
// meanwhile.
//
// Invariant: two answers are the same if a client cannot tell them apart: series and their order,
// times, bits of values, warnings and infos in any order. All NaNs are one value.
//
// Start reading at Differ.
package compare

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// Answer is what a server or an engine answered.
type Answer struct {
	Type            parser.ValueType
	Series          []Series // of a scalar one without labels
	Text            string   // of a string
	Warnings, Infos []string
	Err             error
	Took            time.Duration // from the question to the end of the answer
	Evaluated       time.Duration // of Took, evaluating, as the server measured it; 0 where it does not say
}

// Series is a series of an answer.
type Series struct {
	Labels     labels.Labels
	Floats     []promql.FPoint
	Histograms []Histogram
}

// Histogram is a native histogram in words.
type Histogram struct {
	T          int64 // ms since the epoch
	Text       string
	Count, Sum float64
}

// Sort puts the series in the order of their labels, for answers that have none.
func (a *Answer) Sort() {
	slices.SortStableFunc(a.Series, func(x, y Series) int { return labels.Compare(x.Labels, y.Labels) })
}

// Difference is the first that two answers have.
type Difference struct {
	What      string        // what differs: "value", "series", "warnings", …
	Series    labels.Labels // of a value
	Time      int64         // ms since the epoch, of a value
	Got, Want string
	at        bool // Series and Time are set
}

// String puts the difference into words.
func (d *Difference) String() string {
	text := fmt.Sprintf("%s %s instead of %s", d.What, d.Got, d.Want)
	if d.at {
		text += fmt.Sprintf(" at %s of %s", strconv.FormatFloat(float64(d.Time)/1000, 'f', -1, 64), d.Series)
	}
	return text
}

// Differ returns the first difference of an answer from the one that is right, or nil. Values may be
// apart by tolerance, relative to the larger; 0 compares bits.
func Differ(want, got *Answer, tolerance float64) *Difference {
	for _, d := range []*Difference{
		differ("error", fmt.Sprint(want.Err), fmt.Sprint(got.Err)),
		differ("warnings", sorted(want.Warnings), sorted(got.Warnings)),
		differ("infos", sorted(want.Infos), sorted(got.Infos)),
		differ("type", string(want.Type), string(got.Type)),
		differ("text", strconv.Quote(want.Text), strconv.Quote(got.Text)),
	} {
		if d != nil {
			return d
		}
	}
	for i := range min(len(want.Series), len(got.Series)) {
		if !labels.Equal(want.Series[i].Labels, got.Series[i].Labels) {
			return differ("series", want.Series[i].Labels.String(), got.Series[i].Labels.String())
		}
	}
	if d := differ("number of series", strconv.Itoa(len(want.Series)), strconv.Itoa(len(got.Series))); d != nil {
		return d
	}
	for i := range want.Series {
		if d := want.Series[i].differ(&got.Series[i], tolerance); d != nil {
			return d
		}
	}
	return nil
}

func differ(what, want, got string) *Difference {
	if want == got {
		return nil
	}
	return &Difference{What: what, Want: want, Got: got}
}

// sorted prints texts in one order.
func sorted(texts []string) string { return fmt.Sprintf("%q", slices.Sorted(slices.Values(texts))) }

// none stands for a value that is not there.
const none = "no value"

// differ returns the first difference of two rows of the same labels.
func (s *Series) differ(got *Series, tolerance float64) *Difference {
	at := func(t int64, want, got string) *Difference {
		return &Difference{What: "value", Series: s.Labels, Time: t, Want: want, Got: got, at: true}
	}
	for i := range max(len(s.Floats), len(got.Floats)) {
		switch {
		case i == len(got.Floats) || i < len(s.Floats) && s.Floats[i].T < got.Floats[i].T:
			return at(s.Floats[i].T, printed(s.Floats[i].F), none)
		case i == len(s.Floats) || s.Floats[i].T > got.Floats[i].T:
			return at(got.Floats[i].T, none, printed(got.Floats[i].F))
		case !near(s.Floats[i].F, got.Floats[i].F, tolerance):
			return at(s.Floats[i].T, printed(s.Floats[i].F), printed(got.Floats[i].F))
		}
	}
	for i := range max(len(s.Histograms), len(got.Histograms)) {
		switch {
		case i == len(got.Histograms) || i < len(s.Histograms) && s.Histograms[i].T < got.Histograms[i].T:
			return at(s.Histograms[i].T, s.Histograms[i].Text, none)
		case i == len(s.Histograms) || s.Histograms[i].T > got.Histograms[i].T:
			return at(got.Histograms[i].T, none, got.Histograms[i].Text)
		case s.Histograms[i].Text != got.Histograms[i].Text:
			return at(s.Histograms[i].T, s.Histograms[i].Text, got.Histograms[i].Text)
		}
	}
	return nil
}

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
