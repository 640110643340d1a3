package dataset

import (
	"fmt"
	"strconv"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

// target is one thing that is scraped and the families it exposes.
type target struct {
	scraper
	families []family
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
	newScraper := func(interval int64) scraper {
		first := o.Start + int64(r.float()*float64(interval))
		return scraper{
			first:     first,
			last:      first - interval,
			interval:  interval,
			seed:      r.next(),
			phase:     float64(job) / 40,
			outages:   newOutages(o.Seed, i, o.Start),
			incidents: newIncidents(o.Seed, job, o.Start),
		}
	}
	interval := o.Interval.Milliseconds()

	app := &target{scraper: newScraper(interval)}
	app.resets = true
	at := host + ":8080"
	app.families = append(app.families,
		&upGauge{Series{Labels: name("up", at)}},
		constant(name("app_build_info", at, "version", fmt.Sprintf("1.%d.%d", job, r.intn(3))), 1),
		leak(name("process_resident_memory_bytes", at), rng(r.next()), r.spread(8000, 60_000)))
	rate := r.spread(3, 300)
	for _, h := range handlers {
		for _, m := range methods {
			for _, c := range codes {
				l := name("http_requests_total", at, "code", c.name, "handler", h.name, "method", m.name)
				app.families = append(app.families, counter(l, rng(r.next()), rate*h.share*m.share*c.share, c.surge, int64(r.between(0, 20_000)*rate*h.share*m.share*c.share)))
			}
		}
	}
	hist := newHistogram(rng(r.next()), rate, r.spread(0.01, 0.2), 4)
	for b, bound := range bounds {
		hist.buckets[b].Labels = name("http_request_duration_seconds_bucket", at, "le", labels.FormatOpenMetricsFloat(bound))
	}
	hist.sum.Labels = name("http_request_duration_seconds_sum", at)
	hist.count.Labels = name("http_request_duration_seconds_count", at)
	app.families = append(app.families, hist)

	node := &target{scraper: newScraper(interval)}
	if i%4 == 3 {
		node.jitter = interval / 20
	}
	node.resets = i%3 == 0 // the machine is rebooted, not only the application
	at = host + ":9100"
	node.families = append(node.families, &upGauge{Series{Labels: name("up", at)}})
	for cpu := range 2 {
		for _, m := range modes {
			l := name("node_cpu_seconds_total", at, "cpu", strconv.Itoa(cpu), "mode", m.name)
			node.families = append(node.families, cpuTime(l, rng(r.next()), m.share, m.busy, int64(m.share*r.between(0, 1e8))))
		}
	}
	size := float64(int64(4)<<30<<r.intn(4)) / page
	for _, m := range memoryTypes {
		level := size * m.share * r.between(0.5, 1)
		node.families = append(node.families, memory(name("node_memory_bytes", at, "type", m.name), rng(r.next()), level, level, 0.01))
	}

	kubelet := &target{scraper: newScraper(2 * interval)}
	kubelet.jitter = interval / 20
	kubelet.families = []family{newPodSlot(o.Seed, i, host, o.Start)}
	return []*target{app, node, kubelet}
}
