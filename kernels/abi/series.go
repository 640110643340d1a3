package abi

// Decoded is what decode_series reports of a chunk.
type Decoded struct {
	End     int64  // time of its last sample in ms
	Samples uint32 // in its column
	_       uint32 // which of them is less than the one before
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
// MixedZeros that of window_select where the answer depends on how zeros of either
// sign are sorted.
const (
	NoFault    = 1<<64 - 1
	MixedZeros = NoFault - 1
	LongRun    = NoFault - 2 // of run_order: a run is too long to be sorted
)

// What a Policy's Pane can be.
const (
	ExtremeBytes = 12 // for Min and Max
	TotalBytes   = 40 // for Sum and Avg
)
