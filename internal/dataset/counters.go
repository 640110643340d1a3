package dataset

import "math"

// counter counts events, as whole numbers, at a rate that follows the load.
type counter struct {
	series Series
	r      rng
	rate   float64 // events a second on average
	surge  float64 // the factor during incidents
	carry  float64 // the part of an event that is still due
	n      int64
}

// window implements family.
func (c *counter) window(w *scrapes, b *buffer, emit Emit) error {
	for i, t := range w.t {
		if w.flags[i] != 0 {
			if b.skip(w, i) {
				continue
			}
			if c.n > 0 {
				b.resets++
			}
			c.n, c.carry = 0, 0
		}
		due := c.rate * w.load[i] * w.dt[i]
		if w.hot[i] {
			due *= c.surge
		}
		due = due*(0.5+c.r.float()) + c.carry
		whole := math.Floor(due)
		c.carry = due - whole
		c.n += int64(whole)
		b.add(t, float64(c.n))
	}
	return b.flush(&c.series, emit)
}

// cpuTime counts a CPU's time in one mode, in hundredths of a second.
type cpuTime struct {
	series Series
	r      rng
	share  float64 // of the CPU's time on average
	busy   bool    // grows with the load; idle shrinks with it
	n      int64
}

// window implements family.
func (c *cpuTime) window(w *scrapes, b *buffer, emit Emit) error {
	for i, t := range w.t {
		if w.flags[i] != 0 {
			if b.skip(w, i) {
				continue
			}
			if c.n > 0 {
				b.resets++
			}
			c.n = 0
		}
		load := w.load[i]
		if !c.busy {
			load = 1.3 - load*0.3
		}
		share := min(1, c.share*load*(0.9+0.2*c.r.float()))
		c.n += int64(100*share*w.dt[i] + 0.5)
		b.add(t, float64(c.n)/100)
	}
	return b.flush(&c.series, emit)
}
