package kernels

// Decoded is what decode_series reports of a chunk.
type Decoded struct {
	End  int64  // time of its last sample in ms
	Kept uint32 // samples in its column
	_    uint32 // whether one of them is less than the one before
}

// SeriesCounts are what the sample limit needs of a series, as the window kernels
// count them.
type SeriesCounts struct {
	Points uint32 // steps with a value
	Most   uint32 // samples in its largest window
	Last   uint32 // samples in the window of the last step
}

// State is the state of an aggregation for a group at a step. All zeros is that
// of no values.
type State struct {
	Value, Lost float64
	N, Running  uint32
}

// Absent is the bits of a value that is not there: Prometheus's stale marker,
// which no function returns.
const Absent = 0x7ff0000000000002

// NoFault is the fault word of decode_series as long as no chunk is corrupt, and
// MixedZeros that of window_order where the answer depends on how zeros of either
// sign are sorted.
const (
	NoFault    = 1<<64 - 1
	MixedZeros = NoFault - 1
)

// Ends is a function of window_ends.
type Ends uint32

// The functions of window_ends.
const (
	EndsInstant Ends = iota
	EndsNewest
	EndsOldest
	EndsNewestTime
	EndsOldestTime
	EndsCount
	EndsPresence
	EndsInstantTime
)

// Pairs is a function of window_pairs.
type Pairs uint32

// The functions of window_pairs.
const (
	PairsLastRate Pairs = iota
	PairsLastDifference
	PairsChanges
	PairsResets
)

// Folds is a function of window_fold.
type Folds uint32

// The functions of window_fold. Predictions and smoothing have parameters.
const (
	FoldsVariance Folds = iota
	FoldsDeviation
	FoldsSlope
	FoldsPrediction
	FoldsSmoothing
	FoldsTimeOfMin
	FoldsTimeOfMax
)

// OrderMost is the largest number of samples in a window that window_order sorts.
const OrderMost = 64

// Operator is an operator of group_fold, or of window_all and window_panes, which
// have the first four.
type Operator uint32

// The operators.
const (
	Sum Operator = iota
	Avg
	Min
	Max
	Count
	Group
	StdDev
	StdVar
)

// Map is a function or an operator of map_values. Round has the inverse of what it
// rounds to, Clamp both ends, Scale what it multiplies with and divides by.
type Map uint32

// The maps. Those from Equal on compare.
const (
	Negate Map = iota
	Abs
	Ceil
	Floor
	Sign
	Root
	Round
	Clamp
	Add
	Subtract
	SubtractFrom
	Multiply
	Divide
	DivideInto
	Scale
	Equal
	Unequal
	Greater
	Less
	AtLeast
	AtMost
)

// The bytes of what window_panes keeps of a pane, twice.
const (
	ExtremeBytes = 12 // for Min and Max
	TotalBytes   = 24 // for Sum and Avg
)
