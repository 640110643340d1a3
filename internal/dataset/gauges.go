package dataset

import "math"

// upGauge is the up series of a target.
type upGauge struct{ series Series }

// window implements family.
func (u *upGauge) window(w *scrapes, b *buffer, emit Emit) error {
	for i, t := range w.t {
		switch f := w.flags[i]; {
		case f&flagLost != 0:
		case f&flagRemoved != 0:
			if f&flagFirst != 0 {
				b.add(t, staleMarker)
			}
		case f&flagDown != 0:
			b.add(t, 0)
		default:
			b.add(t, 1)
		}
	}
	return b.flush(&u.series, emit)
}

// constant is a gauge that never changes.
type constant struct {
	series Series
	value  float64
}

// window implements family.
func (c *constant) window(w *scrapes, b *buffer, emit Emit) error {
	for i, t := range w.t {
		if w.flags[i] == 0 || !b.skip(w, i) {
			b.add(t, c.value)
		}
	}
	return b.flush(&c.series, emit)
}

const page = 4096

// memory is a gauge of bytes that wanders around a level, in whole pages.
type memory struct {
	series Series
	r      rng
	level  float64 // pages
	now    float64
	step   float64 // the largest step, as a share of the level
}

// window implements family.
func (m *memory) window(w *scrapes, b *buffer, emit Emit) error {
	for i, t := range w.t {
		if w.flags[i] != 0 && b.skip(w, i) {
			continue
		}
		b.add(t, m.next())
	}
	return b.flush(&m.series, emit)
}

func (m *memory) next() float64 {
	x := m.r.next()
	if x&3 == 0 { // often nothing happened
		u := float64(x>>11)/(1<<53) - 0.5
		m.now += (m.level-m.now)*0.02 + 2*u*m.step*m.level
	}
	return page * math.Floor(max(m.now, 1))
}

// leak is a process's memory: it grows, falls back now and then when garbage is
// collected, and starts anew with the process.
type leak struct {
	series Series
	r      rng
	base   float64 // pages
	now    float64
}

// window implements family.
func (l *leak) window(w *scrapes, b *buffer, emit Emit) error {
	for i, t := range w.t {
		if w.flags[i] != 0 {
			if b.skip(w, i) {
				continue
			}
			l.now = l.base
		}
		u := l.r.float()
		l.now += u * w.load[i] * 40
		if u < 0.02 {
			l.now -= (l.now - l.base) * 0.7
		}
		b.add(t, page*math.Floor(l.now))
	}
	return b.flush(&l.series, emit)
}
