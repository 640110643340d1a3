package frame

// StepCounts are the samples of the windows that one goroutine has evaluated, by step.
type StepCounts struct {
	All, Fresh []int64 // samples in the step's window; those no earlier step had
}

// NewStepCounts are those of so many steps, all 0.
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
