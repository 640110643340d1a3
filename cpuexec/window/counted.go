package window

import (
	"math/bits"
	"slices"
)

// StepCounts add up samples per step over the series of one goroutine, and then over all.
type StepCounts struct {
	All, Fresh []int64 // samples in the step's window; those no earlier step had
	// Counted is whether there are any in All and Fresh. Most goroutines have none: samples of
	// series that share a frame are counted with it.
	Counted bool

	// What is not in All and Fresh yet, as what steps have more than those before them: in any
	// order, while that is little for another core to read; and by step.
	few  []change
	more []windowSamples
}

// windowSamples are samples in windows, or differences of such.
type windowSamples struct{ all, fresh int64 }

// reset makes them those of so many steps, all 0.
func (c *StepCounts) reset(steps int) {
	for _, of := range []*[]int64{&c.All, &c.Fresh} {
		switch {
		case cap(*of) < steps:
			*of = make([]int64, steps)
		case c.Counted:
			clear((*of)[:cap(*of)])
		}
		*of = (*of)[:steps]
	}
	c.Counted, c.few, c.more = false, c.few[:0], c.more[:0]
}

// change says that from a step on windows have other numbers of samples than before it.
type change struct{ step, all, fresh int32 }

// noteChanges notes in f.changes how many samples windows have, in place of countSamples, if that
// changes seldom, as it does where samples are as far from each other as they should be. To count
// the samples of many frames takes long for whoever does that alone, in memory that others have
// written, and this is done by many. It comes right after reset.
func (f *frame) noteChanges() {
	if f.span.instant { // one sample or none
		f.noteSteps()
		return
	}
	even := f.span.useful(f.runs).Even
	regular := f.runs.Late == nil && len(even) > 0
	last, next, now := int32(0), int32(0), change{} // next is how many samples come between steps
	note := func(k int) {
		hi := f.hi[k]
		all := hi - f.lo[k]
		next = hi - last
		fresh := min(all, next)
		last = hi
		if all != now.all || fresh != now.fresh {
			now = change{int32(k), all, fresh}
			f.changes = append(f.changes, now)
		}
	}
	most := len(f.hi) / 8
	for k := f.from; k < f.to; {
		note(k)
		k++
		if regular {
			if same := f.alike(k-1, &even, f.span.Grid.Interval); same > 1 {
				note(k)
				k += same - 1
				last = f.hi[k-1]
			}
		} else {
			for ; k+4 <= f.to && fourAlike((*[4]int32)(f.lo[k:]), (*[4]int32)(f.hi[k:]), last, next, now.all); k += 4 {
				last = f.hi[k+3]
			}
		}
		if len(f.changes) > most {
			f.changes = f.changes[:0]
			return
		}
	}
	if f.to < len(f.hi) {
		f.changes = append(f.changes, change{step: int32(f.to)})
	}
}

// noteSteps notes the same of the one sample of each step that has one.
func (f *frame) noteSteps() {
	had := uint64(0) // whether the step before has one
	for w, now := range f.any {
		for differ := now ^ (now<<1 | had); differ != 0; differ &= differ - 1 {
			k := bits.TrailingZeros64(differ)
			one := int32(now >> k & 1)
			if step := w<<6 + k; step < len(f.hi) {
				f.changes = append(f.changes, change{int32(step), one, one})
			}
		}
		had = now >> 63
	}
	if len(f.changes) > len(f.hi)/8 {
		f.changes = f.changes[:0]
	}
}

// fourAlike reports whether four windows have so many samples, and each ends so many behind the one
// before, the first of them so many behind last.
func fourAlike(lo, hi *[4]int32, last, next, all int32) bool {
	behind := ((hi[0] - last) ^ next) | ((hi[1] - hi[0]) ^ next) | ((hi[2] - hi[1]) ^ next) | ((hi[3] - hi[2]) ^ next)
	many := ((hi[0] - lo[0]) ^ all) | ((hi[1] - lo[1]) ^ all) | ((hi[2] - lo[2]) ^ all) | ((hi[3] - lo[3]) ^ all)
	return behind|many == 0
}

// countSamples adds the samples of the series evaluated over f to sc.
func (f *frame) countSamples(sc *StepCounts) {
	used := f.used.Swap(0)
	if used == 0 {
		return
	}
	if len(f.changes) > 0 {
		sc.add(f.changes, used)
		return
	}
	sc.Counted = true
	if f.span.instant { // one sample or none, which no other step counts
		addWindows(sc.All, sc.Fresh, f.lo, f.hi, f.lo, used)
		return
	}
	if len(f.hi) == 0 {
		return
	}
	sc.All[0] += used * int64(f.hi[0]-f.lo[0])
	sc.Fresh[0] += used * int64(f.hi[0]-f.lo[0])
	addWindows(sc.All[1:], sc.Fresh[1:], f.lo[1:], f.hi[1:], f.hi, used)
}

// addWindows adds used times the samples of each window to all, and used times those behind
// seen[k] to fresh.
func addWindows(all, fresh []int64, lo, hi, seen []int32, used int64) {
	for k := addSamples(all, fresh, lo, hi, seen, used); k < len(hi); k++ {
		all[k] += used * int64(hi[k]-lo[k])
		fresh[k] += used * int64(hi[k]-max(lo[k], seen[k]))
	}
}

// add adds used times what windows have after each change.
func (c *StepCounts) add(changes []change, used int64) {
	last := change{}
	if used == 1 && len(c.few)+len(changes) <= len(c.All) {
		for _, now := range changes {
			c.few = append(c.few, change{now.step, now.all - last.all, now.fresh - last.fresh})
			last = now
		}
		return
	}
	more := c.byStep()
	for _, now := range changes {
		m := &more[now.step]
		m.all += used * int64(now.all-last.all)
		m.fresh += used * int64(now.fresh-last.fresh)
		last = now
	}
}

// none subtracts the sample that a step was said to have.
func (c *StepCounts) none(step int) {
	less := [...]change{{int32(step), -1, -1}, {step: int32(step + 1)}}
	c.add(less[:min(2, len(c.All)-step)], 1)
}

// byStep are the differences by step.
func (c *StepCounts) byStep() []windowSamples {
	if n := len(c.All); len(c.more) < n {
		c.more = slices.Grow(c.more[:0], n)[:n]
		clear(c.more)
	}
	return c.more
}

// addFew adds differences in any order.
func (c *StepCounts) addFew(few []change) {
	if len(few) == 0 {
		return
	}
	more := c.byStep()
	for _, d := range few {
		more[d.step].all += int64(d.all)
		more[d.step].fresh += int64(d.fresh)
	}
}

// Merge adds what another goroutine has counted at as many steps.
func (c *StepCounts) Merge(other *StepCounts) {
	c.addFew(other.few)
	if len(other.more) > 0 {
		for k, m := range c.byStep() {
			c.more[k] = windowSamples{m.all + other.more[k].all, m.fresh + other.more[k].fresh}
		}
	}
	if other.Counted {
		c.Counted = true
		for k := range c.All {
			c.All[k] += other.All[k]
			c.Fresh[k] += other.Fresh[k]
		}
	}
}

// Sum completes All and Fresh.
func (c *StepCounts) Sum() {
	c.addFew(c.few)
	c.few = c.few[:0]
	c.Counted = c.Counted || len(c.more) > 0
	var now windowSamples
	for k, m := range c.more {
		now.all += m.all
		now.fresh += m.fresh
		c.All[k] += now.all
		c.Fresh[k] += now.fresh
	}
	c.more = c.more[:0]
}
