package vector

import (
	"slices"
	"strings"

	"github.com/grafana/regexp"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

const reasonInfoConflict = "several info series of one metric are as new, or have different values of a label, which Prometheus's engine reports"

// JoinInfo adds the labels of info series to rows.
func JoinInfo(q *operator.Query, n *plan.Info, in, infos []plan.Row) ([]plan.Row, error) {
	j := &infoJoin{n: n, infos: infos, steps: q.Grid.Steps, of: map[identity][]infoStretch{}}
	for _, m := range n.Data {
		if j.names == nil {
			j.names = map[string]bool{}
		}
		j.names[m.Name] = true
		j.required = j.required || !m.Matches("")
	}
	if !j.choose() {
		return nil, &plan.Declined{At: n, Reason: reasonInfoConflict}
	}
	var rows []plan.Row
	seen, out := Distinct{}, 0
	b := labels.NewBuilder(labels.EmptyLabels())
	for i := range in {
		before := len(rows)
		rows = j.join(rows, &in[i], b)
		for _, row := range rows[before:] {
			out += len(row.Values)
			if !seen.Add(row.Labels) {
				return nil, &plan.Declined{At: n, Reason: reasonRelabelled}
			}
		}
		q.Charge(operator.RowsBytes(rows[before:]))
		if err := q.Done(); err != nil {
			return nil, err
		}
	}
	// Beside the result it holds the step's own input and info series.
	return rows, q.CheckHeld(n, q.Held+out, q.Held+out+len(in)+len(infos))
}

// infoJoin joins series with their info series.
type infoJoin struct {
	n     *plan.Info
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
}

// choose finds the stretches of each identity. It returns false if two info series of one
// metric are as new at a step, or those of several metrics have different values of a label.
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
		var ok bool
		if j.of[id], ok = j.stretches(chosen); !ok {
			return false
		}
	}
	return true
}

// newest finds which of several info series of one metric has the newest sample at each
// step. It returns false if two have one of the same time.
func (j *infoJoin) newest(infos []int) ([]int32, bool) {
	chosen, times := make([]int32, j.steps), make([]float64, j.steps)
	dense.Fill(chosen, -1)
	for _, i := range infos {
		at := 0
		for _, run := range j.infos[i].Runs {
			for k := run.First; k < run.First+run.Len; k++ {
				t := j.infos[i].Values[at]
				at++
				switch {
				case chosen[k] < 0 || t > times[k]:
					chosen[k], times[k] = int32(i), t
				case t == times[k]:
					return nil, false
				}
			}
		}
	}
	return chosen, true
}

// stretches are the steps at which the same info series are chosen. It returns false if those have
// different values of a label.
func (j *infoJoin) stretches(chosen [][]int32) (out []infoStretch, ok bool) {
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
				if !j.merge(&s, values, j.infos[c[first]].Labels) {
					return nil, false
				}
			}
		}
		out = append(out, s)
		first = end
	}
	return out, true
}

// merge adds the labels of an info series to those of a stretch, whose values are given. It returns
// false if one has another value.
func (j *infoJoin) merge(s *infoStretch, values map[string]string, l labels.Labels) bool {
	ok := true
	l.Range(func(l labels.Label) {
		if l.Name == model.MetricNameLabel || j.names != nil && !j.names[l.Name] {
			return
		}
		v, known := values[l.Name]
		if !known {
			values[l.Name] = l.Value
			s.add = append(s.add, l)
		}
		ok = ok && (!known || v == l.Value)
	})
	return ok
}

// join appends the series of the result that one of the input becomes.
func (j *infoJoin) join(out []plan.Row, in *plan.Row, b *labels.Builder) []plan.Row {
	if isInfo(j.n, in.Labels) {
		return append(out, *in)
	}
	stretches, known := j.of[identityOf(in.Labels)]
	if !known {
		stretches = []infoStretch{{end: int32(j.steps)}}
	}
	first := len(out) // of the series
	cursor := dense.RunCursor{Row: in}
	for _, s := range stretches {
		if !s.found && j.required {
			continue
		}
		row := plan.Row{Labels: s.labels(in.Labels, b)}
		if len(stretches) == 1 {
			row.Values, row.Runs = in.Values, in.Runs
			return append(out, row)
		}
		cursor.Each(s.first, s.end, func(step int32, values []float64) {
			row.Values = append(row.Values, values...)
			row.Runs = plan.AppendRun(row.Runs, plan.Run{First: step, Len: int32(len(values))})
		})
		same := slices.IndexFunc(out[first:], func(x plan.Row) bool { return labels.Equal(x.Labels, row.Labels) })
		switch {
		case len(row.Values) == 0:
		case same < 0:
			out = append(out, row)
		default:
			x := &out[first+same]
			x.Values = append(x.Values, row.Values...)
			for _, run := range row.Runs {
				x.Runs = plan.AppendRun(x.Runs, run)
			}
		}
	}
	return out
}

// labels are those of a series with what the stretch adds to it.
func (s *infoStretch) labels(of labels.Labels, b *labels.Builder) labels.Labels {
	b.Reset(of)
	for _, l := range s.add {
		if !of.Has(l.Name) {
			b.Set(l.Name, l.Value)
		}
	}
	return b.Labels()
}

// identity are the labels that a series and its info series share: the values of instance
// and job, either of which may be empty.
type identity struct{ instance, job string }

func identityOf(l labels.Labels) identity { return identity{l.Get("instance"), l.Get("job")} }

// isInfo reports whether a series is one of info series itself, to which nothing is added.
func isInfo(n *plan.Info, l labels.Labels) bool {
	name := l.Get(model.MetricNameLabel)
	return !slices.ContainsFunc(n.Names, func(m *labels.Matcher) bool { return !m.Matches(name) })
}

// IdentifyingMatchers select the info series that may belong to the rows: those with any of
// their instances and any of their jobs. Series that lack one of the labels are asked for
// by themselves, as Prometheus's engine does: what is selected decides what it finds to be
// in conflict.
func IdentifyingMatchers(n *plan.Info, in []plan.Row) (sets [][]*labels.Matcher) {
	type values struct{ instances, jobs map[string]bool }
	var of [4]values // by which of the labels there are: 1 is the job, 2 the instance
	for i := range in {
		id := identityOf(in[i].Labels)
		has := 0
		if id.job != "" {
			has |= 1
		}
		if id.instance != "" {
			has |= 2
		}
		if has == 0 || isInfo(n, in[i].Labels) {
			continue
		}
		if of[has].jobs == nil {
			of[has] = values{map[string]bool{}, map[string]bool{}}
		}
		of[has].instances[id.instance], of[has].jobs[id.job] = true, true
	}
	for _, v := range of[1:] {
		if v.jobs != nil {
			sets = append(sets, []*labels.Matcher{anyValueOf("instance", v.instances), anyValueOf("job", v.jobs)})
		}
	}
	return sets
}

// anyValueOf matches any of the values of a label, or that there is none if that is their only
// one.
func anyValueOf(name string, values map[string]bool) *labels.Matcher {
	if values[""] {
		return labels.MustNewMatcher(labels.MatchEqual, name, "")
	}
	quoted := make([]string, 0, len(values))
	for v := range values {
		quoted = append(quoted, regexp.QuoteMeta(v))
	}
	slices.Sort(quoted)
	return labels.MustNewMatcher(labels.MatchRegexp, name, strings.Join(quoted, "|"))
}
