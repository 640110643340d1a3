package frame

import (
	"math/bits"
	"slices"

	"github.com/promwarp/promwarp/cpuexec/column"
	"github.com/promwarp/promwarp/cpuexec/dense"
	"github.com/promwarp/promwarp/cpuexec/exact"
)

// Bounds are the windows of all steps: the samples Lo[k] to Hi[k], the end
// excluded.
type Bounds struct {
	Lo, Hi []int32
	memory []int32 // where both are, the start of one window beside the end of another

	From, To int   // steps that enclose those with samples
	total    int   // samples in all of them
	least    int32 // samples in one of them between From and To, at least
	Most     int   // and at most

	done  <-chan struct{} // of the query that the windows are watched for
	since int             // samples since the last look at it
}

// find fills b with the windows of s over samples at the times t, and any with a bitmap of
// the steps that have a sample. Of an instant selector the window is the newest
// sample alone.
func (b *Bounds) find(t *times, s Span, any []uint64) dense.Counts {
	runs := s.useful(t.runs)
	if len(runs.Even) == 0 {
		t.List()
	}
	b.From, b.To = s.stepsOf(t.At(0), t.At(t.n-1))
	b.search(t, runs, &s)
	clear(b.Lo[:b.From])
	clear(b.Hi[:b.From])
	dense.Fill(b.Lo[b.To:], int32(t.n))
	dense.Fill(b.Hi[b.To:], int32(t.n))
	return b.Count(any)
}

// search finds the windows between from and to.
func (b *Bounds) search(t *times, runs column.Runs, s *Span) {
	steps, interval := s.Grid.Steps, s.Grid.Interval
	b.memory = slices.Grow(b.memory[:0], 2*steps)[:2*steps]
	end := s.Scan.Times(s.Grid.At(b.From))
	width := steps // steps from the start of a window to its end
	if len(runs.Even) > 0 && !s.Instant && s.Width%interval == 0 && s.Width/interval < int64(b.To-b.From) {
		width = int(s.Width / interval)
	}
	b.Lo, b.Hi = b.memory[:steps], b.memory[width:width+steps]
	lo, hi := b.Lo[b.From:b.To], b.Hi[b.From:b.To]
	switch {
	case len(runs.Even) == 0:
		s.notAfter(t.List(), end, lo, hi)
	case width < steps: // most starts of windows are the ends of others
		runs.NotAfter(end-s.Width, interval, b.memory[b.From:b.To+width])
	case s.Instant:
		runs.Newest(end, interval, s.Width, lo, hi)
	default:
		runs.NotAfter(end, interval, hi)
		runs.NotAfter(end-s.Width, interval, lo)
	}
}

// Count counts the windows with samples, and these, and notes the former in any.
func (b *Bounds) Count(any []uint64) (c dense.Counts) {
	clear(any)
	lo, hi := b.Lo[b.From:b.To], b.Hi[b.From:b.To]
	least, most, total, n := spread(lo, hi)
	for k := n; k < len(hi); k++ {
		n := hi[k] - lo[k]
		least, most, total = min(least, n), max(most, n), total+int64(n)
	}
	b.least, b.Most, b.total = least, int(most), int(total)
	c.MaxWindow = b.Most
	c.Points = b.mark(any, 1)
	if steps := len(b.Lo); steps > 0 {
		c.LastWindow = int(b.Hi[steps-1] - b.Lo[steps-1])
	}
	return c
}

// mark notes in bitmap, which is clear, the steps whose windows have at least that number of
// samples, and returns the number of steps.
func (b *Bounds) mark(bitmap []uint64, samples int32) (points int) {
	if b.least >= samples {
		dense.Row{Present: bitmap}.Mark(b.From, b.To-b.From)
		return b.To - b.From
	}
	for k := b.From; k < b.To; {
		w, end := k>>6, min(b.To, (k>>6+1)<<6)
		word := ^uint64(0) >> (64 - end + k)
		if least, _, _, n := spread(b.Lo[k:end], b.Hi[k:end]); n < end-k || least < samples {
			word = filled(b.Lo[k:end], b.Hi[k:end], samples)
		}
		bitmap[w] |= word << (k & 63)
		points += bits.OnesCount64(word)
		k = end
	}
	return points
}

// filled tells which of up to 64 windows have at least that number of samples.
func filled(lo, hi []int32, samples int32) (word uint64) {
	bit := uint64(1)
	for k, hi := range hi {
		word |= bit & -uint64(uint32(samples-1-hi+lo[k])>>31)
		bit <<= 1
	}
	return word
}

// alike returns how many steps from k on have windows like its: with as many samples,
// as far from the window's ends and from each other. Runs that end before are dropped
// from e, of the samples of b; steps are interval ms apart.
func (b *Bounds) alike(k int, e *[]column.EvenRun, interval int64) int {
	lo, hi := b.Lo[k], b.Hi[k]
	for len(*e) > 0 && (*e)[0].To <= lo {
		*e = (*e)[1:]
	}
	if len(*e) == 0 {
		return 1
	}
	r := &(*e)[0]
	if lo <= r.From || hi > r.To || interval%r.Every != 0 {
		return 1 // windows begin before the run, or end behind it
	}
	stride := int32(interval / r.Every)
	n := min(int((r.To-hi)/stride)+1, b.To-k)
	if n > 1 && b.Hi[k+n-1]-hi != int32(n-1)*stride {
		n-- // the next run begins within that window
	}
	return n
}

// First and End enclose the samples in all windows. Samples outside, which
// depend on how the series is cut into chunks, must not matter.
func (b *Bounds) First() int32 { return b.Lo[0] }

func (b *Bounds) End() int32 { return b.Hi[len(b.Hi)-1] }

// Watched returns b with a watch of its own, which ends when done is closed.
func (b *Bounds) Watched(done <-chan struct{}) Bounds {
	own := *b
	own.done, own.since = done, 0
	return own
}

// watchEvery is the number of samples between two looks, some milliseconds of
// the slowest function.
const watchEvery = 1 << 15

// GiveUp reports whether the query has ended, so that the windows from step k on need not be
// computed: those of one series may hold billions of samples together. What a loop that gives up
// leaves is a result that is not read, since the query's error comes before it.
func (b *Bounds) GiveUp(k int) bool { return b.GiveUpAfter(int(b.Hi[k] - b.Lo[k])) }

// GiveUpAfter is GiveUp before a number of samples of windows.
func (b *Bounds) GiveUpAfter(samples int) bool {
	if b.since += samples; b.since < watchEvery {
		return false
	}
	b.since = 0
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// Overlap reports whether the windows hold more than times the samples and the
// steps. Then what they share is worth keeping from one to the next.
func (b *Bounds) Overlap(times int) bool {
	return b.total > 0 && b.total > times*(int(b.End()-b.First())+len(b.Lo))
}

// Each fills out with f of each step that has samples, lo to hi.
func (b *Bounds) Each(out dense.Row, f func(k int, lo, hi int32) float64) {
	cur := dense.Cursor{Row: out}
	defer cur.Flush()
	for k, lo := range b.Lo {
		if b.GiveUp(k) {
			break
		}
		if hi := b.Hi[k]; lo < hi {
			cur.Set(k, f(k, lo, hi))
		}
	}
}

// Chosen calls do with the windows of the given steps, or of all where these are nil.
func (b *Bounds) Chosen(steps []int32, do func(k int, lo, hi int32)) {
	n := len(steps)
	if steps == nil {
		n = len(b.Lo)
	}
	for i := range n {
		k := i
		if steps != nil {
			k = int(steps[i])
		}
		if b.GiveUp(k) {
			return
		}
		do(k, b.Lo[k], b.Hi[k])
	}
}

// Group are windows whose samples are added up side by side.
type Group struct {
	Steps, Lo, Hi [exact.Abreast]int32
	N             int // of the windows; others are like the last one
	Common        int // samples that each has at least; 0 where side by side is not worth it
}

// Windows are the group's, of the samples of one series.
func (g *Group) Windows(vs []float64) (w exact.Windows) {
	for i, lo := range g.Lo {
		w[i] = vs[lo:g.Hi[i]]
	}
	return w
}

// Groups calls do with all windows that have at least that number of samples, of the given steps, or
// of all where these are nil.
func (b *Bounds) Groups(least int32, steps []int32, do func(g *Group)) {
	var long, short Group // windows of less than half as many samples as others are side by side, too
	b.Chosen(steps, func(k int, lo, hi int32) {
		if hi-lo < least {
			return
		}
		g := &long
		if 2*int(hi-lo) < b.Most {
			g = &short
		}
		if g.Add(int32(k), lo, hi) {
			g.Finish(do)
		}
	})
	short.Finish(do)
	long.Finish(do)
}

// Add adds a window to the group and reports whether that is full.
func (g *Group) Add(step, lo, hi int32) (full bool) {
	g.Steps[g.N], g.Lo[g.N], g.Hi[g.N] = step, lo, hi
	g.N++
	return g.N == exact.Abreast
}

// Finish calls do with the group, if it has a window, and empties it.
func (g *Group) Finish(do func(g *Group)) {
	if g.N == 0 {
		return
	}
	for i := g.N; i < exact.Abreast; i++ {
		g.Steps[i], g.Lo[i], g.Hi[i] = g.Steps[g.N-1], g.Lo[g.N-1], g.Hi[g.N-1]
	}
	g.Common = 0
	if g.N > 1 && exact.CanAbreast() {
		g.Common = int(g.Hi[0] - g.Lo[0])
		for i, lo := range g.Lo[:g.N] {
			g.Common = min(g.Common, int(g.Hi[i]-lo))
		}
	}
	do(g)
	g.N = 0
}

// StepCounts are the samples of the windows that one goroutine has evaluated, by step.
type StepCounts struct {
	All, Fresh []int64 // samples in the step's window; those no earlier step had
}

// NewStepCounts are the counts of a number of steps, all 0.
func NewStepCounts(steps int) *StepCounts {
	return &StepCounts{make([]int64, steps), make([]int64, steps)}
}

// Add adds the samples of one series. No other step counts that of an instant selector.
func (c *StepCounts) Add(b *Bounds, instant bool) {
	seen := int32(0)
	for k, hi := range b.Hi {
		if lo := b.Lo[k]; lo < hi {
			c.All[k] += int64(hi - lo)
			c.Fresh[k] += int64(hi - max(lo, seen))
		}
		if !instant {
			seen = hi
		}
	}
}

// None subtracts the sample that a step was said to have.
func (c *StepCounts) None(step int) {
	if c != nil {
		c.All[step]--
		c.Fresh[step]--
	}
}
