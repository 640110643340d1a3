package abi

import "slices"

// Kernel is a kernel that computes several functions. Some have siblings, which compute the
// same by other strategies.
type Kernel string

// The kernels that compute several functions.
const (
	ByEnds      Kernel = "Ends"      // window_ends
	ByRate      Kernel = "Rate"      // window_rate
	ByPairs     Kernel = "Pairs"     // window_pairs
	ByStatistic Kernel = "Statistic" // window_statistic
	ByOrder     Kernel = "Order"     // window_select; or window_distance
	ByOperator  Kernel = "Operator"  // window_over, group_accumulate
	ByMap       Kernel = "Map"       // map_values
	ByRank      Kernel = "Rank"      // group_rank
	ByQuantile  Kernel = "Quantile"  // group_quantile
	ByState     Kernel = "Aggregate" // of resample requests: run_rows
	ByRunOrder  Kernel = "RunOrder"  // run_order, group_order; or group_distinct, which is told nothing
)

// Numbered are the kernels that are told by a number which function to compute. Their names
// are those of the numbers' types in functions.h, and in aggregates.h.
var Numbered = []Kernel{ByEnds, ByPairs, ByStatistic, ByOperator, ByMap, ByState}

// Strategy is a way to have samples for windows.
type Strategy string

// The strategies.
const (
	Stored Strategy = "stored" // chunks are decoded to columns first
	Fused  Strategy = "fused"  // windows are computed while chunks are decoded
	Panes  Strategy = "panes"  // windows are made of panes, or of the windows before
)

// Strategies are the ways in which each kernel of windows computes them.
var Strategies = map[Kernel][]Strategy{
	ByEnds: {Stored, Fused}, ByRate: {Stored, Fused}, ByOperator: {Stored, Fused, Panes},
	ByPairs: {Stored}, ByStatistic: {Stored}, ByOrder: {Stored},
}

// Policy says how kernels compute a function.
type Policy struct {
	Kernel Kernel
	Name   string // among the functions of the kernel
	// Second says which of two functions it is, where there are no numbers: of kernels by order, by
	// rank and by the order of runs.
	Second bool
	Pane   int  // bytes that are kept of a pane; of extremes, twice
	Recent bool // window_recent has the function, too
}

// Number is what the kernel is told. The definitions of functions are in packages above this
// one, and kernels/build makes the table of numbers from them; one that is not in the table
// panics.
func (p Policy) Number() uint32 {
	n := slices.Index(numbered[p.Kernel], p.Name)
	if n < 0 {
		panic("abi: " + string(p.Kernel) + " " + p.Name + " has no number: run make kernels")
	}
	return uint32(n)
}
