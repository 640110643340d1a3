package abi

// Found is the number of an aggregate that another kernel has made already, of the order of a run's
// values. Mirrors resample.h.
const Found = 1<<32 - 1

// LongestRun is the most samples of a run that run_order sorts; GroupOrderBlock is the most threads of a
// block of group_order.
const (
	LongestRun      = 2048
	GroupOrderBlock = 256
	MergeRows       = 3 // sets of parts that a block of merge_parts has threads for
)

// The parts of states that merge_parts merges, and those that count_states makes, but count_uniqs does not.
// Mirror resample.h.
const (
	MergeParts = 8 | 16 | 64
	StateParts = MergeParts | 32
)
