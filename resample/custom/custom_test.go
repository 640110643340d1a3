package custom

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
	"github.com/promwarp/promwarp/resample/custom/customtest"
)

func Example() {
	s, _ := Read([]byte(`
name: mean_step
state: {steps: 0, n: 0}
add:
  steps: steps + abs(v - prev_v)
  n: "first ? n : n + 1"
merge:
  steps: a.steps + b.steps
  n: a.n + b.n
result: steps / n
`))
	d, err := s.Compile()
	if err != nil {
		fmt.Println(err)
		return
	}
	contents := aggregate.Contents{Parts: aggregate.Count, Own: d.Own}
	var states aggregate.States
	contents.Make(&states, &aggregate.Runs{
		Times: []int64{0, 10, 20, 60, 70}, Values: []float64{1, 3, 2, 8, 9},
		Runs: []bucket.Run{{Bucket: 0, First: 0, End: 3}, {Bucket: 1, First: 3, End: 5}},
		Grid: &bucket.Grid{Starts: []int64{0, 60}, Ends: []int64{60, 120}},
	})
	out := make([]float64, 2)
	d.Results(&states, []int32{0, 1}, 0, out)
	fmt.Println(out)
	contents.Merge(&states, []int32{0}, &states, 1)
	d.Results(&states, []int32{0}, 0, out)
	fmt.Println(out[0])
	// Output:
	// [1.5 1]
	// 1.3333333333333333
}

// TestErrors: what is wrong, where, and what to do.
func TestErrors(t *testing.T) {
	const before, after = "{name: f, state: {s: 0, up: false}, add: {s: \"", "\", up: up}, result: s}"
	deep := strings.Repeat("(1 + ", 120) + "v" + strings.Repeat(")", 120)
	var long strings.Builder
	for i := range 300 {
		fmt.Fprintf(&long, "let x%d = v * %d; ", i, i+2)
	}
	for text, want := range map[string]string{
		"{name: '1f', state: {s: 0}, add: {s: s}, result: s}":                   `aggregate "1f", name: "1f" cannot be the name of an aggregate; use at most 64 letters, digits and underscores`,
		"{name: f, aliases: ['rate:x'], state: {s: 0}, add: {s: s}, result: s}": `aggregate "f", name: "rate:x" cannot be the name of an aggregate; use at most 64 letters, digits and underscores`,
		"{name: f, add: {s: s}, result: s}":                                     `aggregate "f", state: it has 0 fields; give 1 to 16, each with its start value`,
		"{name: f, state: {v: 0}, add: {v: v}, result: v}":                      `aggregate "f", state: "v" cannot be the name of a field; use at most 64 letters, digits and underscores, and none of the names that expressions know`,
		"{name: f, state: {s: 0}, result: s}":                                   `aggregate "f", add.s: it is missing; say what becomes of the field, or that it stays: s: s`,
		"{name: f, state: {s: 0}, add: {s: s}}":                                 `aggregate "f", result: it is missing; give an expression of the fields`,
		"{name: f, state: {total: 0}, add: {total: v, totl: v}, result: s}":     `aggregate "f", add.totl: the state has no such field; did you mean "total"?`,
		"{name: f, state: {s: 0}, add: {s: s}, merge: {}, result: s}":           `aggregate "f", merge.s: it is missing; say what becomes of the field, or that it stays: s: a.s`,
		"{name: f, state: {s: 0}, add: {s: s}, merge: {s: s + b.s}, result: s}": `aggregate "f", merge.s, line 1, column 1: there is no "s"; write a.s or b.s`,
		"{name: f, state: {s: v}, add: {s: s}, result: s}":                      `aggregate "f", state.s, line 1, column 1: there is no "v"; a start value is constant`,
		"{name: f, state: {s: 0}, add: {s: s}, result: s > 0}":                  `aggregate "f", result: it is a truth value, where a number belongs; write c ? 1 : 0`,
		"{name: f, state: {s: 0}, add: {s: s}, result: v}":                      `aggregate "f", result, line 1, column 1: there is no "v"; there are end, s, start`,
		"{name: f, state: {s: false}, add: {s: v}, result: 1}":                  `aggregate "f", add.s: it is a number, and the field begins as a truth value`,
		before + "s + prev_w" + after:                                           `aggregate "f", add.s, line 1, column 5: there is no "prev_w"; did you mean "prev_t"?`,
		before + "s +" + after:                                                  `aggregate "f", add.s, line 1, column 3: the expression ends too early`,
		before + "s + up" + after:                                               `aggregate "f", add.s, line 1, column 5: it is a truth value, where a number belongs; write c ? 1 : 0`,
		before + "v ? 1 : 2" + after:                                            `aggregate "f", add.s, line 1, column 1: it is a number, where a truth value belongs; compare it, as in x > 0`,
		before + "up ? 1 : up" + after:                                          `aggregate "f", add.s, line 1, column 10: it is a truth value, where a number belongs; write c ? 1 : 0`,
		before + "not v > 1 ? 1 : 2" + after:                                    `aggregate "f", add.s, line 1, column 5: it is a number, where a truth value belongs; compare it, as in x > 0`,
		before + "up == v ? 1 : 2" + after:                                      `aggregate "f", add.s, line 1, column 7: it is a number, where a truth value belongs; compare it, as in x > 0`,
		before + "v % 2" + after:                                                `aggregate "f", add.s, line 1, column 3: there is no operator "%"; use x - y*floor(x/y)`,
		before + "v ** 2" + after:                                               `aggregate "f", add.s, line 1, column 3: there is no operator "**"; use pow(x, y)`,
		before + "sqr(v)" + after:                                               `aggregate "f", add.s, line 1, column 1: there is no function "sqr"; did you mean "sqrt"?`,
		before + "pow(v)" + after:                                               `aggregate "f", add.s, line 1, column 1: pow has 1 arguments; give it 2`,
		before + "sqrt(v, 2)" + after:                                           `aggregate "f", add.s, line 1, column 1: sqrt has 2 arguments; give it 1`,
		before + "[v]" + after:                                                  `aggregate "f", add.s, line 1, column 1: expressions here have no such thing; use numbers, names, operators, functions, c ? x : y and let`,
		before + "s +\\n 'a'" + after:                                           `aggregate "f", add.s, line 2, column 2: expressions here have no such thing; use numbers, names, operators, functions, c ? x : y and let`,
		before + "let v = 1; v" + after:                                         `aggregate "f", add.s, line 1, column 5: "v" means something else already; use another name`,
		before + deep + after:                                                   `it is nested more than 100 deep; use let`,
		before + strings.Repeat(" ", MaxText) + "v" + after:                     `aggregate "f", add.s: it has 4097 bytes, and can have 4096; use let to say what repeats once`,
		"{name: f, state: {s: 0}, add: {s: s}, result: \"" + "s" + strings.Repeat(" + s/3", 99) + "\"}": `it is nested more than 100 deep; use let`,
	} {
		s, err := Read([]byte(text))
		require.NoError(t, err, text)
		_, err = s.Compile()
		require.ErrorContains(t, err, want, text)
	}

	many := Source{Name: "f", State: map[string]string{}, Add: map[string]string{}, Result: "1"}
	for i := range 16 {
		f := fmt.Sprintf("f%02d", i)
		var sum []string
		for k := range 20 {
			sum = append(sum, fmt.Sprintf("v*%d", 20*i+k+2))
		}
		many.State[f], many.Add[f] = "0", strings.Join(sum, "+")
	}
	_, err := many.Compile()
	require.ErrorContains(t, err, `the part comes to more than 256 instructions; make it shorter`)

	dear := Source{Name: "f", State: map[string]string{"s": "0"}, Add: map[string]string{"s": "exp(v)" + strings.Repeat("+exp(s)*pow(v, t)", 16)}, Result: "1"}
	for i := range 16 {
		dear.Add["s"] = strings.Replace(dear.Add["s"], "exp(s)", fmt.Sprintf("log(s+%d)", i), 1)
	}
	_, err = dear.Compile()
	require.ErrorContains(t, err, `aggregate "f", add: it comes to more than 256 instructions, of which exp, log and pow count as 16; make it shorter`)

	l, err := AddTo(aggregate.Library{}, []Source{{Name: "f", State: map[string]string{"s": "0"}, Add: map[string]string{"s": "v"}, Result: "s"}})
	require.NoError(t, err)
	for _, name := range []string{"f", "stddev", "pct", "infpct"} {
		other := Source{Name: "g", Aliases: []string{name}, State: map[string]string{"s": "0"}, Add: map[string]string{"s": "v"}, Result: "s"}
		_, err := AddTo(l, []Source{other})
		require.ErrorContains(t, err, fmt.Sprintf(`aggregate "g", name: there is an aggregate %q already; give it another name`, name))
	}
}

// TestPlan: what becomes a column, what a loop of its own, and what is interpreted.
func TestPlan(t *testing.T) {
	s, err := Read([]byte(`
name: f
state: {sum: 0, top: -inf, seen: false, last: 0, mean: 0, other: 1, fixed: 2}
add:
  sum: sum + v*v
  top: max(v*v, top)
  seen: seen or v > 1
  last: v
  mean: mean + 0.5 * (v - mean)
  other: mean
  fixed: fixed
result: "seen ? sum + top + last + mean + other + fixed : 0"
`))
	require.NoError(t, err)
	p, err := s.program()
	require.NoError(t, err)
	var reduced []string
	for _, r := range p.plan.reductions {
		reduced = append(reduced, p.fields[r.field])
	}
	require.Equal(t, []string{"last", "seen", "sum", "top"}, reduced)
	require.Len(t, p.plan.columns, 3, "v, v*v, v > 1")
	require.Len(t, p.plan.recurrence.fields, 2, "mean and other")
	require.Len(t, p.plan.recurrence.instrs, 4, "v - mean, its half, the sum, and a copy of mean")
	require.Equal(t, "custom: 9 instructions a sample", p.note())
}

// The plain form: each expression is evaluated on its tree, sample by sample.

// plainTree evaluates a tree. Truth values are 1 and 0.
func plainTree(n ast.Node, names map[string]float64) float64 {
	eval := func(n ast.Node) float64 { return plainTree(n, names) }
	is := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	switch n := n.(type) {
	case *ast.IntegerNode:
		return float64(n.Value)
	case *ast.FloatNode:
		return n.Value
	case *ast.BoolNode:
		return is(n.Value)
	case *ast.IdentifierNode:
		switch n.Value {
		case "inf":
			return math.Inf(1)
		case "nan":
			return math.NaN()
		}
		return names[n.Value]
	case *ast.MemberNode:
		return names[n.Node.(*ast.IdentifierNode).Value+"."+n.Property.(*ast.StringNode).Value]
	case *ast.UnaryNode:
		x := eval(n.Node)
		switch n.Operator {
		case "-":
			return -x
		case "+":
			return x
		}
		return 1 - x
	case *ast.BinaryNode:
		x, y := eval(n.Left), eval(n.Right)
		switch n.Operator {
		case "+":
			return x + y
		case "-":
			return x - y
		case "*":
			return x * y
		case "/":
			return x / y
		case "<":
			return is(x < y)
		case ">":
			return is(x > y)
		case "<=":
			return is(x <= y)
		case ">=":
			return is(x >= y)
		case "==":
			return is(x == y)
		case "!=":
			return is(x != y)
		case "&&", "and":
			return x * y
		case "||", "or":
			return max(x, y)
		}
	case *ast.ConditionalNode:
		if eval(n.Cond) == 1 {
			return eval(n.Exp1)
		}
		return eval(n.Exp2)
	case *ast.BuiltinNode:
		return plainCall(n.Name, n.Arguments, eval)
	case *ast.CallNode:
		return plainCall(n.Callee.(*ast.IdentifierNode).Value, n.Arguments, eval)
	case *ast.VariableDeclaratorNode:
		names[n.Name] = eval(n.Value)
		defer delete(names, n.Name)
		return eval(n.Expr)
	}
	panic("an unknown node")
}

func plainCall(name string, arguments []ast.Node, eval func(ast.Node) float64) float64 {
	x := eval(arguments[0])
	switch name {
	case "abs":
		return math.Abs(x)
	case "sqrt":
		return math.Sqrt(x)
	case "floor":
		return math.Floor(x)
	case "ceil":
		return math.Ceil(x)
	case "exp":
		return math.Exp(x)
	case "log":
		return math.Log(x)
	case "pow":
		return math.Pow(x, eval(arguments[1]))
	}
	for _, a := range arguments[1:] {
		y := eval(a)
		switch {
		case math.IsNaN(x):
			x = y
		case math.IsNaN(y):
		case name == "min":
			x = math.Min(x, y)
		default:
			x = math.Max(x, y)
		}
	}
	return x
}

// plainEach evaluates an expression for each field.
func plainEach(texts map[string]string, names map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for field, text := range texts {
		out[field] = plainText(text, names)
	}
	return out
}

var trees = map[string]ast.Node{}

func plainText(text string, names map[string]float64) float64 {
	if trees[text] == nil {
		tree, err := parser.Parse(text)
		if err != nil {
			panic(err)
		}
		trees[text] = tree.Node
	}
	return plainTree(trees[text], names)
}

// plainState is the state of a run.
func plainState(s *Source, ts []int64, vs []float64) map[string]float64 {
	state := plainEach(s.State, map[string]float64{})
	for i := range ts {
		before := max(i-1, 0)
		names := map[string]float64{"v": vs[i], "t": float64(ts[i]), "prev_v": vs[before], "prev_t": float64(ts[before]), "first": truth(i == 0)}
		for field, v := range state {
			names[field] = v
		}
		state = plainEach(s.Add, names)
	}
	return state
}

// plainMerge merges two states.
func plainMerge(s *Source, a, b map[string]float64) map[string]float64 {
	names := map[string]float64{}
	for field := range a {
		names["a."+field], names["b."+field] = a[field], b[field]
	}
	return plainEach(s.Merge, names)
}

// plainResult is the result of a state.
func plainResult(s *Source, state map[string]float64, start, end int64) float64 {
	names := map[string]float64{"start": float64(start), "end": float64(end)}
	for field, v := range state {
		names[field] = v
	}
	return plainText(s.Result, names)
}

func randomSource(r *rand.Rand) Source {
	return Source(customtest.Random(r, true))
}

// randomRuns are runs of a series, of which some are longer than a block.
func randomRuns(r *rand.Rand) *aggregate.Runs {
	in := &aggregate.Runs{Grid: &bucket.Grid{}}
	odd := []float64{math.NaN(), math.Inf(1), math.Inf(-1), math.Copysign(0, -1), math.MaxFloat64, 5e-324}
	t, at, overlap := r.Int64N(1e12), int32(0), r.IntN(3) == 0
	longest := []int{2, 30, 4 * block}[r.IntN(3)]
	for k := range 1 + r.IntN(40) {
		n := 1 + r.IntN(longest)
		for range n {
			v := math.Round(20 * r.NormFloat64())
			if r.IntN(30) == 0 {
				v = odd[r.IntN(len(odd))]
			}
			in.Times, in.Values = append(in.Times, t), append(in.Values, v)
			t += 1 + r.Int64N(20_000)
		}
		first := at
		if overlap {
			first = max(0, first-int32(r.IntN(5)))
		}
		if at += int32(n); r.IntN(10) > 0 {
			in.Runs = append(in.Runs, bucket.Run{Bucket: int32(k), First: first, End: at})
		}
		in.Grid.Starts, in.Grid.Ends = append(in.Grid.Starts, in.Times[first]-r.Int64N(9)), append(in.Grid.Ends, in.Times[at-1]+1)
	}
	return in
}

// requireSame requires the same bits, or NaN.
func requireSame(t *testing.T, want, got float64, about string, args ...any) {
	t.Helper()
	if math.Float64bits(want) != math.Float64bits(got) && !(math.IsNaN(want) && math.IsNaN(got)) {
		require.Fail(t, fmt.Sprintf("%v is not %v", got, want), append([]any{about}, args...)...)
	}
}

// comparePlain compares a program with its plain form over runs: what each comes to, what all of
// them merged come to, and what all their samples as one run do.
func comparePlain(t *testing.T, s *Source, in *aggregate.Runs, about string) {
	d, err := s.Compile()
	require.NoError(t, err, about)
	var states aggregate.States
	contents := aggregate.Contents{Parts: aggregate.Count, Own: d.Own}
	contents.Make(&states, in)
	out := make([]float64, len(in.Runs))
	all := make([]int32, len(out))
	for k := range all {
		all[k] = int32(k)
	}
	d.Results(&states, all, 0, out)
	merged := map[string]float64{}
	for k, run := range in.Runs {
		state := plainState(s, in.Times[run.First:run.End], in.Values[run.First:run.End])
		requireSame(t, plainResult(s, state, in.Grid.Starts[run.Bucket], in.Grid.Ends[run.Bucket]), out[k], "%s\nrun %d: %+v", about, k, *s)
		if s.Merge == nil {
			continue
		}
		if merged = plainMerge(s, merged, state); k == 0 {
			merged = state
			continue
		}
		contents.Merge(&states, []int32{0}, &states, k)
	}
	if s.Merge != nil && len(in.Runs) > 0 {
		d.Results(&states, []int32{0}, 0, out)
		first := in.Runs[0].Bucket
		requireSame(t, plainResult(s, merged, in.Grid.Starts[first], in.Grid.Ends[first]), out[0], "%s\nmerged: %+v", about, *s)
	}
}

// TestPlain compares random programs with the plain form.
func TestPlain(t *testing.T) {
	reduced, recurring := 0, 0
	for seed := range uint64(600) {
		r := rand.New(rand.NewPCG(seed, 7))
		s := randomSource(r)
		p, err := s.program()
		require.NoError(t, err, "seed %d: %+v", seed, s)
		reduced, recurring = reduced+len(p.plan.reductions), recurring+len(p.plan.recurrence.instrs)
		comparePlain(t, &s, randomRuns(r), fmt.Sprintf("seed %d", seed))
	}
	require.Greater(t, reduced, 300)
	require.Greater(t, recurring, 1000)
}

// FuzzCompile compiles any text: what is wrong is an *Error that is not long, and what is not comes
// to the same as the plain form.
func FuzzCompile(f *testing.F) {
	for seed := range uint64(20) {
		s := randomSource(rand.New(rand.NewPCG(seed, 8)))
		f.Add(s.State["f0"], s.Add["f0"], s.Merge["f0"], s.Result)
	}
	f.Add("0", "f0 + (v > 1 ? v - prev_v : 0)", "a.f0 + b.f0", "f0 / (end - start)")
	f.Add("-inf", "0 < (0 < (0 < v < 1 ? 1 : 0) < 1 ? 1 : 0) < 1 ? v : f0", "", "let x = f0; let y = x; x*y")
	f.Add("1_000", "if first { v } else { f0 | max(v) }", "a?.f0 ?? b['f0']", "\n\t [1, \"ä\"]; #")
	f.Fuzz(func(t *testing.T, state, add, merge, result string) {
		s := Source{Name: "f", State: map[string]string{"f0": state}, Add: map[string]string{"f0": add}, Result: result}
		if merge != "" {
			s.Merge = map[string]string{"f0": merge}
		}
		if _, err := s.Compile(); err != nil {
			var wrong *Error
			require.True(t, errors.As(err, &wrong), err)
			require.Less(t, len(err.Error()), 1000)
			return
		}
		clear(trees)
		comparePlain(t, &s, randomRuns(rand.New(rand.NewPCG(1, 9))), "")
	})
}

// cpuTime is the time in ns that the process has had cores.
func cpuTime(b *testing.B) float64 {
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkMake makes the states of runs of 20 and of 10 000 samples of each example, and of
// built-in aggregates with as large a state.
func BenchmarkMake(b *testing.B) {
	text, err := os.ReadFile("../../examples/aggregates.yml")
	require.NoError(b, err)
	var file struct{ Aggregates []Source }
	require.NoError(b, yaml.Unmarshal(text, &file))
	l, err := AddTo(aggregate.Library{}, file.Aggregates)
	require.NoError(b, err)
	const samples = 20_000
	in := aggregate.Runs{Grid: &bucket.Grid{}}
	for i := range samples {
		in.Times, in.Values = append(in.Times, int64(i)*15_000), append(in.Values, float64(i*i%171))
	}
	for _, length := range []int{20, 10_000} {
		in.Runs, in.Grid.Starts, in.Grid.Ends = nil, nil, nil
		for k := range samples / length {
			in.Runs = append(in.Runs, bucket.Run{Bucket: int32(k), First: int32(k * length), End: int32((k + 1) * length)})
			in.Grid.Starts, in.Grid.Ends = append(in.Grid.Starts, 0), append(in.Grid.Ends, 1)
		}
		for _, d := range l.All() {
			if d.Quantile || d.Reads&aggregate.Values != 0 {
				continue
			}
			b.Run(fmt.Sprintf("%s/%d", d.Name, length), func(b *testing.B) {
				contents := aggregate.Contents{Parts: (d.Reads | aggregate.Count).With(), Own: d.Own}
				var states aggregate.States
				out, all := make([]float64, len(in.Runs)), make([]int32, len(in.Runs))
				began := cpuTime(b)
				for b.Loop() {
					contents.Make(&states, &in)
					d.Results(&states, all, 0, out)
				}
				b.ReportMetric((cpuTime(b)-began)/float64(b.N)/samples, "cpu-ns/sample")
			})
		}
	}
}
