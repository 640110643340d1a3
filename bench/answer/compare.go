package answer

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// Tolerance is how far apart two values may be, relative to the larger one.
const Tolerance = 1e-12

// Difference says how one answer differs from the one that was wanted. In its
// zero value it does not.
type Difference struct {
	MissingSeries int     `json:"missingSeries,omitempty"`
	ExtraSeries   int     `json:"extraSeries,omitempty"`
	MissingPoints int     `json:"missingPoints,omitempty"` // of series that both have
	ExtraPoints   int     `json:"extraPoints,omitempty"`
	Values        int     `json:"values,omitempty"`  // points with another value
	Worst         float64 `json:"worst,omitempty"`   // largest relative difference of two finite values
	Notices       bool    `json:"notices,omitempty"` // other warnings or infos
	First         string  `json:"first,omitempty"`   // one of the differences, in words
}

// SameData says whether series, times and values are the same.
func (d *Difference) SameData() bool {
	return d.MissingSeries+d.ExtraSeries+d.MissingPoints+d.ExtraPoints+d.Values == 0
}

// Same says whether there is no difference at all.
func (d *Difference) Same() bool { return d.SameData() && !d.Notices }

// note keeps the first difference's words.
func (d *Difference) note(format string, args ...any) {
	if d.First == "" {
		d.First = fmt.Sprintf(format, args...)
	}
}

// Compare says how got differs from want.
func Compare(want, got *Matrix) Difference {
	var d Difference
	for _, name := range slices.Sorted(maps.Keys(want.Series)) {
		g, ok := got.Series[name]
		if !ok {
			d.MissingSeries++
			d.note("series %s is missing", name)
			continue
		}
		d.points(name, want.Series[name], g)
	}
	for _, name := range slices.Sorted(maps.Keys(got.Series)) {
		if _, ok := want.Series[name]; !ok {
			d.ExtraSeries++
			d.note("series %s is not wanted", name)
		}
	}
	if !slices.Equal(want.Notices, got.Notices) {
		d.Notices = true
		d.note("warnings and infos %q instead of %q", got.Notices, want.Notices)
	}
	return d
}

// points compares the points of a series, in time order.
func (d *Difference) points(name string, want, got []Point) {
	for len(want) > 0 || len(got) > 0 {
		switch {
		case len(got) == 0 || len(want) > 0 && want[0].T < got[0].T:
			d.MissingPoints++
			d.note("series %s has no point at %s", name, seconds(want[0].T))
			want = want[1:]
		case len(want) == 0 || got[0].T < want[0].T:
			d.ExtraPoints++
			d.note("series %s has a point at %s that is not wanted", name, seconds(got[0].T))
			got = got[1:]
		default:
			d.value(name, want[0], got[0])
			want, got = want[1:], got[1:]
		}
	}
}

// value compares two points of one time.
func (d *Difference) value(name string, want, got Point) {
	w, g := want.V, got.V
	if w == g || math.IsNaN(w) && math.IsNaN(g) {
		return
	}
	off := math.Abs(w-g) / max(math.Abs(w), math.Abs(g))
	if off <= Tolerance {
		return
	}
	d.Values++
	if !math.IsNaN(off) && !math.IsInf(w, 0) && !math.IsInf(g, 0) {
		d.Worst = max(d.Worst, off)
	}
	d.note("series %s is %v at %s instead of %v", name, g, seconds(want.T), w)
}

func seconds(t float64) string { return strconv.FormatFloat(t, 'f', -1, 64) }
