package reduce

import (
	"time"

	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/remoteread/serve"
)

// reader is what is known of the Prometheus that reads.
type reader struct {
	// closed says that windows include the time at their start, as they did before 3.0.
	closed bool
	// sums says that sum and avg have the bits that they have in promwarp.
	sums bool
}

// The releases whose hints are known. A later one may mean others by them.
const (
	oldestMinor2 = 42 // of 2.x
	newestMinor3 = 15 // of 3.x: the engine that promwarp is linked with
	sumsMinor3   = 5  // of 3.x: avg was changed last
)

func readerOf(r serve.Release) (reader, bool) {
	switch r.Major {
	case 2:
		return reader{closed: true}, r.Minor >= oldestMinor2
	case 3:
		return reader{sums: r.Minor >= sumsMinor3}, r.Minor <= newestMinor3
	}
	return reader{}, false
}

// grid is when a selector is evaluated: at first, and every step after it until last. All are
// in ms, without the selector's offset.
type grid struct{ first, last, step int64 }

// after returns the first time of g that is not before t; it may be after last.
func (g grid) after(t int64) int64 {
	if t <= g.first {
		return g.first
	}
	return g.first + (t-g.first+g.step-1)/g.step*g.step
}

// steps is how many times there are.
func (g grid) steps() int64 { return (g.last-g.first)/g.step + 1 }

// asked is what hints say about how a selector is evaluated.
type asked struct {
	grid
	// width is how many ms a sample is seen for: it is by evaluations from its own time to
	// width later, that excluded.
	width int64
	reader
}

// farthest bounds times, steps and widths in ms, so that they are durations in ns.
const farthest = 1 << 43

// understand finds out what q's hints say. A selector with a lookback or range w has hints that
// start w-1 before its first evaluation, or w in releases with closed windows. So the start
// tells the first evaluation, unless the selector is in a subquery: then that is at the first
// multiple of the step there or later, less the selector's own offset, which is not sent. Where
// the start is a multiple of the step both are the same, as long as the offset is one.
func understand(q serve.Query, lookback time.Duration) (asked, reason) {
	h := q.Hints
	if h == nil || h.Func == "series" || h.Start == 0 && h.End == 0 {
		return asked{}, noHints
	}
	who, ok := readerOf(q.Reader)
	if !ok {
		return asked{}, unknownReader
	}
	if _, ok := vector.Called(h.Func).Node.(*plan.Info); ok {
		return asked{}, unlikeOthers // its further series have other hints
	}
	a := asked{reader: who, width: lookback.Milliseconds()}
	if h.Range != 0 {
		a.width = h.Range
	}
	if who.closed {
		a.width++
	}
	for _, t := range []int64{h.Start, h.End, h.Step, a.width} {
		if t < -farthest || t > farthest {
			return asked{}, wrongLookback
		}
	}
	if h.Step < 0 || a.width <= 0 {
		return asked{}, wrongLookback
	}
	a.first = h.Start + a.width - 1
	switch {
	case a.first == h.End: // an instant query, or one of one step, or @
		a.last, a.step = h.End, 1
	case h.Step == 0 || a.first > h.End:
		return asked{}, wrongLookback
	case a.first%h.Step != 0:
		return asked{}, notAligned
	default:
		a.step = h.Step
		a.last = a.first + (h.End-a.first)/a.step*a.step
	}
	return a, ""
}

// reason is why no less is sent. There is none where a reduction was made.
type reason string

const (
	noHints         reason = "no hints"
	unknownReader   reason = "unknown reader"            // not one of the releases that readerOf knows
	wrongLookback   reason = "lookback"                  // the hints do not fit Options.Lookback
	notAligned      reason = "grid not aligned"          // it could be one of several
	unlikeOthers    reason = "function"                  // it does not read samples as others do
	startTimestamps reason = "start timestamps"          // a reader may evaluate them
	mostSamples     reason = "most samples are seen"     // by some step
	notGrouped      reason = "no aggregation"            // directly around the selector
	noForm          reason = "aggregation without form"  // that the reader's own leaves as it is
	otherSums       reason = "sums of another release"   // have other bits
	withHistograms  reason = "native histograms"         // are not aggregated
	withExternal    reason = "external labels"           // decide about groups
	cutByReader     reason = "the reader has newer data" // which it joins with what is sent
	notEvaluated    reason = "not evaluated"             // the engine refused
	noOrder         reason = "order of groups"           // that series cannot be sent in
	notIdempotent   reason = "values"                    // that the reader's own aggregation changes
)
