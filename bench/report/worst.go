package report

import (
	"slices"
	"strings"
)

// Wanted is how many times as long as ours a peer's answer is wanted to take at least.
const Wanted = 4

// WorstName names the question of a function, a shape of windows or steps, and a kind of values.
func WorstName(function, shape, kind string) string {
	return strings.Join([]string{function, shape, kind}, ", ")
}

// worst is a row a function: how many times as long as the pair's contender its base takes at least,
// over all kinds of values, by shape and of all, from the least time of each.
func (s *Stage) worst() *Table {
	pair := s.Pairs[0]
	t := &Table{Title: "Stage " + s.Name + ", by the worst kind of values:", Left: 1, Head: []string{"function"}}
	type found struct {
		times float64
		row   *Row
	}
	var functions, shapes []string
	least := map[[2]string]found{}
	for _, row := range s.Rows {
		base, its := row.Costs[pair.Base], row.Costs[pair.Contender]
		if base.Min == 0 || its.Min == 0 {
			continue // one of them has no such function
		}
		names := strings.Split(row.Name, ", ")
		if !slices.Contains(functions, names[0]) {
			functions = append(functions, names[0])
		}
		if !slices.Contains(shapes, names[1]) {
			shapes = append(shapes, names[1])
		}
		for _, shape := range []string{names[1], ""} {
			key := [2]string{names[0], shape}
			if now := (found{base.Min / its.Min, row}); least[key].row == nil || now.times < least[key].times {
				least[key] = now
			}
		}
	}
	for _, shape := range shapes {
		t.Head = append(t.Head, shape+" ×")
	}
	t.Head = append(t.Head, "worst", pair.Contender+" ms", pair.Base+" ms", "×", "")
	for _, function := range functions {
		cells := []string{"`" + function + "`"}
		for _, shape := range shapes {
			cells = append(cells, Number(least[[2]string{function, shape}].times))
		}
		of, flag := least[[2]string{function, ""}], ""
		if of.times < Wanted {
			flag = "under " + Number(Wanted)
		}
		_, which, _ := strings.Cut(of.row.Name, ", ")
		t.Add(append(cells, which, milliseconds(of.row.Costs[pair.Contender].Min), milliseconds(of.row.Costs[pair.Base].Min),
			Number(of.times), flag)...)
	}
	return t
}
