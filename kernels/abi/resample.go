package abi

// Found is the number of an aggregate that another kernel has made already, of the order of a run's
// values. Mirrors resample.h.
const Found = 1<<32 - 1

// LongestRun is the most samples of a run that run_order sorts; GroupOrderBlock is the most threads of a
// block of group_order.
const (
	LongestRun      = 2048
	GroupOrderBlock = 256
	RunRowsWarps    = 8 // of a block of run_rows
	KeysWarps       = 4 // of a block of series_keys
	MergeParts      = 4 // sets of parts that a block of merge_runs has threads for
)
