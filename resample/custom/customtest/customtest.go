// Package customtest writes random custom aggregates for tests.
package customtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// writer writes random expressions.
type writer struct {
	*rand.Rand
	library         bool // exp, log and pow, too
	numbers, truths []string
}

func (w *writer) of(texts []string) string { return texts[w.IntN(len(texts))] }

func (w *writer) number(depth int) string {
	if depth == 0 || w.IntN(6) == 0 {
		return w.of(append([]string{"0", "1", "-1", "2.5", "1e3", "inf", "nan", "0.1", "-0.0"}, w.numbers...))
	}
	x := func() string { return w.number(depth - 1) }
	switch w.IntN(8) {
	case 0, 1, 2:
		return "(" + x() + w.of([]string{" + ", " - ", " * ", " / "}) + x() + ")"
	case 3:
		return w.of([]string{"min", "max"}) + "(" + x() + ", " + x() + ")"
	case 4:
		names := []string{"abs", "sqrt", "floor", "ceil", "-"}
		if w.library {
			names = append(names, "exp", "log")
		}
		return w.of(names) + "(" + x() + ")"
	case 5:
		if w.library {
			return "pow(" + x() + ", " + x() + ")"
		}
		return "floor(" + x() + " / 3)"
	case 6:
		return "(let x" + fmt.Sprint(depth) + " = " + x() + "; x" + fmt.Sprint(depth) + " * " + x() + ")"
	}
	return "(" + w.truth(depth-1) + " ? " + x() + " : " + x() + ")"
}

func (w *writer) truth(depth int) string {
	if depth == 0 {
		return w.of(append([]string{"true", "false"}, w.truths...))
	}
	switch w.IntN(5) {
	case 3:
		return "(" + w.truth(depth-1) + " ? " + w.truth(depth-1) + " : " + w.truth(depth-1) + ")"
	case 0:
		return "(" + w.truth(depth-1) + w.of([]string{" && ", " or ", " == ", " != "}) + w.truth(depth-1) + ")"
	case 1:
		return "!(" + w.truth(depth-1) + ")"
	case 2:
		return "(" + w.number(depth-1) + " < " + w.number(depth-1) + " <= " + w.number(depth-1) + ")"
	}
	return "(" + w.number(depth-1) + w.of([]string{" < ", " > ", " >= ", " == ", " != "}) + w.number(depth-1) + ")"
}

// Source is a custom.Source, which this package must not import.
type Source struct {
	Name    string
	Aliases []string
	State   map[string]string
	Add     map[string]string
	Merge   map[string]string
	Result  string
}

// Kinds say what a random source has.
type Kinds struct {
	Library bool // exp, log and pow
	Times   bool // times of samples, and of windows
}

// Random has fields of all kinds: sums and extremes, what depends on other fields, and what stays or
// changes places.
func Random(r *rand.Rand, k Kinds) Source {
	s := Source{Name: "random", State: map[string]string{}, Add: map[string]string{}, Merge: map[string]string{}}
	none := writer{Rand: r, library: k.Library}
	samples, merge, result := none, none, none
	samples.numbers, samples.truths = []string{"v", "v", "prev_v"}, []string{"first"}
	if k.Times {
		samples.numbers, result.numbers = append(samples.numbers, "t", "prev_t"), []string{"start", "end"}
	}
	add := samples
	var numbers []string
	for i := range 1 + r.IntN(6) {
		f := fmt.Sprintf("f%d", i)
		if r.IntN(3) == 0 {
			s.State[f] = []string{"true", "false"}[r.IntN(2)]
			add.truths, result.truths, merge.truths = append(add.truths, f), append(result.truths, f), append(merge.truths, "a."+f, "b."+f)
			continue
		}
		s.State[f] = none.number(1)
		numbers = append(numbers, f)
		add.numbers, result.numbers, merge.numbers = append(add.numbers, f), append(result.numbers, f), append(merge.numbers, "a."+f, "b."+f)
	}
	for _, f := range slices.Sorted(maps.Keys(s.State)) {
		depth := 1 + r.IntN(3)
		if !slices.Contains(numbers, f) {
			s.Add[f] = []string{add.truth(depth), f + " or " + samples.truth(depth), f, samples.truth(depth)}[r.IntN(4)]
			s.Merge[f] = merge.truth(depth)
			continue
		}
		s.Merge[f] = merge.number(depth)
		s.Add[f] = []string{
			add.number(depth), f + " + " + samples.number(depth), samples.number(depth) + " + " + f, "max(" + f + ", " + samples.number(depth) + ")",
			f, numbers[r.IntN(len(numbers))], samples.number(depth), "first ? v : " + f + " * 0.9 + 0.1 * v",
		}[r.IntN(8)]
	}
	s.Result = result.number(3)
	return s
}
