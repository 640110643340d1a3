package aggregate

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/util/strutil"
)

// Aggregate is an aggregate of a request.
type Aggregate struct {
	*Definition
	Text string // as the request has it
	Q    float64
	// Rate says that it is of the differences between consecutive samples; see Differences.
	Rate bool
}

// ratePrefix is what stands before the name of an aggregate of differences.
const ratePrefix = "rate:"

// UnknownError is the error of a name that no aggregate has: the hint that it deserves.
type UnknownError struct{ Hint string }

func (e *UnknownError) Error() string { return "there is no such aggregate" }

// ErrPercent is the error of a percentile that is not within 0 to 100.
var ErrPercent = errors.New("a percentile is from 0pct to 100pct")

// Library is the aggregates that a request may name: Definitions, and more. The zero Library has
// Definitions alone.
type Library struct{ more []*Definition }

// With returns the library with one more definition, or the name of it that something has already.
func (l Library) With(d *Definition) (with Library, taken string) {
	names := append([]string{d.Name}, d.Aliases...)
	for i, name := range names {
		_, err := l.Parse(name)
		if !errors.As(err, new(*UnknownError)) || slices.Contains(names[:i], name) || name == quantile.Name {
			return l, name
		}
	}
	return Library{append(slices.Clip(l.more), d)}, ""
}

// All are the definitions of the library, in the order of the documentation.
func (l Library) All() []*Definition { return append(slices.Clip(Definitions), l.more...) }

// Parse reads the name of an aggregate, such as mean, 99.9pct or rate:max. It fails with an
// *UnknownError or ErrPercent.
func (l Library) Parse(text string) (Aggregate, error) {
	name, rate := strings.CutPrefix(text, ratePrefix)
	a := Aggregate{Text: text, Rate: rate}
	number, isQuantile := strings.CutSuffix(name, quantile.Name)
	if isQuantile && number != "" {
		percent, err := strconv.ParseFloat(number, 64)
		if err == nil {
			if !(percent >= 0 && percent <= 100) {
				return a, ErrPercent
			}
			// Of the text, so that 99.9pct is 0.999 and not a float beside it.
			if a.Q, err = strconv.ParseFloat(number+"e-2", 64); err != nil {
				a.Q = percent / 100
			}
			a.Definition = quantile
			return a, nil
		}
	}
	all := l.All()
	at := slices.IndexFunc(all, func(d *Definition) bool {
		return d != quantile && (d.Name == name || slices.Contains(d.Aliases, name))
	})
	if at < 0 {
		names := l.Names()
		hint := "use " + strings.Join(names, ", ")
		if near := nearest(name, names); near != "" {
			hint = fmt.Sprintf("did you mean %q?", text[:len(text)-len(name)]+near)
		}
		return a, &UnknownError{hint}
	}
	a.Definition, a.Q = all[at], all[at].At
	return a, nil
}

// Names are the names of all aggregates, with an example of each that has a number.
func (l Library) Names() (names []string) {
	for _, d := range l.All() {
		if d == quantile {
			names = append(names, "95"+d.Name)
			continue
		}
		names = append(names, d.Name)
	}
	return names
}

// DidYouMean asks for the name that is most like a text. Where none is like it, it is the other hint.
func DidYouMean(text string, names []string, other string) (hint string) {
	if near := nearest(text, names); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return other
}

// like is how like a text a name is, of 0 to 1, for it to be meant.
const like = 0.8

func nearest(text string, names []string) (nearest string) {
	most, match := like, strutil.NewJaroWinklerMatcher(text)
	for _, name := range names {
		if score := match.Score(name); score > most {
			most, nearest = score, name
		}
	}
	return nearest
}
