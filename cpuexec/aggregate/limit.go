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
			return newCountLimiter(n, p, q, in)
		},
		check: (*Parameter).checkCount,
		NoGPU: "it passes series on as they are",
	})
	_ = define(&Function{
		AggregateFunc: plan.AggregateFunc{Name: "limit_ratio", Param: true, Keeps: true},
		selector: func(n *plan.Aggregate, p Parameter, q *operator.Query, in *operator.Series) Selector {
			return newRatioLimiter(n, p, q, in)
		},
		check: (*Parameter).checkRatio,
		NoGPU: "it passes series on as they are",
	})
)

// countLimiter is the sink of limitk, which keeps, at every step, the first k
// series of each group that have a value. Steps are split over the cores.
type countLimiter struct {
	members
	limited
	capacity []int32   // series that each group keeps at a step, at most
	ks       []float64 // of each step, where they vary
	n        []int32   // of them found, by group and step
	full     []uint64  // bitmap of the steps where a group has them all
}

func newCountLimiter(n *plan.Aggregate, p Parameter, q *operator.Query, in *operator.Series) *countLimiter {
	l := &countLimiter{members: newMembers(n, q, in), limited: limited{operator.Collector{Labels: in.Labels}}, ks: p.values}
	for _, size := range l.size {
		l.capacity = append(l.capacity, int32(atMost(p.high, size)))
	}
	return l
}

func (l *countLimiter) TooLarge(maxSamples int) string {
	if tooManyCells(len(l.size), l.steps, maxSamples) {
		return reasonCells
	}
	return ""
}

func (l *countLimiter) Bytes() int64 { return 4 * int64(len(l.size)*l.steps) }

func (l *countLimiter) Allocate() {
	l.n = make([]int32, len(l.size)*l.steps)
	words := (l.steps + 63) / 64
	l.full = make([]uint64, len(l.size)*words)
	for k, v := range l.ks {
		for g := 0; v < 1 && g < len(l.size); g++ {
			l.full[g*words+k>>6] |= 1 << (k & 63)
		}
	}
}

func (l *countLimiter) Consume(q *operator.Query, b *operator.Batch) {
	noteFirst(l.first, l.of, b)
	q.SplitSteps(b, func(w0, w1 int) {
		for i := range b.N {
			if g := l.of[b.Lo+i]; b.Counts[i].Mapped > 0 && (l.capacity[g] < l.size[g] || l.ks != nil) {
				l.limit(int(g), b.Row(i), w0, w1)
			}
		}
	})
	for i := range b.N {
		if b.Counts[i].Mapped > 0 {
			b.Counts[i].Mapped = dense.Count(b.Row(i).Present)
		}
	}
	l.collect.Consume(q, b)
}

// limit takes the values of words [w0, w1) that come too late out of a row.
func (l *countLimiter) limit(group int, r dense.Row, w0, w1 int) {
	words := (l.steps + 63) / 64
	n, full, capacity := l.n[group*l.steps:], l.full[group*words:], l.capacity[group]
	for w := w0; w < w1; w++ {
		r.Present[w] &^= full[w]
		for p := r.Present[w]; p != 0; p &= p - 1 {
			k := w<<6 + bits.TrailingZeros64(p)
			if l.ks != nil {
				capacity = int32(atStep(l.ks[k], int(l.capacity[group])))
			}
			if n[k]++; n[k] == capacity {
				full[w] |= 1 << (k & 63)
			}
		}
	}
}

func (l *countLimiter) Rows(q *operator.Query) []plan.Row {
	q.Free(l, nil) // the rows were counted as they were collected
	return l.limited.rows(&l.members)
}

// ratioLimiter is the sink of limit_ratio, which keeps a series or does not by
// the hash of its labels.
type ratioLimiter struct {
	members
	limited
	ratio Parameter
}

func newRatioLimiter(n *plan.Aggregate, p Parameter, q *operator.Query, in *operator.Series) *ratioLimiter {
	return &ratioLimiter{members: newMembers(n, q, in), limited: limited{operator.Collector{Labels: in.Labels}}, ratio: p}
}

func (l *ratioLimiter) Consume(q *operator.Query, b *operator.Batch) {
	noteFirst(l.first, l.of, b)
	for i := range b.N {
		if b.Counts[i].Mapped > 0 {
			l.limit(b, i)
		}
	}
	l.collect.Consume(q, b)
}

// limit takes the values of a series out of a batch that do not fall into the ratio.
func (l *ratioLimiter) limit(b *operator.Batch, i int) {
	offset := float64(l.labels(b.Lo+i).Hash()) / math.MaxUint64
	if l.ratio.values == nil {
		if !inRatio(l.ratio.constant, offset) {
			b.Counts[i].Mapped = 0
		}
		return
	}
	present := b.Row(i).Present
	for k, ratio := range l.ratio.values {
		if !inRatio(ratio, offset) {
			present[k>>6] &^= 1 << (k & 63)
		}
	}
	b.Counts[i].Mapped = dense.Count(present)
}

// inRatio reports whether a hash, as a share of the largest, falls into a ratio: from
// the start of the range of hashes if it is positive, from its end if it is negative.
func inRatio(ratio, offset float64) bool {
	if ratio = max(-1, min(ratio, 1)); ratio < 0 {
		return offset >= 1+ratio
	}
	return offset < ratio
}

func (l *ratioLimiter) Rows(*operator.Query) []plan.Row { return l.limited.rows(&l.members) }

// limited is what a limiter has kept.
type limited struct{ collect operator.Collector }

// rows returns the series in the order of the input, or at a single step group
// by group and in the order of Prometheus's heap of each.
func (l *limited) rows(m *members) []plan.Row {
	in := l.collect.Rows
	if !m.instant() {
		return in
	}
	heaps := make([]keyed, len(m.size))
	for i, s := range l.collect.Series {
		h := &heaps[m.of[s]]
		h.keys, h.series = append(h.keys, in[i].Values[0]), append(h.series, int32(i))
		h.up()
	}
	out := make([]plan.Row, 0, len(in))
	for _, g := range byFirst(m.first) {
		for _, i := range heaps[g].series {
			out = append(out, in[i])
		}
	}
	return out
}
