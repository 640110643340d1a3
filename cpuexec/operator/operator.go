package operator

import (
	"context"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/plan"
)

// Operator evaluates a node of a plan, or a node and the chain above it, once. What is above it lives
// until it has driven its other inputs and no longer counts the operator's memory, so it lets go of
// the operator before it drives it.
type Operator interface {
	// Open evaluates what must be known before the first value, and says which series there
	// are.
	Open() (*Series, error)
	// Drive computes the values of all series and has the sink consume them batch by batch,
	// in the order of the series. Then it raises what Prometheus's engine raises of them, and
	// no longer counts the memory and the samples that the operator holds.
	Drive(out Sink) error
}

// Series are those of an operator.
type Series struct {
	N      int
	Labels func(i int) labels.Labels // from any goroutine; the series may turn out to have no value
	// Groups are those of an aggregation over the series, where they are found in less time
	// than from all labels (see Group); otherwise it is nil.
	Groups func(ctx context.Context, a *plan.Aggregate) Groups
	// Rows makes finished rows of all series, where the operator can without being driven;
	// otherwise it is nil. It takes the place of Drive. The rows are the caller's, who no
	// longer counts their memory when it is done with them.
	Rows func() []plan.Row
}

// Drive evaluates an operator into the sink that makeSink makes of its series.
func Drive(op Operator, makeSink func(*Series) Sink) error {
	s, err := op.Open()
	if err != nil {
		return err
	}
	return op.Drive(makeSink(s))
}

// Rows evaluates an operator to rows, whose memory the query counts until the caller no longer
// does. With an error come the rows that there are.
func Rows(op Operator) ([]plan.Row, error) {
	s, err := op.Open()
	if err != nil {
		return nil, err
	}
	if s.Rows != nil {
		return s.Rows(), nil
	}
	c := &Collector{Labels: s.Labels}
	err = op.Drive(c)
	return c.Rows, err
}

// Filler is a node whose values can be had a series at a time.
type Filler interface {
	// Open is that of Operator.
	Open() (*Series, error)
	// Fill writes series i to a row without values and says in c how many points it has. It is
	// called from several goroutines, of which each is a worker.
	Fill(worker, i int, out dense.Row, c *dense.Counts) error
	// End raises what Prometheus's engine raises for the points of all series, or what
	// becomes of the error of filling them. It ends what Operator.Drive ends.
	End(points int, err error) error
}

// Finished is a node whose rows are all made before the first of them is handed on.
type Finished struct {
	Query *Query
	Eval  func() ([]plan.Row, error)
	// Leaks says that Prometheus's engine, when it has evaluated the node, counts as held more
	// than it did before and the result.
	Leaks bool

	rows []plan.Row
}

// Open implements Filler.
func (f *Finished) Open() (*Series, error) {
	held, eval := f.Query.Held, f.Eval
	f.Eval = nil // see Operator
	var err error
	f.rows, err = eval()
	if !f.Leaks {
		f.Query.Held = held
	}
	if err != nil {
		return nil, err
	}
	return &Series{
		N: len(f.rows), Labels: func(i int) labels.Labels { return f.rows[i].Labels },
		Rows: func() []plan.Row { return f.rows },
	}, nil
}

// Fill implements Filler.
func (f *Finished) Fill(_, i int, out dense.Row, c *dense.Counts) error {
	out.Put(&f.rows[i])
	c.Points = len(f.rows[i].Values)
	return nil
}

// End implements Filler.
func (f *Finished) End(_ int, err error) error {
	f.Query.Charge(-RowsBytes(f.rows))
	return err
}

// Inputs evaluates operators to rows in order, while the samples of those before are held, and
// returns the number of samples in all of them.
func (q *Query) Inputs(ops []Operator) (in [][]plan.Row, samples int, err error) {
	defer func() { q.Held -= samples }()
	for i, op := range ops {
		ops[i] = nil // see Operator
		rows, err := Rows(op)
		if err != nil {
			return nil, samples, err
		}
		in = append(in, rows)
		points := Points(rows)
		samples += points
		q.Held += points
	}
	return in, samples, nil
}
