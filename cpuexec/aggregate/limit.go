package aggregate

import (
	"math"
	"math/bits"

	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/operator"
	"github.com/promwarp/promwarp/plan"
)

var (
	_ = define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: "limitk", Param: true, Keeps: true},
		selector: func(n *plan.Aggregate, p Parameter, q *operator.Query, in *operator.Series) Selector {
			l := newLimiter(n, p, q, in)
			l.keep, l.cells = l.keepFirst, len(l.groups.Sizes)*l.steps
			return l
		},
		check: (*Parameter).checkCount,
		NoGPU: "it passes series on as they are",
	})
	_ = define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: "limit_ratio", Param: true, Keeps: true},
		selector: func(n *plan.Aggregate, p Parameter, q *operator.Query, in *operator.Series) Selector {
			l := newLimiter(n, p, q, in)
			l.keep = l.keepRatio
			return l
		},
		check: (*Parameter).checkRatio,
		NoGPU: "it passes series on as they are",
	})
)

// limiter is the sink of limitk, which keeps, at every step, the first k series of each group
// that have a value, and of limit_ratio, which keeps a series or does not by the hash of its
// labels.
type limiter struct {
	members
	collect operator.Collector
	param   Parameter
	keep    func(series int, r dense.Row) // takes values out of a row
	words   int                           // of 64 steps
	// Of limitk, which alone has cells, these are the series found, by group and step, and
	// the steps at which a group has them all.
	cells int
	found []int32
	full  []uint64
}

func newLimiter(n *plan.Aggregate, p Parameter, q *operator.Query, in *operator.Series) *limiter {
	return &limiter{
		members: newMembers(n, q, in), collect: operator.Collector{Labels: in.Labels},
		param: p, words: (q.Grid.Steps + 63) / 64,
	}
}

func (l *limiter) Size() (n plan.Node, cells int, bytes int64) {
	return l.node, l.cells, 4 * int64(l.cells)
}

func (l *limiter) Allocate() {
	l.found, l.full = make([]int32, l.cells), make([]uint64, len(l.groups.Sizes)*l.words)
}

func (l *limiter) Consume(q *operator.Query, b *operator.Batch) {
	l.noteFirst(b)
	for i := range b.N {
		if b.Counts[i].Mapped > 0 {
			row := b.Row(i)
			l.keep(b.Lo+i, row)
			b.Counts[i].Mapped = dense.Count(row.Present)
		}
	}
	l.collect.Consume(q, b)
}

// keepFirst takes the values of a series that come too late for its group out of its row.
func (l *limiter) keepFirst(series int, r dense.Row) {
	group := int(l.groups.Of[series])
	found, full := l.found[group*l.steps:], l.full[group*l.words:]
	for w := range l.words {
		r.Present[w] &^= full[w]
		for p := r.Present[w]; p != 0; p &= p - 1 {
			k := w<<6 + bits.TrailingZeros64(p)
			most := atStep(l.param.values[k], int(l.groups.Sizes[group]))
			if found[k]++; int(found[k]) >= most {
				full[w] |= 1 << (k & 63)
			}
			if most == 0 {
				r.Present[w] &^= 1 << (k & 63)
			}
		}
	}
}

// keepRatio takes the values of a series that do not fall into the ratio out of its row.
func (l *limiter) keepRatio(series int, r dense.Row) {
	offset := float64(l.labels(series).Hash()) / math.MaxUint64
	for k := range l.steps {
		if !inRatio(l.param.values[k], offset) {
			r.Present[k>>6] &^= 1 << (k & 63)
		}
	}
}

// inRatio reports whether a hash, as a share of the largest, falls into a ratio: from
// the start of the range of hashes if it is positive, from its end if it is negative.
func inRatio(ratio, offset float64) bool {
	if ratio = max(-1, min(ratio, 1)); ratio < 0 {
		return offset >= 1+ratio
	}
	return offset < ratio
}

// Rows returns the series in the order of the input, or at a single step group
// by group and in the order of Prometheus's heap of each.
func (l *limiter) Rows(q *operator.Query) []plan.Row {
	q.Free(l, nil) // the rows were counted as they were collected
	in := l.collect.Rows
	if !l.instant() {
		return in
	}
	heaps := make([]keyed, len(l.groups.Sizes))
	for i, s := range l.collect.Series {
		h := &heaps[l.groups.Of[s]]
		h.keys, h.series = append(h.keys, in[i].Values[0]), append(h.series, int32(i))
		h.up()
	}
	out := make([]plan.Row, 0, len(in))
	for _, g := range byFirst(l.first) {
		for _, i := range heaps[g].series {
			out = append(out, in[i])
		}
	}
	return out
}
