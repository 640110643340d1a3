package aggregate

import (
	"cmp"
	"math"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/exact"
	"github.com/promwarp/promwarp/kernels/abi"
)

// Definition is an aggregate, of which all there is to know is here.
type Definition struct {
	Name    string
	Aliases []string // names in other tools
	Reads   Parts
	// Own is the part of a state that this definition alone reads; nil for none.
	Own Own
	// Grouped takes this definition's place where the runs of several series are merged, if this
	// one's states cannot be; nil if they can.
	Grouped *Definition
	// Note says what there is to know of how the aggregate is computed; may be empty.
	Note string
	// Quantile aggregates have a number before their name: 95pct. At is the quantile of one that has
	// none.
	Quantile bool
	At       float64
	// Reaggregates says that it may be made of the values of several series, too.
	Reaggregates bool
	// Results puts the aggregate's value of some of the states into out; q is the quantile, of 0 to 1.
	Results func(in *States, which []int32, q float64, out []float64)
	// GPU is how kernels compute the aggregate, or NoGPU why they do not. Of one with an Own neither is
	// set: its program says it.
	GPU   abi.Policy
	NoGPU string
}

// each is the Results that say what one state comes to.
func each(result func(in *States, k int) float64) func(in *States, which []int32, _ float64, out []float64) {
	return func(in *States, which []int32, _ float64, out []float64) {
		for i, k := range which {
			out[i] = result(in, int(k))
		}
	}
}

// columnOf is the Results that are a column.
func columnOf(column func(in *States) []float64) func(in *States, which []int32, _ float64, out []float64) {
	return func(in *States, which []int32, _ float64, out []float64) {
		of := column(in)
		for i, k := range which {
			out[i] = of[k]
		}
	}
}

// totals are Prometheus's sums.
func totals(in *States, which []int32, _ float64, out []float64) {
	for i, k := range which {
		if out[i] = in.Sum[k]; !math.IsInf(out[i], 0) {
			out[i] += in.C[k]
		}
	}
}

// quantiles is each of quantiles. Zeros of both signs are where Prometheus's sort leaves them, which
// depends on the order of the samples; in groups -0 is before 0.
func quantiles(in *States, which []int32, q float64, out []float64) {
	for i, k := range which {
		vs := in.Values[k]
		if in.grouped && exact.MixedZeros(vs) {
			slices.SortFunc(vs, func(a, b float64) int {
				return cmp.Or(cmp.Compare(a, b), cmp.Compare(math.Copysign(1, a), math.Copysign(1, b)))
			})
		}
		if slices.IsSorted(vs) { // as those of counters are, and of what stays the same
			out[i] = exact.SortedQuantile(q, vs)
		} else {
			out[i] = exact.Quantile(q, vs)
		}
	}
}

// quantile has a number before its name.
var quantile = &Definition{
	Name: "pct", Reads: Values, Quantile: true,
	GPU:     abi.Policy{Kernel: abi.ByRunOrder, Name: "Quantile"},
	Results: quantiles,
}

// Definitions are all aggregates, in the order of the documentation.
var Definitions = []*Definition{
	{Name: "count", Reads: Count, Reaggregates: true,
		GPU:     abi.Policy{Kernel: abi.ByState, Name: "CountOf"},
		Results: columnOf(func(s *States) []float64 { return s.N })},
	{Name: "sum", Reads: Sum, Reaggregates: true,
		GPU:     abi.Policy{Kernel: abi.ByState, Name: "SumOf"},
		Results: totals},
	{Name: "mean", Aliases: []string{"avg", "average"}, Reads: Mean, Reaggregates: true,
		GPU:     abi.Policy{Kernel: abi.ByState, Name: "MeanOf"},
		Results: each((*States).mean)},
	{Name: "min", Reads: Extremes | Least, Reaggregates: true,
		GPU:     abi.Policy{Kernel: abi.ByState, Name: "MinOf"},
		Results: columnOf(func(s *States) []float64 { return s.Min })},
	{Name: "max", Reads: Extremes | Most, Reaggregates: true,
		GPU:     abi.Policy{Kernel: abi.ByState, Name: "MaxOf"},
		Results: columnOf(func(s *States) []float64 { return s.Max })},
	{Name: "range", Aliases: []string{"spread"}, Reads: Extremes | Least | Most,
		GPU:     abi.Policy{Kernel: abi.ByState, Name: "RangeOf"},
		Results: each(func(s *States, k int) float64 { return s.Max[k] - s.Min[k] })},
	{Name: "std", Aliases: []string{"stddev", "stddev_pop", "stdev"}, Reads: Squares | Count, Reaggregates: true,
		GPU:     abi.Policy{Kernel: abi.ByState, Name: "DeviationOf"},
		Results: each(func(s *States, k int) float64 { return math.Sqrt(s.Squares[k] / s.N[k]) })},
	{Name: "var", Aliases: []string{"stdvar", "variance", "var_pop"}, Reads: Squares | Count, Reaggregates: true,
		GPU:     abi.Policy{Kernel: abi.ByState, Name: "VarianceOf"},
		Results: each(func(s *States, k int) float64 { return s.Squares[k] / s.N[k] })},
	{Name: "first", Aliases: []string{"first_value"}, Reads: Ends | Oldest,
		GPU:     abi.Policy{Kernel: abi.ByState, Name: "FirstOf"},
		Results: columnOf(func(s *States) []float64 { return s.First })},
	{Name: "last", Aliases: []string{"last_value"}, Reads: Ends | Newest,
		GPU:     abi.Policy{Kernel: abi.ByState, Name: "LastOf"},
		Results: columnOf(func(s *States) []float64 { return s.Last })},
	{Name: "time_weighted_mean", Aliases: []string{"time_weighted_average", "twa"}, Reads: Weighted,
		GPU:     abi.Policy{Kernel: abi.ByState, Name: "WeightedMeanOf"},
		Results: each((*States).weightedMean)},
	{Name: "median", Reads: Values, Reaggregates: true, At: 0.5,
		GPU:     abi.Policy{Kernel: abi.ByRunOrder, Name: "Quantile"},
		Results: quantiles},
	quantile,
	{Name: "nunique", Aliases: []string{"n_unique", "count_distinct"}, Reads: Values,
		GPU:     abi.Policy{Kernel: abi.ByRunOrder, Name: "Distinct", Second: true},
		Results: each((*States).distinct)},
}

// distinct counts the values that differ; all NaN are one, and so are both zeros.
func (s *States) distinct(k int) float64 {
	vs, n := s.Values[k], 1
	slices.Sort(vs)
	for i := 1; i < len(vs); i++ {
		if vs[i] != vs[i-1] && vs[i] == vs[i] {
			n++
		}
	}
	return float64(n)
}

// Differences puts the differences between consecutive samples into out, which has room for them,
// and returns them. Difference i is of sample i+1 and at its time. A counter that falls began anew
// at 0, as in Prometheus's increase.
func Differences(vs, out []float64) []float64 {
	out = out[:max(0, len(vs)-1)]
	for i := range out {
		before := math.Float64bits(vs[i])
		if vs[i+1] < vs[i] { // of integers the compiler makes no branch, which may not be foreseen
			before = 0
		}
		out[i] = vs[i+1] - math.Float64frombits(before)
	}
	return out
}
