package dataset

import "math"

// What the scrape found.
const (
	flagReset   uint8 = 1 << iota // the process restarted since the scrape before
	flagDown                      // no answer: up is 0
	flagRemoved                   // the target is not being scraped, up is absent too
	flagLost                      // this scrape never happened
	flagFirst                     // the first of several scrapes down or removed
)

// scrapes are the scrapes of one target in a window of time, in columns.
type scrapes struct {
	t     []int64
	dt    []float64 // seconds over which counters grew since the scrape before
	load  []float64 // how busy the time of day is, 0.4 to 1.6
	flags []uint8
	hot   []bool // an incident is on
}

func (s *scrapes) reset() {
	s.t, s.dt, s.load, s.flags, s.hot = s.t[:0], s.dt[:0], s.load[:0], s.flags[:0], s.hot[:0]
}

// scraper decides when a target is scraped and what the scrape finds.
type scraper struct {
	first    int64 // time of scrape 0 but for jitter
	interval int64
	jitter   int64 // at most this early or late; 0 for none
	seed     uint64
	phase    float64 // of the time of day
	resets   bool    // restarts reset its counters

	k         int64 // the next scrape
	last      int64 // time of the last scrape that worked
	out       bool  // the last scrape found the target down or removed
	restarted bool  // since the last scrape that worked
	outages   outages
	incidents incidents
}

// time is when scrape k happens.
func (s *scraper) time(k int64) int64 {
	t := s.first + k*s.interval
	if s.jitter > 0 {
		h := mix(s.seed + uint64(k)*0x9e3779b97f4a7c15)
		j := int64(h%uint64(2*s.jitter+1)) - s.jitter
		if h>>56 < 3 { // now and then a slow one
			j += 2 * s.jitter
		}
		t += j
	}
	return t
}

// window fills w with the scrapes before until that were not yet returned.
func (s *scraper) window(w *scrapes, until int64) {
	w.reset()
	for {
		t := s.time(s.k)
		if t >= until {
			return
		}
		s.k++
		w.t = append(w.t, t)
		w.load = append(w.load, 1+0.6*math.Sin(2*math.Pi*(float64(t%86_400_000)/86_400_000+s.phase)))
		w.hot = append(w.hot, s.incidents.at(t))
		flags := s.flagsAt(t)
		dt := 0.0
		if flags&^flagReset == 0 {
			if flags == flagReset {
				dt = float64(s.interval) / 2000
			} else {
				dt = float64(t-s.last) / 1000
			}
			s.last = t
		}
		w.flags = append(w.flags, flags)
		w.dt = append(w.dt, dt)
	}
}

func (s *scraper) flagsAt(t int64) uint8 {
	for t >= s.outages.cur.to {
		// An event shorter than the interval can fall between two scrapes.
		s.restarted = s.restarted || s.outages.cur.kind <= down
		s.outages.advance()
	}
	e := s.outages.cur
	var flags uint8
	if t >= e.from {
		switch e.kind {
		case down:
			flags = flagDown
		case removed:
			flags = flagRemoved
		case lost:
			return flagLost
		}
	}
	if flags != 0 {
		if !s.out {
			flags |= flagFirst
		}
		s.out = true
		return flags
	}
	s.out = false
	if s.restarted {
		s.restarted = false
		if s.resets {
			return flagReset
		}
	}
	return 0
}
