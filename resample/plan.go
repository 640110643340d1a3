package resample

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
)

// Plan says how a request is computed.
type Plan struct {
	Request
	Grid    *bucket.Grid
	Sources []Source
	Slots   []Slot
	// Samples of from <= t < to (ms) are read: those of the windows, and for differences as much
	// before as a bucket is long, or lookback.
	from, to int64
}

// Source is what aggregates are of: the samples of a series, or the differences between them. It has
// a state for each run.
type Source struct {
	Differences bool
	Slot
}

// Slot is a state that a group has for each bucket: of a source, or of the values of an aggregate that are
// aggregated again.
type Slot struct {
	Contents aggregate.Contents
	Outputs  []int // aggregates of the request that are made of it
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
	p.group()
	for _, rate := range []bool{false, true} {
		n, shared := len(p.Sources), Source{Differences: rate}
		for i, a := range p.Aggregates {
			switch {
			case a.Rate != rate:
			case a.Own != nil || a.Reads&aggregate.Times != 0:
				p.Sources = append(p.Sources, Source{rate, Slot{contentsOf(a.Definition), []int{i}}})
			default:
				shared.Contents.Parts |= contentsOf(a.Definition).Parts
				shared.Outputs = append(shared.Outputs, i)
			}
		}
		if len(shared.Outputs) > 0 {
			p.Sources = append(p.Sources, shared)
		}
		if rate && len(p.Sources) > n {
			p.from -= max(lookback, int64(r.Layout.Every.Millis()))
		}
	}
	if p.Reaggregate == nil {
		for _, source := range p.Sources {
			p.Slots = append(p.Slots, source.Slot)
		}
		return p, nil
	}
	for i := range p.Sources {
		p.Sources[i].Contents.Parts &^= aggregate.Merging
	}
	for i := range p.Aggregates {
		p.Slots = append(p.Slots, Slot{contentsOf(p.Reaggregate), []int{i}})
	}
	return p, nil
}

// contentsOf are the contents of the states that a definition is made of. The count says whether
// there are samples.
func contentsOf(d *aggregate.Definition) aggregate.Contents {
	return aggregate.Contents{Parts: (d.Reads | aggregate.Count).With(), Own: d.Own}
}

// group has the definitions whose states cannot be merged do without that where they would be.
func (p *Plan) group() {
	switch {
	case p.Reaggregate != nil && p.Reaggregate.Grouped != nil:
		p.Reaggregate = p.Reaggregate.Grouped
	case p.Reaggregate == nil && p.Grouping != nil:
		p.Aggregates = slices.Clone(p.Aggregates)
		for i := range p.Aggregates {
			if of := &p.Aggregates[i]; of.Grouped != nil {
				of.Definition = of.Grouped
			}
		}
	}
}

// Request is a resample request.
type Request struct {
	Selectors  [][]*labels.Matcher // series of any of them
	Start, End int64               // ms; closed on the side where buckets are
	Layout     bucket.Layout
	Aggregates []aggregate.Aggregate
	// Grouping says whose samples go into one bucket; nil is each series' own.
	Grouping *Grouping
	// Reaggregate is made of the values that the series of a group have in a bucket, in place of
	// the aggregates of their samples together. nil is none.
	Reaggregate *aggregate.Definition
	Fill        Fill
	Limit       int  // the most series of the answer; 0 is no limit
	Explained   bool // the answer says how it was computed, and what each stage took
	Executor    Choice
	Strict      bool // with ChooseGPU it fails where no GPU computes it
}

// Grouping is by labels, or by all but some.
type Grouping struct {
	Without bool
	Labels  []string // in order
}

// Filling says what the value of a bucket without samples is.
type Filling byte

// The fillings. A series without any sample is not in the answer, whatever the filling.
const (
	FillNone   Filling = iota // the bucket is not in the answer
	FillNull                  // Null
	FillPrev                  // that of the bucket before; none before the first
	FillLinear                // on a line between the buckets before and behind; none outside
	FillNumber                // a number
)

// Fill is a Filling and its number.
type Fill struct {
	Filling
	Number float64
}

// LabelAggregate is the label that says which aggregate a series of the answer is.
const LabelAggregate = "aggregate"
