package abi

// Found is the number of an aggregate that another kernel has made already, of the order of a run's
// values. Mirrors resample.h.
const Found = 1<<32 - 1

// LongestRun is the most samples of a run that run_order sorts; GroupOrderBlock is the most threads of a
// block of group_order.
const (
	LongestRun      = 2048
	GroupOrderBlock = 256
	KeysWarps       = 4 // of a block of series_keys
	StateLine       = 8 // buckets whose states a warp stores at once, at most
	FieldBlock      = 4 // buckets whose fields lie side by side, see States in ../resample/state.h
)

// The parts of states that merge_parts merges, and those that count_states makes, but count_uniqs does not.
// Mirror resample.h.
const (
	MergeParts = 8 | 16 | 64
	StateParts = MergeParts | 32
)
