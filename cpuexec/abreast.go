package cpuexec

import (
	"math/bits"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// bounds are the windows of all steps: the samples lo[k] to hi[k], the end
// excluded.
type bounds struct {
	lo, hi   []int32
	from, to int // steps that enclose those with samples
	total    int // samples in all of them
	watch    watch
}

// find fills b with the windows of s over samples at ts, and any with a bitmap of
// the steps that have a sample. Of an instant selector the window is the newest
// sample alone. even are the runs that ts consists of; if there are none, the
// times themselves are looked at.
func (b *bounds) find(ts []int64, even column.EvenRuns, s span, any []uint64) dense.Counts {
	steps := s.grid.Steps
	if cap(b.lo) < steps {
		b.lo, b.hi = make([]int32, steps), make([]int32, steps)
	}
	b.lo, b.hi = b.lo[:steps], b.hi[:steps]
	b.from, b.to = s.stepsOf(ts)
	clear(b.lo[:b.from])
	clear(b.hi[:b.from])
	lo, hi := b.lo[b.from:b.to], b.hi[b.from:b.to]
	end := s.scan.Times(s.grid.At(b.from))
	if even = s.useful(even); even != nil {
		even.NotAfter(end, s.grid.Interval, hi)
		even.NotAfter(end-s.width, s.grid.Interval, lo)
		if s.instant {
			for k, j := range hi {
				lo[k] = max(lo[k], j-1)
			}
		}
	} else {
		s.notAfter(ts, end, lo, hi)
	}
	for k := b.to; k < steps; k++ {
		b.lo[k], b.hi[k] = int32(len(ts)), int32(len(ts))
	}
	return b.count(any, even, s.grid.Interval)
}

// useful returns those of the runs that windows can be found from.
func (s *span) useful(even column.EvenRuns) column.EvenRuns {
	if s.scan.Fixed != nil || s.grid.Interval <= 0 || len(even) == 0 {
		return nil
	}
	return even
}

// NotAfter fills lo and hi with the number of samples that are not later than the
// start and the end of a step's window; the first step's ends at end.
func (s *span) notAfter(ts []int64, end int64, lo, hi []int32) {
	interval := s.grid.Interval
	if s.scan.Fixed != nil {
		interval = 0
	}
	i, j, strideI, strideJ := 0, 0, 0, 0
	for k := range hi {
		j, strideJ = after(ts, j, strideJ, end)
		if !s.instant {
			i, strideI = after(ts, i, strideI, end-s.width)
		} else if i = j; j > 0 && ts[j-1] > end-s.width {
			i = j - 1
		}
		lo[k], hi[k] = int32(i), int32(j)
		end += interval
	}
}

// count counts the windows with samples, and these, and notes the former in any.
func (b *bounds) count(any []uint64, even column.EvenRuns, interval int64) (c dense.Counts) {
	clear(any)
	most, total := int32(0), 0
	for k := b.from; k < b.to; {
		if same := b.alike(k, &even, interval); same > 1 {
			if n := b.hi[k] - b.lo[k]; n > 0 {
				dense.Row{Present: any}.Mark(k, same)
				most, total, c.Points = max(most, n), total+int(n)*same, c.Points+same
			}
			k += same
			continue
		}
		w := k >> 6
		end := min(b.to, (w+1)<<6)
		word, bit := uint64(0), uint64(1)<<(k&63)
		lo := b.lo[k:end]
		for i, hi := range b.hi[k:end] {
			n := hi - lo[i]
			most = max(most, n)
			total += int(n)
			word |= bit & -uint64(uint32(-n)>>31)
			bit <<= 1
		}
		any[w] |= word
		c.Points += bits.OnesCount64(word)
		k = end
	}
	b.total, c.MaxWindow = total, int(most)
	if steps := len(b.lo); steps > 0 {
		c.LastWindow = int(b.hi[steps-1] - b.lo[steps-1])
	}
	return c
}

// stepsOf encloses the steps whose windows hold some of the samples at ts.
func (s *span) stepsOf(ts []int64) (from, to int) {
	steps := s.grid.Steps
	const far = 1 << 61 // ms, where sums of times might overflow
	if s.scan.Fixed != nil || steps == 0 || ts[0] < -far || ts[len(ts)-1] > far {
		return 0, steps
	}
	start := s.scan.Times(s.grid.Start)
	first := (ts[0] - start + s.grid.Interval - 1) / s.grid.Interval
	beyond := (ts[len(ts)-1] + s.width - start + s.grid.Interval - 1) / s.grid.Interval
	from = int(min(max(first, 0), int64(steps)))
	return from, int(min(max(beyond, int64(from)), int64(steps)))
}

// sums fills out with the sum of each window, or with its mean.
//
// A compensated sum is a chain of dependent additions, so the processor waits
// for each. Neighbouring windows share most of their samples: four of them are
// summed abreast, each by the additions that it would be alone, in their order,
// so that the bits are those of Prometheus's loop.
func sums(vs []float64, b *bounds, mean bool, out dense.Row) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	finish := func(k int, sum, c float64) {
		if n := float64(b.hi[k] - b.lo[k]); mean {
			cur.Set(k, float64(sum/n)+float64(c/n))
		} else {
			cur.Set(k, sum+c)
		}
	}
	overflows := exact.MayOverflow(vs)
	for k := 0; k < len(b.lo); {
		if b.giveUp(k) {
			return
		}
		if k+4 <= len(b.lo) && !overflows && b.hi[k]-b.lo[k+3] >= 8 {
			lo, hi := (*[4]int32)(b.lo[k:k+4]), (*[4]int32)(b.hi[k:k+4])
			sum, c := exact.SumFour(vs, lo, hi)
			for w := range 4 {
				finish(k+w, sum[w], c[w])
			}
			k += 4
			continue
		}
		if lo, hi := b.lo[k], b.hi[k]; lo < hi {
			if mean {
				cur.Set(k, exact.Mean(vs[lo:hi]))
			} else {
				cur.Set(k, exact.Sum(vs[lo:hi]))
			}
		}
		k++
	}
}

// extremes fills out with the largest value of each window, or the smallest
// when sign is -1. Of equal ones it is the first, and NaN only where there is
// nothing else, as in Prometheus's loop. queue holds the samples that are the
// extreme of some window still to come; the grown slice is returned.
func extremes(vs []float64, b *bounds, sign float64, queue []int32, out dense.Row) []int32 {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	queue = queue[:0]
	head, next := 0, int32(0)
	for k := range b.lo {
		lo, hi := b.lo[k], b.hi[k]
		if lo == hi {
			continue
		}
		for next = max(next, lo); next < hi; next++ {
			v := vs[next] * sign
			if v != v {
				continue
			}
			for len(queue) > head && vs[queue[len(queue)-1]]*sign < v {
				queue = queue[:len(queue)-1]
			}
			queue = append(queue, next)
		}
		for head < len(queue) && queue[head] < lo {
			head++
		}
		if head < len(queue) {
			cur.Set(k, vs[queue[head]])
		} else {
			cur.Set(k, vs[lo])
		}
	}
	return queue
}
