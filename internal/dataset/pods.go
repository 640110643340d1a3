package dataset

import (
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
)

var namespaces = []string{"default", "ingest", "monitoring", "payments", "search"}

// podSlot is a place on a node that one pod after another occupies.
type podSlot struct {
	r    rng
	node string

	pod      *memory // nil between two pods
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
	p.pod = &memory{r: rng(p.r.next()), level: level, now: level * 0.3, step: 0.03}
	p.pod.series.Labels = labels.FromStrings(
		model.MetricNameLabel, "kube_pod_memory_working_set_bytes",
		"job", "kubelet",
		"namespace", ns,
		"node", p.node,
		"pod", "worker-"+string(suffix),
	)
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
			b.add(t, p.pod.next())
		}
	}
	if p.pod == nil {
		return nil
	}
	return b.flush(&p.pod.series, emit)
}
