package dataset

import (
	"fmt"
	"math"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

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
	interval := o.Interval.Milliseconds()
	for _, prefix := range []string{"gauge_", "late_gauge_"} {
		first := o.Start + int64(r.float()*float64(interval))
		t := &target{scraper: scraper{first: first, last: first - interval, interval: interval, seed: r.next(), incidents: newIncidents(o.Seed, 0, o.Start)}}
		t.outages.cur = event{from: math.MaxInt64, to: math.MaxInt64}
		if prefix == "late_gauge_" {
			t.jitter = interval / 20
		}
		for _, kind := range GaugeKinds {
			for level, le := range gaugeBounds {
				l := labels.FromStrings(model.MetricNameLabel, prefix+kind, "instance", fmt.Sprintf("host-%03d", i),
					"job", "job-"+strconv.Itoa(jobs[i%len(jobs)]), "le", le)
				t.families = append(t.families, walk(l, rng(r.next()), float64(level+1), gaugeKinds[kind]))
			}
		}
		targets = append(targets, t)
	}
	return targets
}

// walk is a gauge that wanders around a level at each scrape, and what of is made of that.
func walk(l labels.Labels, r rng, level float64, of func(float64) float64) *metric {
	now := level
	return &metric{series: Series{Labels: l}, value: func(*scrapes, int) float64 {
		now += (level-now)*0.001 + (r.float()-0.5)*0.004*level
		return of(now)
	}}
}
