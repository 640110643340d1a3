// Package abi has what the host and the kernels both speak of: the layouts of what they hand
// to each other, the policies and the numbers of functions, and the shapes of blocks. Go files mirror the
// headers of their names; those of numbers are generated from the definitions of functions.
package abi

// MinMajor and MinMinor are the lowest compute capability that the PTX is for.
const MinMajor, MinMinor = 7, 5

// TileChunks is the number of chunks in a tile. A tile's columns lie transposed:
// row i holds sample i of each of its chunks.
const TileChunks = 32

// The shapes of blocks: threads of the kernels.
const (
	DecodeBlock   = 128
	CheckBlock    = 256
	WindowBlock   = 128
	OrderBlock    = 64 // of window_distance and window_recent
	WindowLine    = 16 // steps of a series that window kernels store at once
	ResultBlock   = 128
	RowsBlock     = 32 // steps, as of group_quantile
	SharedBlock   = 16 // steps, and as many rows of threads, that share a group in group_accumulate
	RankSteps     = 8  // of few groups in group_rank: docs/experiments.md, heaps of topk
	RankRows      = 32 // threads that share one of these
	QuantileParts = 32 // the most threads that share a group's series in group_quantile
)

// RecentSamples is the number of samples of a series that a thread of window_recent keeps.
const RecentSamples = 32

// OrderMost is the largest number of samples in a window that window_distance sorts.
const OrderMost = 64
