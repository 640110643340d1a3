package resample

import (
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
)

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
	Explained   bool // the answer says how it was computed
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
