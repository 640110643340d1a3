// Package vector evaluates operators on rows: between two sides (match.go), of each value by
// itself (maps.go), of labels (chain.go, info.go), of order and of absence.
//
// Finished rows go in. What becomes of them is known before any value is computed: a combination
// knows its series, and writes their values one series at a time. A Chain is what can be applied
// to each series on its way, without rows in between; a Stream applies it. Values are those of
// Prometheus's operators, bit by bit. An operator is declined where series match several others at
// a step, which Prometheus's engine reports.
//
// Start with NewCombined, and with Chain.
package vector

import (
	"cmp"
	"errors"
	"slices"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

// combined evaluates a node that combines the rows of its inputs.
type combined struct {
	q      *operator.Query
	n      plan.Node
	inputs []operator.Operator
	held   int // what is held besides, until the values are there
	// fill writes series i of the result into a row without values, from several goroutines. It returns
	// false if that takes two values at one step.
	fill func(i int, out dense.Row) bool

	in      [][]plan.Row
	samples int // in all inputs
	present int // series of all inputs
}

// NewCombined evaluates n, an operator between vectors or a map whose scalars vary by step.
func NewCombined(q *operator.Query, n plan.Node, inputs []operator.Operator) operator.Filler {
	return &combined{q: q, n: n, inputs: inputs}
}

// Open implements operator.Filler.
func (o *combined) Open() (_ *operator.Series, err error) {
	o.held = o.q.Held
	set, _ := o.n.(*plan.Set)
	if set != nil && set.Op != plan.Or {
		return o.openRestricted(set)
	}
	if o.in, o.samples, err = o.q.Inputs(o.inputs); err != nil {
		return nil, err
	}
	for _, rows := range o.in {
		o.present += len(rows)
	}
	switch n := o.n.(type) {
	case *plan.Binary:
		m, err := match(o.q, n, o.in[0], o.in[1])
		if err != nil {
			return nil, err
		}
		o.fill = m.fill
		return &operator.Series{N: len(m.results), Labels: func(i int) labels.Labels { return m.results[i].labels }}, nil
	case *plan.StepMap:
		m, err := stepMap(o.q, n, o.in)
		if err != nil {
			return nil, err
		}
		o.fill = m.fill
		return &operator.Series{N: len(m.rows), Labels: func(i int) labels.Labels { return m.names[i] }}, nil
	}
	return o.openSet(set, union(set, o.in[0], o.in[1], o.q.Grid.Steps), seriesOf(o.in[1]))
}

// openRestricted is Open of and and unless. The right side, of which it matters alone at which steps it has
// values, is evaluated before the left one, of which and needs no series without a match. What it would
// hold beside that, and say after that, comes then.
func (o *combined) openRestricted(n *plan.Set) (_ *operator.Series, err error) {
	q, lhs, rhs := o.q, o.inputs[0], o.inputs[1]
	o.inputs = nil // see operator.Operator
	held := q.Held
	left, err := lhs.Open()
	if err != nil {
		return nil, err
	}
	opened, m := q.Held, *q.Matrix
	q.Held, q.Beside = held, q.Beside+left.N*(q.Grid.Steps+1)
	q.Matrix.Peak, q.Matrix.PeakAtMost, q.Matrix.Annotations = held, held, nil
	var right *operator.Series
	p := &presence{}
	in := &partners{Collector: operator.Collector{Labels: left.Labels}, right: p}
	err = p.drive(q, rhs, func(series *operator.Series) {
		sigs := sign(n.Matching, left, series)
		right, in.sigs, p.of, p.seen = series, sigs.of[0], sigs.of[1], make([][]uint64, sigs.n)
	})
	least, most, notes := q.Matrix.Peak, max(q.Matrix.Peak, q.Matrix.PeakAtMost), q.Matrix.Annotations
	q.Held, q.Beside = opened, q.Beside-left.N*(q.Grid.Steps+1)
	q.Matrix.Peak, q.Matrix.PeakAtMost, q.Matrix.Annotations = m.Peak, m.PeakAtMost, m.Annotations
	in.all = err != nil || n.Op != plan.And || !q.MayHold(most+2*left.N*(q.Grid.Steps+1))
	if left.Rows != nil { // which are not copied
		in.Rows = left.Rows()
		for i := range in.Rows {
			in.Series = append(in.Series, int32(i))
		}
	} else if err := lhs.Drive(in); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	q.Matrix.Annotations.Merge(notes)
	points := operator.Points(in.Rows)
	more := q.Held - held + points
	if err := q.CheckHeld(n, least+more, most+more); err != nil {
		return nil, err
	}
	o.in, o.samples, o.present = [][]plan.Row{in.Rows}, points+p.points, len(in.Rows)+p.series
	return o.openSet(n, restrict(n, in, q.Grid.Steps), right)
}

// partners collects the series of the left side of and or unless.
type partners struct {
	operator.Collector
	sigs  []int32 // of all series
	right *presence
	all   bool // also those without a match
}

// Wants implements operator.Selective.
func (p *partners) Wants(i int) bool { return p.all || p.right.seen[p.sigs[i]] != nil }

// openSet is the end of Open of a set.
func (o *combined) openSet(n *plan.Set, s set, right *operator.Series) (*operator.Series, error) {
	if n.MixedTypes && (hasTypes(seriesOf(o.in[0])) || hasTypes(right)) {
		return nil, &plan.Declined{At: n, Reason: plan.ReasonMixed}
	}
	o.fill = s.fill
	return &operator.Series{N: len(s), Labels: func(i int) labels.Labels { return s[i].row.Labels }}, nil
}

// Fill implements operator.Filler.
func (o *combined) Fill(_, i int, out dense.Row, c *dense.Counts) error {
	if !o.fill(i, out) {
		return &plan.Declined{At: o.n, Reason: reasonAmbiguous}
	}
	c.Points = dense.Count(out.Present)
	return nil
}

// End implements operator.Filler.
func (o *combined) End(points int, err error) error {
	if err != nil {
		return err
	}
	for _, rows := range o.in {
		o.q.Charge(-operator.RowsBytes(rows))
	}
	least := o.q.Held + o.samples + points
	if err := o.q.CheckHeld(o.n, least, least+o.present); err != nil {
		return err
	}
	o.q.Held = o.held
	return nil
}

// Stream is the operator of a node whose values can be had a series at a time, and of the
// chain above it.
type Stream struct {
	Query *operator.Query
	Of    operator.Filler
	Above Chain

	series int
	held   int // before it was opened
}

// Open implements operator.Operator.
func (s *Stream) Open() (*operator.Series, error) {
	s.held = s.Query.Held
	below, err := s.Of.Open()
	if err != nil {
		return nil, err
	}
	s.series = below.N
	if len(s.Above) == 0 {
		return below, nil
	}
	at, err := LabelsAfter(s.Query, below.N, below.Labels, s.Above)
	if err != nil {
		return nil, err
	}
	return &operator.Series{N: below.N, Labels: at}, nil
}

// Drive implements operator.Operator.
func (s *Stream) Drive(out operator.Sink) error {
	l := &operator.Loop{Query: s.Query, Out: out, N: s.series, Maps: s.Above.Mappers(), Fill: s.Of.Fill}
	err := l.Run()
	left := l.Left()
	if err := s.Of.End(left[0], err); err != nil {
		return err
	}
	return s.Above.Check(s.Query, left, s.series, s.held)
}

// Merged makes one row of rows that become the same in n, which merges them. in is n as an
// operator that leaves them apart.
func Merged(q *operator.Query, n plan.Node, in operator.Operator) *operator.Finished {
	return &operator.Finished{Query: q, Leaks: !Releases(n), Eval: func() ([]plan.Row, error) {
		rows, err := operator.Rows(in)
		if err != nil && !errors.As(err, new(promql.ErrTooManySamples)) {
			return nil, err
		}
		return MergeWithin(q, n, rows, err)
	}}
}

// MergeWithin merges the rows of n if the query is to, where limit is the error of the sample
// limit or nil. Which of two errors comes first is for Prometheus's engine to find out.
func MergeWithin(q *operator.Query, n plan.Node, rows []plan.Row, limit error) ([]plan.Row, error) {
	if !q.Merging {
		return rows, limit
	}
	rows, err := merge(q, rows)
	if limit != nil && err != nil {
		return nil, &plan.Declined{At: n, Reason: "series become the same, and there are too many samples, of which one comes first"}
	}
	return rows, cmp.Or(limit, err)
}

// WithoutNames removes the names of the rows of a query that ends, and merges rows that become the
// same.
func WithoutNames(q *operator.Query, rows []plan.Row) ([]plan.Row, error) {
	ls := labelsOf(seriesOf(rows))
	unique := removeNames(ls)
	for i := range rows {
		rows[i].Labels = ls[i]
	}
	if unique {
		return rows, nil
	}
	return merge(q, rows)
}

// merge makes one row of those with the same labels, as Prometheus's engine does of
// series that have become the same, and returns its error if two of them have a value
// at one step.
func merge(q *operator.Query, in []plan.Row) ([]plan.Row, error) {
	steps := q.Grid.Steps
	index := make(map[uint64]int, len(in))
	several := map[int]dense.Row{} // of the rows that are several
	out := in[:0]
	for _, x := range in {
		h := x.Labels.Hash()
		k, ok := index[h]
		if !ok {
			index[h] = len(out)
			out = append(out, x)
			continue
		}
		d, ok := several[k]
		if !ok {
			q.Charge(8 * int64(steps))
			if err := q.Done(); err != nil {
				return nil, err
			}
			d = dense.New(steps)
			d.Put(&out[k])
			several[k] = d
		}
		for _, run := range x.Runs {
			if d.Has(int(run.First), int(run.Len)) {
				return nil, ErrSameLabels
			}
		}
		d.Put(&x)
	}
	for k, d := range several {
		out[k] = d.Compact(dense.Count(d.Present), out[k].Labels)
	}
	return out, nil
}

// NewAbsent evaluates absent and absent_over_time: a row with 1 at the steps at
// which no series of the input has a value, or no row.
func NewAbsent(q *operator.Query, n *plan.Absent, input operator.Operator) *operator.Finished {
	return &operator.Finished{Query: q, Eval: func() ([]plan.Row, error) {
		p := &presence{seen: [][]uint64{make([]uint64, (q.Grid.Steps+63)/64)}}
		err := p.drive(q, input, func(in *operator.Series) { p.of = make([]int32, in.N) })
		if err != nil {
			return nil, err
		}
		steps, absent := q.Grid.Steps, p.seen[0]
		out := dense.Row{Values: slices.Repeat([]float64{1}, steps), Present: absent}
		for w := range absent {
			absent[w] = ^absent[w]
			if over := (w+1)*64 - steps; over > 0 {
				absent[w] &= ^uint64(0) >> over
			}
		}
		missing := dense.Count(absent)
		var rows []plan.Row
		if missing > 0 {
			rows = []plan.Row{out.Compact(missing, n.Labels)}
		}
		if n.OverTime {
			// Prometheus's engine does not count the result.
			return rows, nil
		}
		return rows, q.CheckSteps(n, 0, p.points, missing, p.series)
	}}
}

// presence is the sink that notes at which steps there is any value of each signature.
type presence struct {
	of             []int32    // the signature of each series
	seen           [][]uint64 // by signature, a bitmap or nil
	points, series int        // series that have a value
}

// drive notes the values of all series of an operator, which begin is told of. Finished rows are not copied.
func (p *presence) drive(q *operator.Query, op operator.Operator, begin func(*operator.Series)) error {
	series, err := op.Open()
	if err != nil {
		return err
	}
	begin(series)
	if series.Rows == nil {
		return op.Drive(p)
	}
	rows := series.Rows()
	for i, present := range presentSteps(rows, q.Grid.Steps) {
		p.note(i, present, len(rows[i].Values))
	}
	q.Charge(-operator.RowsBytes(rows))
	return nil
}

// note notes the steps at which a series has its values, which are points in number.
func (p *presence) note(i int, present []uint64, points int) {
	if points == 0 {
		return
	}
	p.points += points
	p.series++
	mark(&p.seen[p.of[i]], present)
}

// Consume implements operator.Sink.
func (p *presence) Consume(_ *operator.Query, b *operator.Batch) {
	for i := range b.N {
		p.note(b.Lo+i, b.Row(i).Present, b.Counts[i].Mapped)
	}
}

// NewSort evaluates a function that sorts at a single step. Prometheus's own code puts the rows
// of the input in order: where values are equal or NaN, the order depends on how it goes about it.
func NewSort(q *operator.Query, n *plan.Sort, input operator.Operator) *operator.Finished {
	return &operator.Finished{Query: q, Eval: func() ([]plan.Row, error) {
		in, err := operator.Rows(input)
		if err != nil {
			return nil, err
		}
		if err := checkSorted(q, n, operator.Points(in), len(in)); err != nil {
			return nil, err
		}
		vector := make(promql.Vector, len(in))
		for i := range in {
			vector[i] = promql.Sample{T: int64(i), F: in[i].Values[0], Metric: in[i].Labels}
		}
		args := parser.Expressions{nil} // the vector, which comes by itself
		for _, name := range n.Labels {
			args = append(args, &parser.StringLiteral{Val: name})
		}
		vector, notes := promql.FunctionCalls[n.Name]([]promql.Vector{vector}, nil, args, nil)
		q.Matrix.Annotations.Merge(notes)
		out := make([]plan.Row, len(vector))
		for i, s := range vector {
			out[i] = in[s.T]
		}
		return out, nil
	}}
}
