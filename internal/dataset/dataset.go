// Package dataset generates a realistic and deterministic monitoring data set:
// what a Prometheus server would have stored had it scraped a few services, the
// nodes they run on and the pods of a cluster.
//
// Every instance of a service is scraped in three places, its application, its
// node exporter and its kubelet, and yields about 68 series:
//
//	http_requests_total                    32  counter by code, method and handler
//	http_request_duration_seconds_bucket   10  classic histogram, le from 0.005 to +Inf
//	http_request_duration_seconds_sum       1
//	http_request_duration_seconds_count     1
//	process_resident_memory_bytes           1  gauge, a saw tooth that falls at restarts
//	app_build_info                          1  gauge, always 1
//	up                                      2  gauge, 0 or 1, of application and node
//	node_cpu_seconds_total                 12  counter by cpu and mode, two decimals
//	node_memory_bytes                       5  gauge by type
//	kube_pod_memory_working_set_bytes      1+  gauge by namespace and pod; pods come and go
//
// so that Options.Series of 6800 makes 100 instances of 8 services (label job,
// of unequal sizes) and 3200 series of http_requests_total.
//
// What makes it like the real thing:
//
//   - Applications are scraped exactly every Options.Interval at an offset of
//     their own; a quarter of the nodes and all kubelets are scraped with
//     jitter, kubelets at twice the interval.
//   - Requests follow the time of day. Most series with an error code hardly
//     move; incidents of a job raise its errors and its latency for minutes.
//   - Instances restart every few hours, which resets all of their counters,
//     with or without an outage in which up is 0 and the other series end in a
//     stale marker.
//   - Instances vanish from discovery for a while (all of their series end in a
//     stale marker, up too), and scrapes are lost (a gap without a marker).
//   - Pods live for some hours, end in a stale marker and are followed by a pod
//     of another name: the cardinality grows with the time covered.
//
// The same options give the same samples, bit for bit, whatever they are
// written to and in whatever steps. A sample's value depends on the seed, the
// start and the interval but not on the end.
package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/tsdb"
)

// Options say what to generate.
type Options struct {
	// Start and End bound the samples' timestamps, in ms since the epoch. End is
	// not included.
	Start, End int64
	// Interval is the scrape interval; 0 is 15 s.
	Interval time.Duration
	// Series is about how many series there are in a day; 0 is 6800.
	Series int
	// Seed picks one of many data sets of the same kind.
	Seed uint64
	// Jitter says by what samples come up to 3 ms later than they are due: "scrape" for the samples
	// of a scrape alike, "series" for each by itself, as where they are pushed; "" or "none" for
	// none.
	Jitter string
	// Block is how long blocks are that are written; 0 is 2 h.
	Block time.Duration
	// Gauges has every instance yield gauges of each of GaugeKinds, gauge_bits and so on, alone: by job,
	// instance and le, scraped on time, and late_gauge_bits and so on, each scrape up to a twentieth of
	// the interval early or late.
	Gauges bool
	// Families has every instance expose these metrics alone, a line each: a kind (counter, gauge, or
	// fixed), a name, a level (of a counter a second), labels. {} is the number of the instance, {n}
	// that modulo n: a line with {n} and without {} is exposed by the first n instances alone.
	Families []string
}

// Stats say what was written.
type Stats struct {
	Series  int   // pods of the past included
	Samples int64 // stale markers included
}

// seriesPerInstance is what one instance yields in a day.
const seriesPerInstance = 68

func (o *Options) validate() error {
	o.Interval, o.Series = cmp.Or(o.Interval, 15*time.Second), cmp.Or(o.Series, 6800)
	o.Block = cmp.Or(o.Block, time.Duration(tsdb.DefaultBlockDuration)*time.Millisecond)
	switch {
	case o.Interval < time.Second:
		return errors.New("the scrape interval must be at least one second")
	case !slices.Contains([]string{"", "none", "scrape", "series"}, o.Jitter):
		return fmt.Errorf("there is no jitter %q; there are none, scrape and series", o.Jitter)
	case o.End <= o.Start:
		return errors.New("the end must be after the start")
	}
	for _, line := range o.Families {
		if !familyLine.MatchString(line) {
			return fmt.Errorf("%q is not a kind, a name, a level and labels", line)
		}
	}
	return nil
}

// What a scrape found.
const (
	flagReset   uint8 = 1 << iota // the process restarted since the scrape before
	flagDown                      // no answer: up is 0
	flagRemoved                   // the target is not being scraped, up is absent too
	flagLost                      // this scrape never happened
	flagFirst                     // the first of several scrapes down or removed
)

// scrape is one scrape of a target.
type scrape struct {
	t     int64
	dt    float64 // seconds over which counters grew since the scrape before
	load  float64 // how busy the time of day is, 0.4 to 1.6
	flags uint8
	hot   bool // an incident is on
}

// scraper decides when a target is scraped and what the scrape finds.
type scraper struct {
	start    int64 // of the data set: jitter moves no scrape before it
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

// newScraper returns what scrapes a target of instance i; what is random about it comes from r.
func newScraper(o Options, r *rng, i int, interval int64) scraper {
	first, job := o.Start+int64(r.float()*float64(interval)), jobs[i%len(jobs)]
	return scraper{
		start:     o.Start,
		first:     first,
		last:      first - interval,
		interval:  interval,
		seed:      r.next(),
		phase:     float64(job) / 40,
		outages:   newOutages(o.Seed, i, o.Start),
		incidents: newIncidents(o.Seed, job, o.Start),
	}
}

// time is when scrape k happens.
func (s *scraper) time(k int64) int64 {
	t := s.first + k*s.interval
	if s.jitter > 0 {
		h := mix(s.seed + uint64(k)*0x9e3779b97f4a7c15)
		t += int64(h%uint64(2*s.jitter+1)) - s.jitter
		if h>>56 < 3 { // now and then a slow one
			t += 2 * s.jitter
		}
	}
	return max(t, s.start)
}

// until returns the scrapes before a time that were not yet returned.
func (s *scraper) until(end int64) (found []scrape) {
	for t := s.time(s.k); t < end; t = s.time(s.k) {
		s.k++
		load := 1 + 0.6*math.Sin(2*math.Pi*(float64(t%86_400_000)/86_400_000+s.phase))
		f := scrape{t: t, load: load, hot: s.incidents.at(t), flags: s.flagsAt(t)}
		switch f.flags {
		case 0:
			f.dt = float64(t-s.last) / 1000
			s.last = t
		case flagReset:
			f.dt = float64(s.interval) / 2000
			s.last = t
		}
		found = append(found, f)
	}
	return found
}

func (s *scraper) flagsAt(t int64) uint8 {
	for t >= s.outages.to {
		// An event shorter than the interval can fall between two scrapes.
		s.restarted = s.restarted || s.outages.found&^flagDown == 0
		s.outages.advance()
	}
	if t >= s.outages.from && s.outages.found != 0 {
		flags := s.outages.found
		if flags != flagLost {
			if !s.out {
				flags |= flagFirst
			}
			s.out = true
		}
		return flags
	}
	s.out = false
	reset := s.restarted && s.resets
	s.restarted = false
	if reset {
		return flagReset
	}
	return 0
}

// outages yields what befalls an instance, an event after another, without end. By what scrapes find
// meanwhile it is
//
//	0            the process is restarted between two scrapes
//	flagDown     the target does not answer, then comes back restarted
//	flagRemoved  discovery drops the target for a while
//	flagLost     scrapes are missing, without a stale marker
type outages struct {
	r        rng
	found    uint8
	from, to int64 // of the event, in ms
}

const minute = 60_000

func newOutages(seed uint64, instance int, start int64) outages {
	o := outages{r: newRNG(seed, "outages", instance), to: start}
	o.advance()
	return o
}

// advance moves to the next event.
func (o *outages) advance() {
	o.from = o.to + int64(o.r.exponential(7*60*minute)) + 10*minute
	lasts := 1.0
	switch p := o.r.float(); {
	case p < 0.5:
		o.found = 0
	case p < 0.75:
		o.found, lasts = flagDown, o.r.spread(0.5*minute, 20*minute)
	case p < 0.85:
		o.found, lasts = flagRemoved, o.r.spread(5*minute, 90*minute)
	default:
		o.found, lasts = flagLost, o.r.spread(0.5*minute, 15*minute)
	}
	o.to = o.from + int64(lasts)
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
