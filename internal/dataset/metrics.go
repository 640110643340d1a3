package dataset

import (
	"fmt"
	"math"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
)

// family is the series of one metric, or of metrics that belong together, of one target.
type family struct {
	series  []*series
	absent  uint8                         // flags of scrapes that find none of them
	restart func()                        // of the process; nil where it changes nothing
	value   func(s scrape, i int) float64 // of series i at a scrape, in the order of the series
}

// noAnswer are the flags of scrapes that find no series but up.
const noAnswer = flagDown | flagRemoved | flagLost

var staleMarker = math.Float64frombits(value.StaleNaN)

// window implements exposed.
func (f *family) window(found []scrape, to emit) error {
	var times []int64
	values := make([][]float64, len(f.series))
	for _, s := range found {
		isThere := s.flags&f.absent == 0
		if !isThere && s.flags&flagFirst == 0 {
			continue
		}
		if s.flags == flagReset && f.restart != nil {
			f.restart()
		}
		times = append(times, s.t)
		for i := range values {
			value := staleMarker
			if isThere {
				value = f.value(s, i)
			}
			values[i] = append(values[i], value)
		}
	}
	for i, s := range f.series {
		if len(times) > 0 {
			if err := to(s, times, values[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// metric is a family of one series.
func metric(l labels.Labels, restart func(), value func(s scrape) float64) *family {
	return &family{series: []*series{{Labels: l}}, absent: noAnswer, restart: restart, value: func(s scrape, _ int) float64 { return value(s) }}
}

// upGauge is the up series of a target.
func upGauge(l labels.Labels) *family {
	up := metric(l, nil, func(s scrape) float64 {
		if s.flags&flagDown != 0 {
			return 0
		}
		return 1
	})
	up.absent = flagRemoved | flagLost
	return up
}

// counter counts events, as whole numbers, at a rate a second that follows the load and grows by the
// factor surge during incidents. It begins at n.
func counter(l labels.Labels, r rng, rate, surge, n float64) *family {
	carry := 0.0 // the part of an event that is still due
	restart := func() { n, carry = 0, 0 }
	return metric(l, restart, func(s scrape) float64 {
		due := rate * s.load * s.dt
		if s.hot {
			due *= surge
		}
		due = due*(0.5+r.float()) + carry
		whole := math.Floor(due)
		carry = due - whole
		n += whole
		return n
	})
}

// cpuTime counts a CPU's time in one mode, of which it is a share on average, in hundredths of a second
// from n on. The share grows with the load, or shrinks with it where that is not busy.
func cpuTime(l labels.Labels, r rng, share float64, busy bool, n float64) *family {
	return metric(l, func() { n = 0 }, func(s scrape) float64 {
		load := s.load
		if !busy {
			load = 1.3 - load*0.3
		}
		share := min(1, share*load*(0.9+0.2*r.float()))
		n += math.Floor(100*share*s.dt + 0.5)
		return n / 100
	})
}

const page = 4096

// memory is a gauge of bytes that wanders around a level in pages, in whole pages, by steps of a share
// of it at most.
func memory(l labels.Labels, r rng, level, now, step float64) *family {
	return metric(l, nil, func(scrape) float64 {
		x := r.next()
		if x&3 == 0 { // often nothing happened
			u := float64(x>>11)/(1<<53) - 0.5
			now += (level-now)*0.02 + 2*u*step*level
		}
		return page * math.Floor(max(now, 1))
	})
}

// leak is a process's memory, from base pages on: it grows, falls back now and then when garbage is
// collected, and starts anew with the process.
func leak(l labels.Labels, r rng, base float64) *family {
	now := 0.0
	return metric(l, func() { now = base }, func(s scrape) float64 {
		u := r.float()
		now += u * s.load * 40
		if u < 0.02 {
			now -= (now - base) * 0.7
		}
		return page * math.Floor(now)
	})
}

// bounds are the upper bounds of the latency histogram's buckets in seconds.
var bounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, math.Inf(1)}

// histogram is a classic histogram: a counter for each bucket, for sum and for count. Latencies are
// exponentially distributed with a floor, with that mean in seconds and four times that during
// incidents; rate is how many are observed a second on average.
func histogram(series []*series, r rng, rate, mean float64) *family {
	const surge = 4
	quiet, hot := distribution(mean), distribution(mean*surge)
	expected := make([]float64, len(bounds)) // observations by bucket
	values := make([]float64, len(bounds)+2) // of the series
	sum, count := len(bounds), len(bounds)+1
	return &family{
		series: series, absent: noAnswer,
		restart: func() {
			clear(expected)
			clear(values)
		},
		value: func(s scrape, i int) float64 {
			if i > 0 {
				return values[i]
			}
			shares, mean := quiet, mean
			if s.hot {
				shares, mean = hot, mean*surge
			}
			n := math.Floor(rate*s.load*s.dt*(0.5+r.float()) + 0.5)
			for c, share := range shares {
				expected[c] += n * share
				values[c] = math.Floor(expected[c])
			}
			values[sum] += n * mean * (0.9 + 0.2*r.float())
			values[count] += n
			values[len(bounds)-1] = values[count]
			return values[0]
		},
	}
}

// distribution returns the share of observations at or below each bound.
func distribution(mean float64) []float64 {
	const floor = 0.002
	d := make([]float64, len(bounds))
	for i, b := range bounds {
		d[i] = 1 - math.Exp(-(b-floor)/mean)
	}
	return d
}

var namespaces = []string{"default", "ingest", "monitoring", "payments", "search"}

// podSlot is a place on a node that one pod after another occupies.
type podSlot struct {
	r    rng
	node string

	pod      *family // nil between two pods
	from, to int64   // of the pod, or of the next one
}

// plan decides when the next pod lives.
func (p *podSlot) plan(after int64) {
	p.from = after + int64(p.r.between(0, 2*minute))
	p.to = p.from + 5*minute + int64(p.r.exponential(10*60*minute))
}

func (p *podSlot) start() {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	suffix := make([]byte, 11)
	for i := range suffix {
		suffix[i] = letters[p.r.intn(len(letters))]
	}
	suffix[5] = '-'
	ns := namespaces[p.r.intn(len(namespaces))]
	level := p.r.spread(8<<20, 4<<30) / page
	p.pod = memory(labels.FromStrings(
		model.MetricNameLabel, "kube_pod_memory_working_set_bytes",
		"job", "kubelet",
		"namespace", ns,
		"node", p.node,
		"pod", "worker-"+string(suffix),
	), rng(p.r.next()), level, level*0.3, 0.03)
}

// window implements exposed. Pods live on while their kubelet does not answer.
func (p *podSlot) window(found []scrape, to emit) error {
	var times []int64
	var values []float64
	for _, s := range found {
		if p.pod != nil && s.t >= p.to {
			if err := to(p.pod.series[0], append(times, s.t), append(values, staleMarker)); err != nil {
				return err
			}
			times, values, p.pod = nil, nil, nil
			p.plan(s.t)
		}
		if p.pod == nil {
			if s.t < p.from {
				continue
			}
			p.start()
		}
		if s.flags&flagLost == 0 {
			times, values = append(times, s.t), append(values, p.pod.value(s, 0))
		}
	}
	if len(times) == 0 {
		return nil
	}
	return to(p.pod.series[0], times, values)
}

// exposed is a part of what a target exposes.
type exposed interface {
	window(found []scrape, to emit) error
}

// target is one thing that is scraped, and what it exposes.
type target struct {
	scraper
	exposes []exposed
}

// jobs gives the job of instance i as jobs[i%len(jobs)]: eight jobs of unequal
// sizes.
var jobs = [...]int{0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 0, 1, 2, 0, 1, 0}

var (
	handlers = []struct {
		name  string
		share float64
	}{{"/api/v1/items", 0.55}, {"/api/v1/orders", 0.25}, {"/login", 0.05}, {"/static", 0.15}}
	methods = []struct {
		name  string
		share float64
	}{{"GET", 0.8}, {"POST", 0.2}}
	codes = []struct {
		name  string
		share float64
		surge float64
	}{{"200", 0.96, 0.9}, {"404", 0.03, 1}, {"500", 0.008, 25}, {"503", 0.002, 60}}
	modes = []struct {
		name  string
		share float64
		busy  bool
	}{{"idle", 0.7, false}, {"iowait", 0.02, true}, {"irq", 0.004, true}, {"steal", 0.001, true}, {"system", 0.07, true}, {"user", 0.2, true}}
	memoryTypes = []struct {
		name  string
		share float64
	}{{"available", 0.45}, {"buffers", 0.02}, {"cached", 0.3}, {"free", 0.1}, {"used", 0.5}}
)

// newInstance returns the three targets of an instance.
func newInstance(o Options, i int) []*target {
	r := newRNG(o.Seed, "instance", i)
	job := jobs[i%len(jobs)]
	jobName := "job-" + strconv.Itoa(job)
	host := fmt.Sprintf("host-%03d", i)
	name := func(metric, instance string, kv ...string) labels.Labels {
		return labels.FromStrings(append([]string{model.MetricNameLabel, metric, "instance", instance, "job", jobName}, kv...)...)
	}
	interval := o.Interval.Milliseconds()

	app := &target{scraper: newScraper(o, &r, i, interval)}
	app.resets = true
	at := host + ":8080"
	app.exposes = append(app.exposes,
		upGauge(name("up", at)),
		metric(name("app_build_info", at, "version", fmt.Sprintf("1.%d.%d", job, r.intn(3))), nil, func(scrape) float64 { return 1 }),
		leak(name("process_resident_memory_bytes", at), rng(r.next()), r.spread(8000, 60_000)))
	rate := r.spread(3, 300)
	for _, h := range handlers {
		for _, m := range methods {
			for _, c := range codes {
				l := name("http_requests_total", at, "code", c.name, "handler", h.name, "method", m.name)
				each := rate * h.share * m.share * c.share
				app.exposes = append(app.exposes, counter(l, rng(r.next()), each, c.surge, math.Floor(r.between(0, 20_000)*rate*h.share*m.share*c.share)))
			}
		}
	}
	var latencies []*series
	for _, bound := range bounds {
		latencies = append(latencies, &series{Labels: name("http_request_duration_seconds_bucket", at, "le", labels.FormatOpenMetricsFloat(bound))})
	}
	latencies = append(latencies, &series{Labels: name("http_request_duration_seconds_sum", at)}, &series{Labels: name("http_request_duration_seconds_count", at)})
	app.exposes = append(app.exposes, histogram(latencies, rng(r.next()), rate, r.spread(0.01, 0.2)))

	node := &target{scraper: newScraper(o, &r, i, interval)}
	if i%4 == 3 {
		node.jitter = interval / 20
	}
	node.resets = i%3 == 0 // the machine is rebooted, not only the application
	at = host + ":9100"
	node.exposes = append(node.exposes, upGauge(name("up", at)))
	for cpu := range 2 {
		for _, m := range modes {
			l := name("node_cpu_seconds_total", at, "cpu", strconv.Itoa(cpu), "mode", m.name)
			node.exposes = append(node.exposes, cpuTime(l, rng(r.next()), m.share, m.busy, math.Floor(m.share*r.between(0, 1e8))))
		}
	}
	size := float64(int64(4)<<30<<r.intn(4)) / page
	for _, m := range memoryTypes {
		level := size * m.share * r.between(0.5, 1)
		node.exposes = append(node.exposes, memory(name("node_memory_bytes", at, "type", m.name), rng(r.next()), level, level, 0.01))
	}

	kubelet := &target{scraper: newScraper(o, &r, i, 2*interval)}
	kubelet.jitter = interval / 20
	pods := &podSlot{r: newRNG(o.Seed, "pod", i), node: host}
	pods.plan(o.Start)
	pods.from = o.Start // the first pod is already running
	kubelet.exposes = []exposed{pods}
	return []*target{app, node, kubelet}
}

// GaugeKinds are the kinds of values that Options.Gauges asks for: a random walk in all bits, multiples
// of 4096, and numbers of two decimals.
var GaugeKinds = []string{"bits", "whole", "cents"}

var gaugeKinds = map[string]func(float64) float64{
	"bits":  func(v float64) float64 { return v * 1e9 },
	"whole": func(v float64) float64 { return math.Round(v*1e9/page) * page },
	"cents": func(v float64) float64 { return math.Round(v*1e4) / 100 },
}

// gaugeBounds are the labels le of an instance's gauges, by level.
var gaugeBounds = []string{"1", "2", "4", "+Inf"}

// gaugesPerInstance is the number of series of an instance where Options.Gauges is set.
func gaugesPerInstance() int { return 2 * len(GaugeKinds) * len(gaugeBounds) }

// newGauges returns the two targets of an instance that has gauges alone, always.
func newGauges(o Options, i int) (targets []*target) {
	r := newRNG(o.Seed, "gauges", i)
	for _, prefix := range []string{"gauge_", "late_gauge_"} {
		t := &target{scraper: newScraper(o, &r, i, o.Interval.Milliseconds())}
		t.outages = outages{to: math.MaxInt64}
		if prefix == "late_gauge_" {
			t.jitter = t.interval / 20
		}
		for _, kind := range GaugeKinds {
			for level, le := range gaugeBounds {
				l := labels.FromStrings(model.MetricNameLabel, prefix+kind, "instance", fmt.Sprintf("host-%03d", i),
					"job", "job-"+strconv.Itoa(jobs[i%len(jobs)]), "le", le)
				// It wanders around the level at each scrape.
				r, level := rng(r.next()), float64(level+1)
				now := level
				t.exposes = append(t.exposes, metric(l, nil, func(scrape) float64 {
					now += (level-now)*0.001 + (r.float()-0.5)*0.004*level
					return gaugeKinds[kind](now)
				}))
			}
		}
		targets = append(targets, t)
	}
	return targets
}
