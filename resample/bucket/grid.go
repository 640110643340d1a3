// Package bucket says where the buckets of a resample request lie, and finds the samples of each.
//
// A Layout (how long buckets are, where they begin, in which time zone) and a time range go in; a
// Grid comes out, a table of buckets: for each the window of time that its samples are from, and
// its label. Windows are half-open in whole milliseconds, so (a, b] is [a+1, b+1). Times are in ms
// since the epoch.
//
//	every 5m, closed left:   [10:00, 10:05) [10:05, 10:10) …
//	every 5m, closed right:  (10:00, 10:05] (10:05, 10:10] …
//	period 7m, closed left:  [10:00, 10:07) [10:05, 10:12) …    a window begins with its bucket
//	period 7m, closed right: (9:58, 10:05] (10:03, 10:10] …     a window ends with its bucket
//
// The bucket of a time depends on the layout alone, not on the range asked for.
//
// Start with Layout.Grid and Grid.CountUniqs.
package bucket

import (
	"errors"
	"time"
)

// Layout says where buckets lie.
type Layout struct {
	Every  Span
	Period Span // of the window; the zero Span is Every
	// Origin is a time in ms at which a bucket begins. Without HasOrigin it is when the calendar
	// of Zone showed 1970-01-01, and of weeks the Monday before.
	Origin    int64
	HasOrigin bool
	Offset    int64 // ms by which buckets begin later, by the clock of Zone
	Zone      *time.Location
	// Buckets and the range are (from, to] instead of [from, to).
	ClosedRight bool
	// A bucket's label is its end instead of its beginning.
	LabelRight bool
}

// MaxBuckets is the most buckets of a grid: a year of minutes.
const MaxBuckets = 366 * 24 * 60

// The errors of Layout.Grid.
var (
	ErrTooMany   = errors.New("the range has too many buckets")
	ErrTooLong   = errors.New("a bucket is longer than the range")
	ErrMonthEnd  = errors.New("not every month has the day that buckets begin on")
	ErrTwoClocks = errors.New("the period is of the calendar and the buckets are not")
)

// Grid is a table of buckets in order, that is without buckets that are empty because the clock
// left them out.
type Grid struct {
	// Starts and Ends are the windows: bucket k has the samples of Starts[k] <= t < Ends[k]. Both
	// ascend. Windows may overlap or leave gaps where the period is not the bucket's length.
	Starts, Ends []int64
	Labels       []int64 // the times that buckets are labelled with
	Apart        bool    // no two windows overlap
	Every        int64   // ms between neighbouring Starts, and Ends, where all are as far apart; or 0
	Later        int64   // ms from a window (a, b] to the samples that it has, [a+1, b+1): 1, else 0
}

// N is the number of buckets.
func (g *Grid) N() int { return len(g.Starts) }

// Opens and Closes are the edges in ms of the window of bucket k as the request means it: of (a, b]
// a and b, where Starts and Ends have a+1 and b+1.
func (g *Grid) Opens(k int32) int64  { return g.Starts[k] - g.Later }
func (g *Grid) Closes(k int32) int64 { return g.Ends[k] - g.Later }

// SizeBytes is the memory of a grid with n buckets, and of the text of their labels.
func SizeBytes(n int) int64 { return (24 + 40) * int64(n) }

// Grid returns the buckets that have a time of the range from start to end (ms).
func (l Layout) Grid(start, end int64) (*Grid, error) {
	if l.Period == (Span{}) {
		l.Period = l.Every
	}
	if l.Zone == nil {
		l.Zone = time.UTC
	}
	switch n := float64(end-start) / l.Every.Millis(); {
	case n > MaxBuckets:
		return nil, ErrTooMany
	case l.Every.Unit == Millisecond && l.Period.Unit != Millisecond:
		return nil, ErrTwoClocks
	}
	later := int64(0)
	if l.ClosedRight { // [start+1, end+1), over buckets that are one ms later, too
		later = 1
	}
	edge, k, err := l.edges(start)
	if err != nil {
		return nil, err
	}
	g := &Grid{Apart: l.Period == l.Every, Later: later}
	if l.Every.Unit == Millisecond {
		g.Every = l.Every.N
		g.Apart = l.Period.N <= l.Every.N
	}
	from := edge(k)
	for ; from < end; k++ {
		to := edge(k + 1)
		if to == from {
			continue
		}
		if len(g.Starts) == 0 && to-from > end-start && (from <= start && end <= to || l.Every.Unit == Millisecond) {
			return nil, ErrTooLong
		}
		if len(g.Starts) == MaxBuckets {
			return nil, ErrTooMany
		}
		lo, hi := from, to
		switch {
		case l.Period == l.Every:
		case l.ClosedRight:
			lo = l.Period.AddTo(to, -1, l.Zone)
		default:
			hi = l.Period.AddTo(from, 1, l.Zone)
		}
		label := from
		if l.LabelRight {
			label = to
		}
		g.Starts, g.Ends, g.Labels = append(g.Starts, lo+later), append(g.Ends, hi+later), append(g.Labels, label)
		from = to
	}
	return g, nil
}

// edges returns where bucket k begins, for any k, and the k of the bucket that start is in.
func (l Layout) edges(start int64) (edge func(k int64) int64, k int64, err error) {
	first := int64(0) // civil
	if l.Every.week {
		first = -3 * dayMs // 1970-01-01 was a Thursday
	}
	if l.HasOrigin {
		first = civil(l.Origin, l.Zone)
	}
	switch {
	case l.Every.Unit == Millisecond:
		if first = instant(first, l.Zone); l.HasOrigin {
			first = l.Origin
		}
		first += l.Offset
		edge = func(k int64) int64 { return first + k*l.Every.N }
	case l.Every.Unit == Month && time.UnixMilli(first+l.Offset).UTC().Day() > 28:
		return nil, 0, ErrMonthEnd
	default:
		first += l.Offset
		edge = func(k int64) int64 { return instant(l.Every.move(first, k), l.Zone) }
	}
	k = int64(float64(start-first) / l.Every.Millis())
	for edge(k) > start {
		k--
	}
	for edge(k+1) <= start {
		k++
	}
	return edge, k, nil
}
