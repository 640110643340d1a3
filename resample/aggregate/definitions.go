package aggregate

import (
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/promwarp/promwarp/cpuexec/exact"
)

// Definition is an aggregate, of which all there is to know is here.
type Definition struct {
	Name    string
	Aliases []string // names in other tools
	Reads   Parts
	// Quantile aggregates have a number before their name: 95pct.
	Quantile bool
	// Reaggregates says that it may be made of the values of several series, too.
	Reaggregates bool
	// Result is the aggregate's value; q is the quantile, of 0 to 1.
	Result func(s *State, q float64) float64
}

// Definitions are all aggregates, in the order of the documentation.
var Definitions = []*Definition{
	{Name: "count", Reads: Count, Reaggregates: true, Result: func(s *State, _ float64) float64 { return float64(s.N) }},
	{Name: "sum", Reads: Sum, Reaggregates: true, Result: func(s *State, _ float64) float64 { return s.total() }},
	{Name: "mean", Aliases: []string{"avg", "average"}, Reads: Mean, Reaggregates: true, Result: func(s *State, _ float64) float64 { return s.Mean }},
	{Name: "min", Reads: Extremes, Reaggregates: true, Result: func(s *State, _ float64) float64 { return s.Min }},
	{Name: "max", Reads: Extremes, Reaggregates: true, Result: func(s *State, _ float64) float64 { return s.Max }},
	{Name: "range", Aliases: []string{"spread"}, Reads: Extremes, Result: func(s *State, _ float64) float64 { return s.Max - s.Min }},
	{Name: "std", Aliases: []string{"stddev", "stddev_pop", "stdev"}, Reads: Squares | Count, Reaggregates: true, Result: func(s *State, _ float64) float64 { return math.Sqrt(s.Squares / float64(s.N)) }},
	{Name: "var", Aliases: []string{"stdvar", "variance", "var_pop"}, Reads: Squares | Count, Reaggregates: true, Result: func(s *State, _ float64) float64 { return s.Squares / float64(s.N) }},
	{Name: "first", Aliases: []string{"first_value"}, Reads: Ends, Result: func(s *State, _ float64) float64 { return s.First }},
	{Name: "last", Aliases: []string{"last_value"}, Reads: Ends, Result: func(s *State, _ float64) float64 { return s.Last }},
	{Name: "time_weighted_mean", Aliases: []string{"time_weighted_average", "twa"}, Reads: Weighted, Result: weightedMean},
	{Name: "median", Reads: Values, Reaggregates: true, Result: func(s *State, _ float64) float64 { return exact.SortedQuantile(0.5, s.order()) }},
	{Name: "pct", Reads: Values, Quantile: true, Result: func(s *State, q float64) float64 { return exact.SortedQuantile(q, s.order()) }},
	{Name: "nunique", Aliases: []string{"n_unique", "count_distinct"}, Reads: Values, Result: distinct},
}

// order is the values in order, NaN first.
func (s *State) order() []float64 {
	if !s.sorted {
		slices.Sort(s.Values)
		s.sorted = true
	}
	return s.Values
}

func weightedMean(s *State, _ float64) float64 {
	if math.IsInf(s.Area, 0) {
		return s.Area
	}
	return (s.Area + s.AreaC) / s.Lap
}

// distinct counts the values that differ; all NaN are one, and so are both zeros.
func distinct(s *State, _ float64) float64 {
	vs := s.order()
	n := 1
	for i := 1; i < len(vs); i++ {
		if vs[i] != vs[i-1] && vs[i] == vs[i] {
			n++
		}
	}
	return float64(n)
}

// Aggregate is an aggregate of a request.
type Aggregate struct {
	*Definition
	Text string // as the request has it
	Q    float64
	// Rate says that it is of the differences between consecutive samples; see Differences.
	Rate bool
}

// ratePrefix is what stands before the name of an aggregate of differences.
const ratePrefix = "rate:"

// UnknownError is the error of a name that no aggregate has.
type UnknownError struct{ Nearest string }

func (e *UnknownError) Error() string { return "there is no such aggregate" }

// PercentError is the error of a percentile that is not within 0 to 100.
type PercentError struct{}

func (PercentError) Error() string { return "a percentile is from 0pct to 100pct" }

// Parse reads the name of an aggregate, such as mean, 99.9pct or rate:max. It fails with an
// *UnknownError or a PercentError.
func Parse(text string) (Aggregate, error) {
	name, rate := strings.CutPrefix(text, ratePrefix)
	a := Aggregate{Text: text, Rate: rate}
	number, isQuantile := strings.CutSuffix(name, "pct")
	if isQuantile && number != "" {
		percent, err := strconv.ParseFloat(number, 64)
		if err == nil {
			if !(percent >= 0 && percent <= 100) {
				return a, PercentError{}
			}
			// Of the text, so that 99.9pct is 0.999 and not a float beside it.
			if a.Q, err = strconv.ParseFloat(number+"e-2", 64); err != nil {
				a.Q = percent / 100
			}
			a.Definition = quantile
			return a, nil
		}
	}
	a.Definition = byName[name]
	if a.Definition == nil {
		e := &UnknownError{Nearest: Nearest(name, Names())}
		if rate && e.Nearest != "" {
			e.Nearest = ratePrefix + e.Nearest
		}
		return a, e
	}
	return a, nil
}

var quantile *Definition

// byName are the definitions without a number by all of their names.
var byName = func() map[string]*Definition {
	m := map[string]*Definition{}
	for _, d := range Definitions {
		if d.Quantile {
			quantile = d
			continue
		}
		for _, name := range append([]string{d.Name}, d.Aliases...) {
			m[name] = d
		}
	}
	return m
}()

// Names are the names of all aggregates, with an example of those that have a number.
func Names() (names []string) {
	for _, d := range Definitions {
		if d.Quantile {
			names = append(names, "95"+d.Name)
			continue
		}
		names = append(names, d.Name)
	}
	return names
}

// Nearest is the name that takes the fewest changes to become from text, at most a third of its
// length and one; or nothing.
func Nearest(text string, names []string) (nearest string) {
	if len(text) > 64 {
		return ""
	}
	least := len(text)/3 + 2
	for _, name := range names {
		if n := changes(text, name); n < least {
			least, nearest = n, name
		}
	}
	return nearest
}

// changes is Levenshtein's distance in bytes.
func changes(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			n := diagonal
			if a[i] != b[j] {
				n = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], n
		}
	}
	return row[len(b)]
}

// Differences puts the differences between consecutive samples into out, which has room for them,
// and returns them. Difference i is of sample i+1 and at its time. A counter that falls began anew
// at 0, as in Prometheus's increase.
func Differences(vs, out []float64) []float64 {
	out = out[:max(0, len(vs)-1)]
	for i := range out {
		out[i] = vs[i+1] - vs[i]
		if vs[i+1] < vs[i] {
			out[i] = vs[i+1]
		}
	}
	return out
}

// Aliases are the names that stand for others, in order.
func Aliases() (pairs [][2]string) {
	for _, d := range Definitions {
		for _, a := range d.Aliases {
			pairs = append(pairs, [2]string{a, d.Name})
		}
	}
	sort.Slice(pairs, func(i, j int) bool { return pairs[i][0] < pairs[j][0] })
	return pairs
}
