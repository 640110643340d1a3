package operator

import (
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/internal/parallel"
)

// Loop hands series to a sink: batch by batch, in order, or, where the sink has groups, series by
// series into each of them. It is the one loop over batches.
type Loop struct {
	Query   *Query
	Out     Sink
	N       int      // series
	Workers int      // goroutines; 0 for as many as the steps of a batch are worth
	Maps    []Mapper // applied to each row
	// Fill writes series i to a row without values and says in c how many points it has. It is
	// called from several goroutines, of which each is a worker.
	Fill func(worker, i int, out dense.Row, c *dense.Counts) error
	// Finish, if it is not nil, fills what Fill has left of some rows, which the worker does not look
	// at before.
	Finish func(worker int)
	// Count, if it is not nil, is told of each series in order, before the sink consumes it or, where
	// there are groups, after that.
	Count func(i int, c dense.Counts) error
	Next  int // the first series that the sink has not consumed yet

	left [][]int // by worker: values before the maps and after each
	errs []error // by worker
}

// Mapper changes values.
type Mapper interface {
	// Map changes a row in place and returns how many values it has then.
	Map(r dense.Row) (points int)
}

// GroupSink is a sink that adds series to groups.
type GroupSink interface {
	Sink
	// GroupOf returns the group of each series; nil if they are better off with batches.
	GroupOf() []int32
	// AddSteps adds the steps of words [w0, w1) of series i, which no other goroutine adds to its group
	// meanwhile.
	AddSteps(i int32, in dense.Row, w0, w1 int)
}

// Begin lets the sink allocate its state. It comes before Add; Run does so itself.
func (l *Loop) Begin() error {
	workers := max(l.Workers, l.Query.Workers)
	l.errs, l.left = make([]error, workers), make([][]int, workers)
	for k := range l.left {
		l.left[k] = make([]int, len(l.Maps)+1)
	}
	return l.Query.Reserve(l.Out)
}

// Run fills and hands on the series that the sink has not consumed yet. Where one cannot be
// filled no further batch is made, and the error is Run's.
func (l *Loop) Run() error {
	if l.left == nil {
		if err := l.Begin(); err != nil {
			return err
		}
	}
	q := l.Query
	workers := l.Workers
	if workers == 0 {
		workers = q.WorkersFor((l.N - l.Next) * q.Grid.Steps)
	}
	b, free, err := q.NewBatch(l.N-l.Next, workers)
	if err != nil {
		return err
	}
	defer free()
	if a, ok := l.Out.(GroupSink); ok && l.Next < l.N {
		if groups := a.GroupOf(); groups != nil {
			return l.inTurn(a, groups[l.Next:], b, min(workers, len(b.Counts)))
		}
	}
	for b.Lo = l.Next; b.Lo < l.N; b.Lo = l.Next {
		if err := q.Done(); err != nil {
			return err
		}
		b.N = min(len(b.Counts), l.N-b.Lo)
		clear(b.Present)
		if err := l.fillAll(b, workers); err != nil {
			return err
		}
		if err := l.consume(b); err != nil {
			return err
		}
	}
	return nil
}

// Neighbours is the number of consecutive series that a worker fills at once. Most often
// they have the same times, and what is known of these is found out by one worker while others wait
// for it. There are enough for the workers to end at about the same time.
func Neighbours(workers, series int) int { return max(1, min(8, series/(8*workers))) }

// fillAll has workers fill all series of a batch.
func (l *Loop) fillAll(b *Batch, workers int) error {
	each := Neighbours(workers, b.N)
	return l.each(workers, (b.N+each-1)/each, func(k, n int) bool {
		lo, hi := n*each, min((n+1)*each, b.N)
		return l.fill(k, hi-lo, func(i int) (int, dense.Row, *dense.Counts) {
			return b.Lo + lo + i, b.Row(lo + i), &b.Counts[lo+i]
		})
	})
}

// each calls f for each of n, by workers, until one of them fails or the query ends.
func (l *Loop) each(workers, n int, f func(worker, i int) bool) error {
	parallel.While(workers, n, f)
	for _, err := range l.errs {
		if err != nil {
			return err
		}
	}
	return l.Query.Done()
}

// fill fills and maps n series, of which at tells the number, where it goes and its counts, and
// reports whether that was possible.
func (l *Loop) fill(worker, n int, at func(i int) (int, dense.Row, *dense.Counts)) bool {
	for k := range n {
		if l.Query.Context.Err() != nil {
			return false
		}
		i, out, c := at(k)
		*c = dense.Counts{}
		if l.errs[worker] = l.Fill(worker, i, out, c); l.errs[worker] != nil {
			return false
		}
		if l.Finish == nil {
			l.apply(worker, out, c)
		}
	}
	if l.Finish != nil {
		l.Finish(worker)
		for k := range n {
			_, out, c := at(k)
			l.apply(worker, out, c)
		}
	}
	return true
}

// apply applies the maps to a row that has c.Points values.
func (l *Loop) apply(worker int, out dense.Row, c *dense.Counts) {
	left := l.left[worker]
	left[0] += c.Points
	c.Mapped = c.Points
	for k, m := range l.Maps {
		if c.Mapped == 0 {
			return
		}
		c.Mapped = m.Map(out)
		left[k+1] += c.Mapped
	}
}

// Add maps and hands on the next series, which come filled and counted.
func (l *Loop) Add(b *Batch) error {
	const block = 64
	b.Lo = l.Next
	if err := l.each(max(l.Workers, 1), (b.N+block-1)/block, func(k, part int) bool {
		for i := part * block; i < min((part+1)*block, b.N); i++ {
			l.apply(k, b.Row(i), &b.Counts[i])
		}
		return true
	}); err != nil {
		return err
	}
	return l.consume(b)
}

func (l *Loop) consume(b *Batch) error {
	for i := 0; l.Count != nil && i < b.N; i++ {
		if err := l.Count(b.Lo+i, b.Counts[i]); err != nil {
			return err
		}
	}
	l.Out.Consume(l.Query, b)
	l.Next += b.N
	return nil
}

// Left is the number of values before the maps and after each, in all series.
func (l *Loop) Left() []int {
	out := make([]int, len(l.Maps)+1)
	for _, of := range l.left {
		for k, v := range of {
			out[k] += v
		}
	}
	return out
}
