package vector

import (
	"math"
	"math/bits"
	"time"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// unary are the functions of one value in plan.Maps that take no constant.
var unary = map[string]func(float64) float64{
	"neg":   func(v float64) float64 { return -v },
	"abs":   math.Abs,
	"ceil":  math.Ceil,
	"floor": math.Floor,
	"sgn": func(v float64) float64 {
		switch {
		case v < 0:
			return -1
		case v > 0:
			return 1
		}
		return v
	},
	"sqrt": math.Sqrt, "exp": math.Exp, "ln": math.Log, "log2": math.Log2, "log10": math.Log10,
	"sin": math.Sin, "cos": math.Cos, "tan": math.Tan,
	"asin": math.Asin, "acos": math.Acos, "atan": math.Atan,
	"sinh": math.Sinh, "cosh": math.Cosh, "tanh": math.Tanh,
	"asinh": math.Asinh, "acosh": math.Acosh, "atanh": math.Atanh,
	"deg": func(v float64) float64 { return v * 180 / math.Pi },
	"rad": func(v float64) float64 { return v * math.Pi / 180 },
}

// arithmetic are the operators of plan.Maps that yield a value.
var arithmetic = map[string]func(a, b float64) float64{
	"+":     func(a, b float64) float64 { return a + b },
	"-":     func(a, b float64) float64 { return a - b },
	"*":     func(a, b float64) float64 { return a * b },
	"/":     func(a, b float64) float64 { return a / b },
	"%":     math.Mod,
	"^":     math.Pow,
	"atan2": math.Atan2,

	"min_of": math.Min, "max_of": math.Max, // of two scalars
}

// comparisons are the operators of plan.Maps that keep a value or drop it.
var comparisons = map[string]func(a, b float64) bool{
	"==": func(a, b float64) bool { return a == b },
	"!=": func(a, b float64) bool { return a != b },
	">":  func(a, b float64) bool { return a > b },
	"<":  func(a, b float64) bool { return a < b },
	">=": func(a, b float64) bool { return a >= b },
	"<=": func(a, b float64) bool { return a <= b },
}

// valueFunc returns the function of one value that m applies, or nil if it
// compares.
func valueFunc(m *plan.Map) func(float64) float64 {
	if f, ok := unary[m.Func.Name]; ok {
		return f
	}
	if f, ok := dates[m.Func.Name]; ok {
		return func(v float64) float64 { return f(time.Unix(int64(v), 0).UTC()) }
	}
	if f, ok := arithmetic[m.Func.Name]; ok {
		c := m.Args[0]
		if m.Swap {
			return func(v float64) float64 { return f(c, v) }
		}
		return func(v float64) float64 { return f(v, c) }
	}
	switch m.Func.Name {
	case "round":
		// Inverting first costs fewer roundings, says Prometheus.
		inverse := 1.0 / m.Args[0]
		return func(v float64) float64 { return math.Floor(float64(v*inverse)+0.5) / inverse }
	case "clamp":
		return clamped(m.Args[0], m.Args[1])
	case "clamp_min":
		return clamped(m.Args[0], math.Inf(1))
	case "clamp_max":
		return clamped(math.Inf(-1), m.Args[0])
	}
	return nil
}

func clamped(low, high float64) func(float64) float64 {
	return func(v float64) float64 { return math.Max(low, math.Min(high, v)) }
}

// mapper applies a map to rows.
type mapper struct {
	value func(float64) float64
	keep  func(float64) bool
	// Operators with a constant have loops over up to 64 values: all changes
	// them in place, holds is a bitmap of those that a comparison holds for.
	all   func(vals []float64)
	holds func(vals []float64) uint64
}

func newMapper(m *plan.Map) mapper {
	f := mapper{value: valueFunc(m)}
	switch {
	case m.Func.Compares:
		f.holds = holdsFor(m)
		if m.Bool {
			f.all = truthsOf(f.holds)
		}
	case arithmetic[m.Func.Name] != nil:
		f.all = withConstant(m)
	}
	return f
}

// truthsOf returns a loop that puts 1 where a comparison holds and 0 elsewhere.
func truthsOf(holds func(vals []float64) uint64) func(vals []float64) {
	return func(vals []float64) {
		mask := holds(vals)
		for k := range vals {
			vals[k] = float64(mask >> (k & 63) & 1)
		}
	}
}

// Map implements operator.Mapper.
func (m mapper) Map(r dense.Row) (points int) {
	for w, p := range r.Present {
		if p == 0 {
			continue
		}
		vals := r.Values[w<<6 : min(w<<6+64, len(r.Values))]
		switch {
		case m.all != nil:
			m.all(vals) // what is where there is no value does not matter
		case m.holds != nil:
			p &= m.holds(vals)
			r.Present[w] = p
		case bits.OnesCount64(p) == len(vals):
			for k, v := range vals {
				vals[k] = m.value(v)
			}
		default:
			for q := p; q != 0; q &= q - 1 {
				k := bits.TrailingZeros64(q)
				vals[k] = m.value(vals[k])
			}
		}
		points += bits.OnesCount64(p)
	}
	return points
}

// checkMapped raises Prometheus's error if a map's input, its constants and its
// result are more samples than may be held at once. in and out are samples,
// series is the number of series that the input has at most at one step.
func checkMapped(q *operator.Query, m *plan.Map, in, out, series int) error {
	if m.Func.Name == "neg" {
		return nil // changes its input in place
	}
	return q.CheckSteps(m, m.Scalars, in, out, series)
}
