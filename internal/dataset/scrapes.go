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

// A kind of event that befalls an instance.
type kind uint8

const (
	restart kind = iota // the process is restarted between two scrapes
	down                // the target does not answer, then comes back restarted
	removed             // discovery drops the target for a while
	lost                // scrapes are missing, without a stale marker
)

// event is something that befalls an instance in [from, to), in ms.
type event struct {
	kind     kind
	from, to int64
}

// outages yields an instance's events in time order, without end.
type outages struct {
	r   rng
	cur event
}

const minute = 60_000

func newOutages(seed uint64, instance int, start int64) outages {
	o := outages{r: newRNG(seed, "outages", instance)}
	o.cur.to = start
	o.advance()
	return o
}

// advance moves to the next event.
func (o *outages) advance() {
	from := o.cur.to + int64(o.r.exponential(7*60*minute)) + 10*minute
	e := event{from: from, to: from + 1}
	switch p := o.r.float(); {
	case p < 0.5:
		e.kind = restart
	case p < 0.75:
		e.kind = down
		e.to = from + int64(o.r.spread(0.5*minute, 20*minute))
	case p < 0.85:
		e.kind = removed
		e.to = from + int64(o.r.spread(5*minute, 90*minute))
	default:
		e.kind = lost
		e.to = from + int64(o.r.spread(0.5*minute, 15*minute))
	}
	o.cur = e
}

// incidents yields the times at which a job's errors and latency are high.
type incidents struct {
	r        rng
	from, to int64
}

func newIncidents(seed uint64, job int, start int64) incidents {
	i := incidents{r: newRNG(seed, "incidents", job), to: start}
	i.advance()
	return i
}

func (i *incidents) advance() {
	i.from = i.to + int64(i.r.exponential(5*60*minute)) + 5*minute
	i.to = i.from + int64(i.r.between(4*minute, 30*minute))
}

// at says whether an incident is on; times must not go back.
func (i *incidents) at(t int64) bool {
	for t >= i.to {
		i.advance()
	}
	return t >= i.from
}

// rng is SplitMix64: one multiplication chain a number, and every seed is good.
type rng uint64

// newRNG returns a generator for one named thing out of a seed.
func newRNG(seed uint64, name string, number int) rng {
	h := seed ^ 0xcbf29ce484222325
	for i := 0; i < len(name); i++ {
		h = (h ^ uint64(name[i])) * 0x100000001b3
	}
	r := rng(h + uint64(number)*0x9e3779b97f4a7c15)
	r.next()
	return r
}

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	return mix(uint64(*r))
}

func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// float returns a number in [0, 1).
func (r *rng) float() float64 { return float64(r.next()>>11) / (1 << 53) }

// between returns a number in [lo, hi).
func (r *rng) between(lo, hi float64) float64 { return lo + (hi-lo)*r.float() }

// spread returns a number in [lo, hi), its logarithm evenly distributed.
func (r *rng) spread(lo, hi float64) float64 { return lo * math.Pow(hi/lo, r.float()) }

// exponential returns a number above 0 with the given mean.
func (r *rng) exponential(mean float64) float64 { return -mean * math.Log(1-r.float()) }

// intn returns a number in [0, n).
func (r *rng) intn(n int) int { return int(r.next() % uint64(n)) }
