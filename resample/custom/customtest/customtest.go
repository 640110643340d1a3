// Package customtest writes random custom aggregates for tests.
package customtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
)

// writer writes random expressions.
type writer struct {
	*rand.Rand
	library         bool // exp, log and pow, too
	numbers, truths []string
}

// The forms of numbers and of truth values, in which N is a number, T a truth value and # the depth. Those
// that are there twice are written as often.
var (
	numberForms = []string{
		"(N + N)", "(N - N)", "(N * N)", "(N / N)", "(N + N)", "(N - N)", "(N * N)", "(N / N)", "min(N, N)", "max(N, N)", "min(N, N)", "max(N, N)",
		"abs(N)", "sqrt(N)", "floor(N)", "ceil(N)", "-(N)", "floor(N / 3)", "(let x# = N; x# * N)", "(let x# = N; x# * N)", "(T ? N : N)", "(T ? N : N)",
	}
	libraryForms = []string{"exp(N)", "log(N)", "pow(N, N)", "pow(N, N)"}
	truthForms   = []string{
		"(T ? T : T)", "(T && T)", "(T or T)", "(T == T)", "(T != T)", "!(T)", "!(T)", "(N < N <= N)", "(N < N <= N)", "(N < N)", "(N > N)", "(N >= N)", "(N == N)", "(N != N)",
	}
)

// write writes one of the forms.
func (w *writer) write(forms []string, depth int) string {
	var text strings.Builder
	for _, c := range forms[w.IntN(len(forms))] {
		switch c {
		case 'N':
			text.WriteString(w.number(depth - 1))
		case 'T':
			text.WriteString(w.truth(depth - 1))
		case '#':
			fmt.Fprint(&text, depth)
		default:
			text.WriteRune(c)
		}
	}
	return text.String()
}

func (w *writer) number(depth int) string {
	switch {
	case depth == 0 || w.IntN(6) == 0:
		return w.write(append([]string{"0", "1", "-1", "2.5", "1e3", "inf", "nan", "0.1", "-0.0"}, w.numbers...), 0)
	case w.library && w.IntN(6) == 0:
		return w.write(libraryForms, depth)
	}
	return w.write(numberForms, depth)
}

func (w *writer) truth(depth int) string {
	if depth == 0 {
		return w.write(append([]string{"true", "false"}, w.truths...), 0)
	}
	return w.write(truthForms, depth)
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

// Random has fields of all kinds: sums and extremes, what depends on other fields, and what stays or
// changes places. With library it calls exp, log and pow, too.
func Random(r *rand.Rand, library bool) Source {
	s := Source{Name: "random", State: map[string]string{}, Add: map[string]string{}, Merge: map[string]string{}}
	none := writer{Rand: r, library: library}
	samples, merge, result := none, none, none
	samples.numbers, samples.truths = []string{"v", "v", "prev_v", "t", "prev_t"}, []string{"first"}
	result.numbers = []string{"start", "end"}
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
