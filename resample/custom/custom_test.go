package custom

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
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
	contents := aggregate.Contents{Own: d.Own}
	states := contents.Make(nil, &aggregate.Runs{
		Times: []int64{0, 10, 20, 60, 70}, Values: []float64{1, 3, 2, 8, 9},
		Runs: []bucket.Run{{Bucket: 0, First: 0, End: 3}, {Bucket: 1, First: 3, End: 5}},
		Grid: &bucket.Grid{Starts: []int64{0, 60}, Ends: []int64{60, 120}},
	}, &aggregate.Memory{})
	out := make([]float64, 2)
	d.Results(states, 0, out)
	fmt.Println(out)
	contents.Merge(&states[0], &states[1])
	d.Results(states[:1], 0, out)
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
