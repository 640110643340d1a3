package dataset

import (
	"math"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// family generates the series of one metric, or of metrics that belong together, of one target.
type family interface {
	window(w *scrapes, b *buffer, emit Emit) error
}

// metric is a series with a value at each scrape that finds the target.
type metric struct {
	series  Series
	restart func()                          // of the process; nil where it changes nothing
	value   func(w *scrapes, i int) float64 // at scrape i
}

// window implements family.
func (m *metric) window(w *scrapes, b *buffer, emit Emit) error {
	for i, t := range w.t {
		if w.flags[i] != 0 {
			if b.skip(w, i) {
				continue
			}
			if m.restart != nil {
				m.restart()
			}
		}
		b.add(t, m.value(w, i))
	}
	return b.flush(&m.series, emit)
}

// constant is a gauge that never changes.
func constant(l labels.Labels, value float64) *metric {
	return &metric{series: Series{Labels: l}, value: func(*scrapes, int) float64 { return value }}
}

// counter counts events, as whole numbers, at a rate a second that follows the load and grows by the
// factor surge during incidents. It begins at n.
func counter(l labels.Labels, r rng, rate, surge float64, n int64) *metric {
	carry := 0.0 // the part of an event that is still due
	return &metric{
		series:  Series{Labels: l},
		restart: func() { n, carry = 0, 0 },
		value: func(w *scrapes, i int) float64 {
			due := rate * w.load[i] * w.dt[i]
			if w.hot[i] {
				due *= surge
			}
			due = due*(0.5+r.float()) + carry
			whole := math.Floor(due)
			carry = due - whole
			n += int64(whole)
			return float64(n)
		},
	}
}

// cpuTime counts a CPU's time in one mode, of which it is a share on average, in hundredths of a second
// from n on. The share grows with the load, or shrinks with it where that is not busy.
func cpuTime(l labels.Labels, r rng, share float64, busy bool, n int64) *metric {
	return &metric{
		series:  Series{Labels: l},
		restart: func() { n = 0 },
		value: func(w *scrapes, i int) float64 {
			load := w.load[i]
			if !busy {
				load = 1.3 - load*0.3
			}
			share := min(1, share*load*(0.9+0.2*r.float()))
			n += int64(100*share*w.dt[i] + 0.5)
			return float64(n) / 100
		},
	}
}

const page = 4096

// memory is a gauge of bytes that wanders around a level in pages, in whole pages, by steps of a share
// of it at most.
func memory(l labels.Labels, r rng, level, now, step float64) *metric {
	return &metric{series: Series{Labels: l}, value: func(*scrapes, int) float64 {
		x := r.next()
		if x&3 == 0 { // often nothing happened
			u := float64(x>>11)/(1<<53) - 0.5
			now += (level-now)*0.02 + 2*u*step*level
		}
		return page * math.Floor(max(now, 1))
	}}
}

// leak is a process's memory, from base pages on: it grows, falls back now and then when garbage is
// collected, and starts anew with the process.
func leak(l labels.Labels, r rng, base float64) *metric {
	now := 0.0
	return &metric{
		series:  Series{Labels: l},
		restart: func() { now = base },
		value: func(w *scrapes, i int) float64 {
			u := r.float()
			now += u * w.load[i] * 40
			if u < 0.02 {
				now -= (now - base) * 0.7
			}
			return page * math.Floor(now)
		},
	}
}

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

// bounds are the upper bounds of the latency histogram's buckets in seconds.
var bounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, math.Inf(1)}

// histogram is a classic histogram: a counter for each bucket and for count and
// sum. Latencies are exponentially distributed with a floor.
type histogram struct {
	buckets    []Series
	sum, count Series
	r          rng
	rate       float64 // observations a second on average
	mean       float64 // latency in seconds
	surge      float64 // the factor on latency during incidents

	n       int64
	total   float64
	reached []float64 // expected observations by bucket

	share, shareHot []float64 // of observations within the bucket's bound
	cols            [][]float64
	t               []int64
}

func newHistogram(r rng, rate, mean, surge float64) *histogram {
	h := &histogram{r: r, rate: rate, mean: mean, surge: surge}
	h.buckets = make([]Series, len(bounds))
	h.reached = make([]float64, len(bounds))
	h.cols = make([][]float64, len(bounds)+2)
	h.share, h.shareHot = distribution(mean), distribution(mean*surge)
	return h
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

// window implements family.
func (h *histogram) window(w *scrapes, b *buffer, emit Emit) error {
	nb := len(bounds)
	h.t = h.t[:0]
	for c := range h.cols {
		h.cols[c] = h.cols[c][:0]
	}
	for i, t := range w.t {
		if w.flags[i] != 0 {
			if b.skip(w, i) {
				if len(b.t) > 0 { // the stale marker is for every series
					b.clear()
					h.t = append(h.t, t)
					for c := range h.cols {
						h.cols[c] = append(h.cols[c], staleMarker)
					}
				}
				continue
			}
			h.n, h.total = 0, 0
			clear(h.reached)
		}
		share, mean := h.share, h.mean
		if w.hot[i] {
			share, mean = h.shareHot, h.mean*h.surge
		}
		n := math.Floor(h.rate*w.load[i]*w.dt[i]*(0.5+h.r.float()) + 0.5)
		h.n += int64(n)
		h.total += n * mean * (0.9 + 0.2*h.r.float())
		h.t = append(h.t, t)
		for c, s := range share {
			h.reached[c] += n * s
			h.cols[c] = append(h.cols[c], math.Floor(h.reached[c]))
		}
		h.cols[nb-1][len(h.t)-1] = float64(h.n)
		h.cols[nb] = append(h.cols[nb], h.total)
		h.cols[nb+1] = append(h.cols[nb+1], float64(h.n))
	}
	if len(h.t) == 0 {
		return nil
	}
	for c := range h.buckets {
		if err := emit(&h.buckets[c], h.t, h.cols[c]); err != nil {
			return err
		}
	}
	if err := emit(&h.sum, h.t, h.cols[nb]); err != nil {
		return err
	}
	return emit(&h.count, h.t, h.cols[nb+1])
}

var namespaces = []string{"default", "ingest", "monitoring", "payments", "search"}

// podSlot is a place on a node that one pod after another occupies.
type podSlot struct {
	r    rng
	node string

	pod      *metric // nil between two pods
	from, to int64   // of the pod, or of the next one
}

func newPodSlot(seed uint64, number int, node string, start int64) *podSlot {
	p := &podSlot{r: newRNG(seed, "pod", number), node: node}
	p.plan(start)
	// The first pod is already running.
	p.from = start
	return p
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

// window implements family.
func (p *podSlot) window(w *scrapes, b *buffer, emit Emit) error {
	for i, t := range w.t {
		if p.pod != nil && t >= p.to {
			b.add(t, staleMarker)
			if err := b.flush(&p.pod.series, emit); err != nil {
				return err
			}
			p.pod = nil
			p.plan(t)
		}
		if p.pod == nil {
			if t < p.from {
				continue
			}
			p.start()
		}
		if w.flags[i]&flagLost == 0 {
			b.add(t, p.pod.value(w, i))
		}
	}
	if p.pod == nil {
		return nil
	}
	return b.flush(&p.pod.series, emit)
}
