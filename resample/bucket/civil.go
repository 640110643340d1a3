package bucket

import "time"

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
	begin, end := time.UnixMilli(c - int64(offset)*1000).In(zone).ZoneBounds()
	best := int64(1<<63 - 1)
	try := func(t int64) {
		if t < best && civil(t, zone) >= c {
			best = t
		}
	}
	at := func(t time.Time) {
		_, offset := t.In(zone).Zone()
		try(c - int64(offset)*1000)
	}
	at(time.UnixMilli(c - int64(offset)*1000))
	for _, change := range []time.Time{begin, end} {
		if !change.IsZero() {
			try(change.UnixMilli())
			at(change.Add(-1))
			at(change)
		}
	}
	return best
}
