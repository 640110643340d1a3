package abi

// Found is the number of an aggregate that another kernel has made already, of the order of a run's
// values. Mirrors resample.h.
const Found = 1<<32 - 1

// The parts of a state that kernels know, with the bits of resample/aggregate's Parts.
const (
	CountPart    = 1
	SumPart      = 2
	MeanPart     = 4
	ExtremesPart = 8
	EndsPart     = 16
	SquaresPart  = 32
	WeightedPart = 64
	ValuesPart   = 128
)

// LongestRun is the most samples of a run that run_order sorts; GroupOrderBlock is the most threads of a
// block of group_order.
const (
	LongestRun      = 2048
	GroupOrderBlock = 256
	RunRowsWarps    = 8 // of a block of run_rows
	MergeParts      = 4 // sets of parts that a block of merge_runs has threads for
)

// RunFields is the number of 8-byte fields that kernels store of the state of a run with those
// parts, besides the number of its samples (a uint32).
func RunFields(parts uint32) (n int) {
	for _, p := range []struct{ part, fields int }{
		{SumPart, 2}, {ExtremesPart, 2}, {EndsPart, 4}, {SquaresPart, 1}, {WeightedPart, 3},
	} {
		if parts&uint32(p.part) != 0 {
			n += p.fields
		}
	}
	return n
}
