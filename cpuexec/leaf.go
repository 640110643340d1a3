package cpuexec

import (
	"context"
	"errors"
	"time"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Leaf is a window, or an aggregation over one, that is offered to an accelerator. It does
// not change once it is made. What Prometheus says of its series, and of what comes out,
// the cores add to the outcome.
type Leaf struct {
	Aggregate *plan.Aggregate // nil where the values of the window itself are asked for
	Maps      []*plan.Map     // that stand between the two, the lowest first
	Window    *plan.Window
	Grid      plan.Grid
	Selection *selection.Selection
	GroupOf   []int32 // the group of each series
	Groups    int
	Rooms     []int // of topk and bottomk, how many series each group keeps at a step
	// Starts says that some samples have start timestamps that the window reads.
	Starts bool

	done  func() error
	start time.Time // when the leaf was made
}

// newLeaf returns the leaf of a window alone, without the groups of its series.
func (s *selected) newLeaf() *Leaf {
	r, sel := s.r, s.src.sel
	return &Leaf{
		Window: s.w, Grid: r.job.Grid, Selection: sel, Starts: r.readsStarts(s.w, sel), done: r.Done, start: time.Now(),
	}
}

// windowLeaf returns the leaf of a window alone. All its series are in one group.
func (s *selected) windowLeaf() *Leaf {
	l := s.newLeaf()
	l.Groups = 1
	l.GroupOf = selection.SeriesNote(s.src.sel.Notes(), oneGroupKey{}, func() oneGroup { return make(oneGroup, len(s.series)) })
	return l
}

// aggregationLeaf returns the leaf of a window, the chain above it and an aggregation, or
// nil where the chain is not made of maps.
func (s *selected) aggregationLeaf(a aggregate.Layout) *Leaf {
	l := s.newLeaf()
	for _, n := range s.above {
		m, ok := n.(*plan.Map)
		if !ok {
			return nil
		}
		l.Maps = append(l.Maps, m)
	}
	l.Aggregate, l.GroupOf, l.Groups, l.Rooms = a.Node, a.GroupOf, a.Groups, a.Rooms
	return l
}

// oneGroupKey is the key of the note on a selection's series in one group.
type oneGroupKey struct{}

// oneGroup is that note: the group of each series.
type oneGroup []int32

// SizeBytes implements selection.Sized.
func (g oneGroup) SizeBytes() int64 { return 4 * int64(len(g)) }

// Node is what is computed.
func (l *Leaf) Node() plan.Node {
	if l.Aggregate != nil {
		return l.Aggregate
	}
	return l.Window
}

// Done returns a *QueryError if the query has ended, or may take no more memory.
func (l *Leaf) Done() error { return ofQuery(l.done()) }

// DecodedShare is the share, from 0 to 1, of the series that the cores have kept
// decoded. It looks at some of them.
func (l *Leaf) DecodedShare() float64 {
	n := l.Selection.NumSeries()
	looked, kept := 0, 0
	for i := 0; i < n; i += max(1, n/64) {
		looked++
		if column.IsDecoded(l.Selection.Memo(i)) {
			kept++
		}
	}
	return float64(kept) / float64(max(looked, 1))
}

// errOpened ends the evaluation of a job whose leaf was wanted only.
var errOpened = errors.New("the leaf is open")

// opener is an accelerator that notes the leaf and computes nothing.
type opener struct{ leaf *Leaf }

func (o *opener) Aggregates(*plan.Aggregate) bool { return true }

func (o *opener) Accepts(plan.Node) bool { return true }

func (o *opener) OnCores(*Leaf, time.Duration) {}

func (o *opener) Evaluate(_ context.Context, l *Leaf, _ func(Rows) error) (Outcome, error) {
	o.leaf = l
	return Outcome{}, errOpened
}

// OpenLeaf fetches and groups what the job's node, a window or an aggregation over one,
// reads. It returns the leaf that an accelerator would be offered.
func (x *Executor) OpenLeaf(ctx context.Context, job Job) (*Leaf, error) {
	o := &opener{}
	job.Accelerator = o
	_, err := x.Run(ctx, job)
	if errors.Is(err, errOpened) {
		return o.leaf, nil
	}
	return nil, err
}
