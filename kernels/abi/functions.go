package abi

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

// Statistic is a function of window_statistic.
type Statistic uint32

// The functions of window_statistic. Predictions and smoothing have parameters.
const (
	StatisticVariance Statistic = iota
	StatisticDeviation
	StatisticSlope
	StatisticPrediction
	StatisticSmoothing
	StatisticTimeOfMin
	StatisticTimeOfMax
)

// Operator is an operator of group_accumulate, or of window_over and window_panes, which
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
