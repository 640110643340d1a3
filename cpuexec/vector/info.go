package vector

import (
	"slices"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan"
)

const reasonInfoConflict = "several info series of one metric are as new, or have different values of a label, which Prometheus's engine reports"

// JoinInfo adds the labels of info series to rows.
func JoinInfo(q *operator.Query, n *plan.Info, in, infos []plan.Row) ([]plan.Row, error) {
	j := newInfoJoin(n, in, infos, q.Grid.Steps)
	if !j.choose() {
		return nil, &plan.Declined{At: n, Reason: reasonInfoConflict}
	}
	joined := make([][]plan.Row, len(in))
	workers := q.WorkersFor(operator.Points(in))
	builders := make([]*labels.Builder, max(workers, 1))
	conflicts := make([]bool, len(builders))
	for k := range builders {
		builders[k] = labels.NewBuilder(labels.EmptyLabels())
	}
	parallel.While(workers, len(in), func(k, i int) bool {
		var ok bool
		joined[i], ok = j.join(&in[i], builders[k])
		q.Charge(operator.RowsBytes(joined[i]))
		conflicts[k] = conflicts[k] || !ok
		return ok && q.Done() == nil
	})
	if err := q.Done(); err != nil {
		return nil, err
	}
	if slices.Contains(conflicts, true) {
		return nil, &plan.Declined{At: n, Reason: reasonInfoConflict}
	}
	rows := slices.Concat(joined...)
	out, seen := operator.Points(rows), make(Distinct, len(rows))
	for i := range rows {
		if !seen.Add(rows[i].Labels) {
			return nil, &plan.Declined{At: n, Reason: reasonRelabelled}
		}
	}
	// Beside the result it holds the step's own input and info series.
	return rows, q.CheckHeld(n, q.Held+out, q.Held+out+len(in)+len(infos))
}

// infoJoin joins series with their info series.
type infoJoin struct {
	n     *plan.Info
	in    []plan.Row
	infos []plan.Row
	steps int
	names map[string]bool // of the labels to add; nil if all are
	// required says that a series without an info series is none of the result.
	required bool
	of       map[identity][]infoStretch
}

// infoStretch are consecutive steps at which a series gets the same labels.
type infoStretch struct {
	first, end int32
	found      bool // there is an info series
	add        []labels.Label
	conflicts  []string // labels of which info series have different values
}

func newInfoJoin(n *plan.Info, in, infos []plan.Row, steps int) *infoJoin {
	j := &infoJoin{n: n, in: in, infos: infos, steps: steps, of: map[identity][]infoStretch{}}
	for _, m := range n.Data {
		if j.names == nil {
			j.names = map[string]bool{}
		}
		j.names[m.Name] = true
		j.required = j.required || !m.Matches("")
	}
	return j
}

// choose finds the stretches of each identity. It returns false if two info series of one
// metric are as new at a step.
func (j *infoJoin) choose() bool {
	byIdentity := map[identity][]int{}
	for i := range j.infos {
		id := identityOf(j.infos[i].Labels)
		byIdentity[id] = append(byIdentity[id], i)
	}
	for id, infos := range byIdentity {
		byName := map[string][]int{}
		for _, i := range infos {
			name := j.infos[i].Labels.Get(model.MetricNameLabel)
			byName[name] = append(byName[name], i)
		}
		var chosen [][]int32 // for each metric, which info series counts at each step, or -1
		for _, infos := range byName {
			c, ok := j.newest(infos)
			if !ok {
				return false
			}
			chosen = append(chosen, c)
		}
		j.of[id] = j.stretches(chosen)
	}
	return true
}

// newest finds which of several info series of one metric has the newest sample at each
// step. It returns false if two have one of the same time where there is any input.
func (j *infoJoin) newest(infos []int) ([]int32, bool) {
	chosen, times := make([]int32, j.steps), make([]float64, j.steps)
	for k := range chosen {
		chosen[k] = -1
	}
	var any []uint64 // steps at which the input has a value
	for _, i := range infos {
		at := 0
		for _, run := range j.infos[i].Runs {
			for k := run.First; k < run.First+run.Len; k++ {
				t := j.infos[i].Values[at]
				at++
				if chosen[k] < 0 || t > times[k] {
					chosen[k], times[k] = int32(i), t
					continue
				}
				if t < times[k] {
					continue
				}
				if any == nil {
					any = make([]uint64, (j.steps+63)/64)
					markAll(any, j.in)
				}
				if any[k>>6]>>(k&63)&1 != 0 {
					return nil, false
				}
			}
		}
	}
	return chosen, true
}

// stretches are the steps at which the same info series are chosen.
func (j *infoJoin) stretches(chosen [][]int32) (out []infoStretch) {
	same := func(a, b int) bool {
		return !slices.ContainsFunc(chosen, func(c []int32) bool { return c[a] != c[b] })
	}
	for first := 0; first < j.steps; {
		end := first + 1
		for end < j.steps && same(first, end) {
			end++
		}
		s := infoStretch{first: int32(first), end: int32(end)}
		values := map[string]string{}
		for _, c := range chosen {
			if c[first] >= 0 {
				s.found = true
				j.merge(&s, values, j.infos[c[first]].Labels)
			}
		}
		out = append(out, s)
		first = end
	}
	return out
}

// merge adds the labels of an info series to those of a stretch, whose values are given.
func (j *infoJoin) merge(s *infoStretch, values map[string]string, l labels.Labels) {
	l.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel || j.names != nil && !j.names[l.Name] {
			return
		}
		switch v, ok := values[l.Name]; {
		case !ok:
			values[l.Name] = l.Value
			s.add = append(s.add, l)
		case v != l.Value:
			s.conflicts = append(s.conflicts, l.Name)
		}
	})
}

// join makes the series of the result of one of the input. It returns false if two info
// series have different values of a label that the series lacks.
func (j *infoJoin) join(in *plan.Row, b *labels.Builder) (out []plan.Row, ok bool) {
	if isInfo(j.n, in.Labels) {
		return []plan.Row{*in}, true
	}
	stretches, known := j.of[identityOf(in.Labels)]
	if !known {
		stretches = []infoStretch{{end: int32(j.steps)}}
	}
	var whole []labels.Labels // of the rows in out
	at := 0
	for _, run := range in.Runs {
		for first := run.First; first < run.First+run.Len; {
			// The stretch that holds the step.
			k, _ := slices.BinarySearchFunc(stretches, first, func(s infoStretch, step int32) int {
				if s.end <= step {
					return -1
				}
				return 1
			})
			s := &stretches[k]
			n := min(s.end, run.First+run.Len) - first
			values := in.Values[at : at+int(n)]
			at += int(n)
			part := plan.Run{First: first, Len: n}
			first += n
			if !s.found && j.required {
				continue
			}
			ls, ok := s.labels(in.Labels, b)
			if !ok {
				return nil, false
			}
			if len(stretches) == 1 {
				return []plan.Row{{Labels: ls, Values: in.Values, Runs: in.Runs}}, true
			}
			i := slices.IndexFunc(whole, func(l labels.Labels) bool { return labels.Equal(l, ls) })
			if i < 0 {
				i = len(whole)
				whole, out = append(whole, ls), append(out, plan.Row{Labels: ls})
			}
			out[i].Values = append(out[i].Values, values...)
			out[i].Runs = dense.AppendRun(out[i].Runs, part)
		}
	}
	return out, true
}

// labels are those of a series with what the stretch adds to it.
func (s *infoStretch) labels(of labels.Labels, b *labels.Builder) (labels.Labels, bool) {
	for _, name := range s.conflicts {
		if !of.Has(name) {
			return of, false
		}
	}
	b.Reset(of)
	for _, l := range s.add {
		if !of.Has(l.Name) {
			b.Set(l.Name, l.Value)
		}
	}
	return b.Labels(), true
}
