package resample

import (
	"errors"
	"fmt"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
)

// Plan says how a request is computed.
type Plan struct {
	Request
	Grid    *bucket.Grid
	sources []source
	// Samples of from <= t < to (ms) are read: those of the windows, and for differences as much
	// before as a bucket is long, or lookback.
	from, to int64
	ran      *Work // how it was computed; nil before
}

// source is what aggregates are of: the samples of a series, or the differences between them.
type source struct {
	rate    bool
	parts   aggregate.Parts
	outputs []int // aggregates of the request
}

// lookback is how much is read before the first window to find the sample before, in ms.
const lookback = 5 * 60 * 1000

// NewPlan plans a request. A request that cannot be computed is an *Error.
func NewPlan(r *Request) (*Plan, error) {
	p := &Plan{Request: *r}
	var err error
	p.Grid, err = r.Layout.Grid(r.Start, r.End)
	switch {
	case errors.Is(err, bucket.ErrTooMany):
		return nil, &Error{CodeTooManyBuckets, "every", fmt.Sprintf("%v, and can have %d", err, bucket.MaxBuckets), "make buckets longer or the range shorter"}
	case errors.Is(err, bucket.ErrTooLong):
		return nil, &Error{CodeOutOfRange, "every", err.Error(), "make it shorter or the range longer"}
	case errors.Is(err, bucket.ErrMonthEnd):
		return nil, &Error{CodeOutOfRange, "origin", err.Error(), "have it on one of the first 28 days of a month"}
	case errors.Is(err, bucket.ErrTwoClocks):
		return nil, &Error{CodeConflict, "period", err.Error(), "use one of 24h or 1d for both"}
	case err != nil:
		return nil, err
	case p.Grid.N() == 0:
		return nil, &Error{CodeEmptyRange, "end", "the range has no bucket", "give a later end, or an earlier start"}
	}
	p.from, p.to = p.Grid.Starts[0], p.Grid.Ends[p.Grid.N()-1]
	for _, rate := range []bool{false, true} {
		s := source{rate: rate, parts: aggregate.Count} // which says whether there are samples
		for i, a := range r.Aggregates {
			if a.Rate == rate {
				s.parts |= a.Reads
				s.outputs = append(s.outputs, i)
			}
		}
		if len(s.outputs) == 0 {
			continue
		}
		s.parts = s.parts.With()
		p.sources = append(p.sources, s)
		if rate {
			p.from -= max(lookback, int64(r.Layout.Every.Millis()))
		}
	}
	return p, nil
}
