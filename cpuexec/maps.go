package cpuexec

import (
	"context"
	"math"
	"math/bits"

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
// filters.
func valueFunc(m *plan.Map) func(float64) float64 {
	if f, ok := unary[m.Func.Name]; ok {
		return f
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
	if m.Bool {
		keep := keepFunc(m)
		return func(v float64) float64 {
			if keep(v) {
				return 1
			}
			return 0
		}
	}
	return nil
}

func clamped(low, high float64) func(float64) float64 {
	return func(v float64) float64 { return math.Max(low, math.Min(high, v)) }
}

// keepFunc returns the comparison that m makes.
func keepFunc(m *plan.Map) func(float64) bool {
	f, c := comparisons[m.Func.Name], m.Args[0]
	if m.Swap {
		return func(v float64) bool { return f(c, v) }
	}
	return func(v float64) bool { return f(v, c) }
}

// mapper applies a map to rows.
type mapper struct {
	value func(float64) float64
	keep  func(float64) bool
}

func newMapper(m *plan.Map) mapper {
	if f := valueFunc(m); f != nil {
		return mapper{value: f}
	}
	return mapper{keep: keepFunc(m)}
}

// apply changes r in place and returns the number of its values.
func (m mapper) apply(r row) (points int) {
	for w, p := range r.present {
		for q := p; q != 0; q &= q - 1 {
			k := w<<6 + bits.TrailingZeros64(q)
			if m.value != nil {
				r.vals[k] = m.value(r.vals[k])
			} else if !m.keep(r.vals[k]) {
				p &^= 1 << (k & 63)
			}
		}
		r.present[w] = p
		points += bits.OnesCount64(p)
	}
	return points
}

// mapRows applies a map to the rows of an inner result.
func mapRows(ctx context.Context, in []plan.Row, m mapper, steps int) []plan.Row {
	out := in[:0]
	dense := row{vals: make([]float64, steps), present: make([]uint64, (steps+63)/64)}
	for _, r := range in {
		if ctx.Err() != nil {
			break
		}
		clear(dense.present)
		expand(r, dense)
		if n := m.apply(dense); n > 0 {
			out = append(out, compact(dense, steps, n, plan.Row{Labels: r.Labels}))
		}
	}
	return out
}

// compact writes the n values of a dense row into a sparse one.
func compact(in row, steps, n int, out plan.Row) plan.Row {
	out.Runs = runs(in.present, steps)
	out.Values = make([]float64, 0, n)
	for _, run := range out.Runs {
		out.Values = append(out.Values, in.vals[run.First:run.First+run.Len]...)
	}
	return out
}
