package bucket

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
)

// Unit is what a Span counts.
type Unit byte

// The units of spans. All but Millisecond follow the calendar of a time zone.
const (
	Millisecond Unit = iota
	Day
	Month
)

// Span is a length of time: N milliseconds, or N days or months of the calendar. A
// week is 7 days, a year 12 months. The zero Span is no length.
type Span struct {
	N    int64
	Unit Unit
	week bool // written in weeks, which begin on Mondays
}

const (
	dayMs = 24 * 60 * 60 * 1000
	// monthMs is the mean length of a month, for estimates.
	monthMs = 30.436875 * dayMs
	// maxSpan is the longest span in ms: a thousand years.
	maxSpan = 1000 * 365.25 * dayMs
)

// calendarUnits are the units of spans that follow the calendar, with Polars' names beside
// QuestDB's.
var calendarUnits = map[string]Span{
	"d": {N: 1, Unit: Day}, "w": {N: 7, Unit: Day, week: true},
	"M": {N: 1, Unit: Month}, "mo": {N: 1, Unit: Month}, "q": {N: 3, Unit: Month}, "y": {N: 12, Unit: Month},
}

var calendarSpan = regexp.MustCompile(`^([0-9]+)(d|w|M|mo|q|y)$`)

// ParseSpan reads a span: a number with one unit of the calendar (1d, 2w, 1M, 1q, 1y), a
// Prometheus duration (5m, 1h30m), or a number of seconds.
func ParseSpan(text string) (Span, error) {
	if m := calendarSpan.FindStringSubmatch(text); m != nil {
		n, err := strconv.ParseInt(m[1], 10, 32)
		s := calendarUnits[m[2]]
		s.N *= n
		if err != nil || s.Millis() > maxSpan {
			return Span{}, errors.New("it is longer than a thousand years")
		}
		return s, nil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil {
		if !(math.Abs(f)*1000 <= maxSpan) {
			return Span{}, errors.New("it is longer than a thousand years")
		}
		ms := math.Round(f * 1000)
		return Span{N: int64(ms)}, nil
	}
	d, err := model.ParseDurationAllowNegative(text)
	if err != nil {
		return Span{}, fmt.Errorf("%.100q is no duration", text)
	}
	return Span{N: time.Duration(d).Milliseconds()}, nil
}

// Millis is the length of the span in ms, on average.
func (s Span) Millis() float64 {
	switch s.Unit {
	case Day:
		return float64(s.N) * dayMs
	case Month:
		return float64(s.N) * monthMs
	}
	return float64(s.N)
}

// String writes the span as ParseSpan reads it.
func (s Span) String() string {
	switch {
	case s.Unit == Day && s.week:
		return fmt.Sprintf("%dw", s.N/7)
	case s.Unit == Day:
		return fmt.Sprintf("%dd", s.N)
	case s.Unit == Month && s.N%12 == 0:
		return fmt.Sprintf("%dy", s.N/12)
	case s.Unit == Month:
		return fmt.Sprintf("%dM", s.N)
	case s.N%1000 != 0:
		return fmt.Sprintf("%dms", s.N)
	}
	return fmt.Sprintf("%ds", s.N/1000)
}

// AddTo moves a time in ms by n spans in a time zone, by its calendar and clock where the span
// is one of the calendar. Of a month that lacks the day it is the last one.
func (s Span) AddTo(t, n int64, zone *time.Location) int64 {
	if s.Unit == Millisecond {
		return t + n*s.N
	}
	return instant(s.move(civil(t, zone), n), zone)
}

// move moves a civil time by n spans.
func (s Span) move(c, n int64) int64 {
	switch s.Unit {
	case Day:
		return c + n*s.N*dayMs
	case Month:
		was := time.UnixMilli(c).UTC()
		first := time.Date(was.Year(), was.Month()+time.Month(n*s.N), 1, 0, 0, 0, 0, time.UTC)
		days := first.AddDate(0, 1, -1).Day()
		return first.UnixMilli() + int64(min(was.Day(), days)-1)*dayMs + (c-c/dayMs*dayMs+dayMs)%dayMs
	}
	return c + n*s.N
}

// A civil time is what a calendar and a clock on the wall show, in ms since they showed
// 1970-01-01 00:00.

// civil is the civil time in a zone at a time in ms.
func civil(t int64, zone *time.Location) int64 {
	_, offset := time.UnixMilli(t).In(zone).Zone()
	return t + int64(offset)*1000
}

// instant is the first time in ms at which the wall shows the civil time c or a later one. It is
// c itself where the wall shows c once; the first of two where a clock set back shows it twice;
// and the moment of the change where a clock set forward leaves it out.
func instant(c int64, zone *time.Location) int64 {
	_, offset := time.UnixMilli(c).In(zone).Zone()
	near := time.UnixMilli(c - int64(offset)*1000).In(zone)
	begin, end := near.ZoneBounds()
	best := int64(math.MaxInt64)
	for _, at := range []time.Time{near, begin.Add(-1), begin, end.Add(-1), end} {
		_, offset := at.In(zone).Zone()
		for _, t := range []int64{at.UnixMilli(), c - int64(offset)*1000} {
			if t < best && civil(t, zone) >= c {
				best = t
			}
		}
	}
	return best
}
