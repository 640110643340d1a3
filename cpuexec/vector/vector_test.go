package vector

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact/exacttest"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// TestMathOfOurOwn: remainders, powers, angles and what goes back to an angle have the bits of Go's.
func TestMathOfOurOwn(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 7))
	for range 200_000 {
		a, b := exacttest.Odd(r), exacttest.Odd(r)
		switch r.IntN(4) {
		case 0:
			b = float64(r.IntN(2000) - 1000)
		case 1:
			a = float64(b * float64(r.Int64N(1<<54)))
		case 2:
			a = math.Float64frombits(math.Float64bits(float64(b*float64(r.IntN(1000)))) - uint64(r.IntN(3)))
		}
		exacttest.RequireSame(t, []float64{math.Mod(a, b), math.Pow(a, b), math.Pow(a, 2)}, []float64{mod(a, b), pow(a, b), pow(a, 2)}, fmt.Sprint(a, b))
		for _, x := range []float64{a, math.Float64frombits(r.Uint64()), math.Ldexp(r.Float64()-0.5, r.IntN(70)-10), math.Pi / 4 * float64(r.IntN(100)-50)} {
			exacttest.RequireSame(t, []float64{math.Sin(x), math.Cos(x), math.Tan(x), math.Atan2(x, b)}, []float64{sin(x), cos(x), tan(x), atan2(x, b)}, fmt.Sprint(x, b))
		}
	}
}

// goMath are the functions of one value that Prometheus calls.
var goMath = map[string]func(float64) float64{
	"abs": math.Abs, "ceil": math.Ceil, "floor": math.Floor, "sqrt": math.Sqrt, "exp": math.Exp, "ln": math.Log, "log2": math.Log2,
	"log10": math.Log10, "sin": math.Sin, "cos": math.Cos, "tan": math.Tan, "asin": math.Asin, "acos": math.Acos, "atan": math.Atan,
	"sinh": math.Sinh, "cosh": math.Cosh, "tanh": math.Tanh, "asinh": math.Asinh, "acosh": math.Acosh, "atanh": math.Atanh,
}

// TestMathOfRows: rows of values that functions of one value have made, four at a time or not, have the
// bits of Go's: of any bits, of any magnitude, of powers of two, and around bounds of Go's functions.
func TestMathOfRows(t *testing.T) {
	bounds := []float64{
		0, math.NaN(), math.Inf(1), math.SmallestNonzeroFloat64, 0x1p-1022, 0x1p-28, 0x1p-54, 0.5, 0.625, 0.7, math.Sqrt2 / 2, 1, math.Sqrt2, 2, 21, 44,
		0x1p28, 0x1p29, 0x1p55, 708, 709, 709.78271289338397, 710.4758600739439, 745.13321910194122, 0x1p511, 0x1p512, math.MaxFloat64,
	}
	for exponent := -1074; exponent < 1024; exponent++ {
		bounds = append(bounds, math.Ldexp(1, exponent))
	}
	around := func(k int) float64 {
		return math.Float64frombits(math.Float64bits(bounds[k/82]) + uint64(k%41) - 20 | uint64(k%82/41)<<63)
	}
	for name, function := range goMath {
		t.Run(name, func(t *testing.T) {
			random := 500_000
			switch {
			case testing.Short():
				random = 100_000
			case Of(Named(name)).vector != nil:
				random = 10_000_000
			}
			r := rand.New(rand.NewPCG(7, 9))
			m, near, in, of := newMapper(&plan.Map{Func: Named(name)}), 82*len(bounds), dense.New(1000), make([]float64, 1000)
			in.Mark(0, len(of))
			for first := 0; first < random+near; first += len(of) {
				for k := range of {
					switch at := first + k; {
					case at < near:
						of[k] = around(at)
					case at%2 == 0 || at%64 < 16:
						of[k] = math.Float64frombits(r.Uint64())
					case at%128 < 64:
						of[k] = r.NormFloat64() * 400
					default:
						of[k] = math.Ldexp(r.Float64(), r.IntN(50)-10)
					}
				}
				copy(in.Values, of)
				require.Equal(t, len(of), m.Map(in))
				for k, v := range of {
					if got, want := math.Float64bits(in.Values[k]), math.Float64bits(function(v)); got != want && (v == v || !math.IsNaN(in.Values[k])) {
						t.Fatalf("%s of %v, %#x: %#x, not %#x", name, v, math.Float64bits(v), got, want)
					}
				}
			}
		})
	}
}

// TestDates: what functions tell of a time is what package time says, also of values that are no times.
func TestDates(t *testing.T) {
	tells := map[string]func(time.Time) int{
		"minute": time.Time.Minute, "hour": time.Time.Hour, "day_of_week": func(t time.Time) int { return int(t.Weekday()) },
		"day_of_month": time.Time.Day, "day_of_year": time.Time.YearDay, "month": func(t time.Time) int { return int(t.Month()) },
		"year": time.Time.Year,
		"days_in_month": func(t time.Time) int {
			return 32 - time.Date(t.Year(), t.Month(), 32, 0, 0, 0, 0, time.UTC).Day()
		},
	}
	check := func(v float64) {
		at := time.Unix(int64(v), 0).UTC()
		for name, want := range tells {
			if got := Of(Named(name)).value(nil)(v); got != float64(want(at)) {
				t.Fatalf("%s of %v, %v: %v", name, v, at, got)
			}
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, -math.MaxFloat64, math.MaxInt64, math.MinInt64, -0.5} {
		check(v)
		check(math.Nextafter(v, 0))
	}
	for day := range 800 * 366 {
		check(float64(day-400*366) * 86400)
	}
	r := rand.New(rand.NewPCG(3, 7))
	for range 20_000 {
		check(exacttest.Odd(r))
		check(float64(r.Int64() - 1<<62))
		check((r.Float64() - 0.5) * math.Pow(2, float64(r.IntN(64))))
	}
}

// TestMapper: maps change the values that are there as their functions say, and
// comparisons keep those for which they hold.
func TestMapper(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, name := range Names() {
		f := Named(name)
		for range 300 {
			m := &plan.Map{Func: f, Swap: r.IntN(2) == 0, Bool: f.Compares && r.IntN(2) == 0}
			for range f.Args {
				m.Args = append(m.Args, exacttest.Odd(r))
			}
			in := dense.New(1 + r.IntN(200))
			for w := range in.Present {
				in.Present[w] = []uint64{0, ^uint64(0), r.Uint64()}[r.IntN(3)]
			}
			if over := len(in.Values) & 63; over > 0 {
				in.Present[len(in.Present)-1] &= 1<<over - 1
			}
			for k := range in.Values {
				if in.Values[k] = exacttest.Odd(r); f.Args > 0 && r.IntN(4) == 0 {
					in.Values[k] = m.Args[0]
				}
			}
			var want, got []float64
			for k, v := range in.Values {
				if in.Present[k>>6]>>(k&63)&1 == 0 {
					continue
				}
				a, b := v, 0.0
				if f.Args > 0 {
					if b = m.Args[0]; m.Swap {
						a, b = b, a
					}
				}
				switch {
				case m.Bool:
					want = append(want, ScalarFunc(f)(a, b))
				case !f.Compares && Of(f).arithmetic == nil:
					want = append(want, Of(f).value(m.Args)(v))
				case !f.Compares:
					want = append(want, Of(f).arithmetic(a, b))
				case ScalarFunc(f)(a, b) == 1:
					want = append(want, v)
				}
			}
			n := newMapper(m).Map(in)
			for k, v := range in.Values {
				if in.Present[k>>6]>>(k&63)&1 == 1 {
					got = append(got, v)
				}
			}
			require.Equal(t, len(want), n, name)
			exacttest.RequireSame(t, want, got, name)
		}
	}
}

// BenchmarkMaps measures maps of 1440 values, one at every step.
func BenchmarkMaps(b *testing.B) {
	const steps = 1440
	for _, m := range []*plan.Map{
		{Func: Named("*"), Args: []float64{1}},
		{Func: Named("-"), Args: []float64{1}, Swap: true},
		{Func: Named("/"), Args: []float64{1}},
		{Func: Named(">"), Args: []float64{-1}},
		{Func: Named("=="), Args: []float64{3}, Bool: true},
		{Func: Named("abs")},
		{Func: Named("clamp_min"), Args: []float64{1}},
	} {
		name := m.Func.Name
		if name == "/" {
			name = "over"
		}
		b.Run(name, func(b *testing.B) {
			in := dense.New(steps)
			for k := range in.Values {
				in.Values[k] = float64(k)
			}
			in.Mark(0, steps)
			f := newMapper(m)
			b.SetBytes(8 * steps)
			for b.Loop() {
				f.Map(in)
			}
		})
	}
}

// BenchmarkMath measures functions of 1440 values, as maps have them and as Go has them.
func BenchmarkMath(b *testing.B) {
	values, in := make([]float64, 1440), dense.New(1440)
	for k := range values {
		values[k] = 100 + float64(k*7919%1440)/10
	}
	in.Mark(0, len(values))
	for _, name := range slices.Sorted(maps.Keys(goMath)) {
		m := newMapper(&plan.Map{Func: Named(name)})
		for of, m := range map[string]mapper{"map": m, "go": {value: goMath[name]}} {
			b.Run(name+"/"+of, func(b *testing.B) {
				b.SetBytes(8 * int64(len(values)))
				for b.Loop() {
					copy(in.Values, values)
					m.Map(in)
				}
			})
		}
	}
}

// BenchmarkCombine measures operators on 3000 series of 1440 steps by
// themselves: matching the series, computing the values and adding them to ten
// groups.
func BenchmarkCombine(b *testing.B) {
	const series, steps = 3000, 1440
	rows := func(name string) []plan.Row {
		out := make([]plan.Row, series)
		for i := range out {
			out[i] = plan.Row{
				Labels: labels.FromStrings("__name__", name, "instance", fmt.Sprintf("i-%04d", i), "version", fmt.Sprint("v", i%10)),
				Values: make([]float64, steps), Runs: []plan.Run{{Len: steps}},
			}
			for k := range out[i].Values {
				out[i].Values[k] = float64(i*k%1000) / 3
			}
		}
		return out
	}
	lhs, rhs := rows("a"), rows("b")
	on := &parser.VectorMatching{On: true, MatchingLabels: []string{"instance"}, Card: parser.CardManyToOne, Include: []string{"version"}}
	binary := func(op string, asBool bool) plan.Node {
		return &plan.Binary{Func: Named(op), Matching: on, Bool: asBool}
	}
	for name, n := range map[string]plan.Node{
		"times": binary("*", false), "modulo": binary("%", false), "greater": binary(">", false), "greater bool": binary(">", true),
		"and": &plan.Set{Op: plan.And, Matching: on}, "unless": &plan.Set{Op: plan.Unless, Matching: on},
		"scalar": &plan.StepMap{Func: Named("/")},
	} {
		b.Run(name, func(b *testing.B) {
			q := &operator.Query{Context: context.Background(), Grid: plan.Grid{Interval: 1, Steps: steps}, Workers: runtime.GOMAXPROCS(0), Matrix: &plan.Matrix{}}
			of := func(rows []plan.Row) operator.Operator {
				return &Stream{Query: q, Of: &operator.Finished{Query: q, Eval: func() ([]plan.Row, error) { return rows, nil }}}
			}
			by := &plan.Aggregate{Func: aggregate.Named("sum"), Grouping: []string{"version"}}
			for b.Loop() {
				inputs := []operator.Operator{of(lhs), of(rhs)}
				if name == "scalar" {
					inputs[1] = of(rhs[:1])
				}
				require.NoError(b, operator.Drive(&Stream{Query: q, Of: NewCombined(q, n, inputs)}, func(s *operator.Series) operator.Sink {
					return aggregate.NewAdder(by, q, s, false)
				}))
				b.SetBytes(8 * series * steps)
			}
		})
	}
}
