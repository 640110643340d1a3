package placement

import (
	"math"
	"sync"
	"time"

	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
)

// Constants are what a machine was measured to do.
type Constants struct {
	// Cores are the costs on all of them.
	Cores Costs `json:"cores"`
	// Device are the costs on a device that has the chunks already.
	Device Costs `json:"device"`
	// Link is how many bytes a second are copied to the device.
	Link float64 `json:"link_bytes_per_second"`
}

// Executor is who evaluates a leaf.
type Executor int

// The executors.
const (
	Cores Executor = iota
	Device
	executors
)

// Estimate is how long each executor is expected to take.
type Estimate [executors]time.Duration

// cheaper is the executor that is expected to be done first. The cores win ties.
func (e Estimate) cheaper() Executor {
	if e[Device] < e[Cores] {
		return Device
	}
	return Cores
}

// Estimate is how long each executor takes for a leaf by the constants alone.
func (c Constants) Estimate(l offload.Size) (e Estimate) {
	copied := float64(l.Missing+l.Results) / c.Link * float64(time.Second)
	e[Cores] = duration(c.Cores.estimate(workOf(&l, l.Decoded)))
	e[Device] = duration(c.Device.estimate(workOf(&l, 0)) + copied)
	return e
}

// duration is a number of ns as a Duration, the longest one where it is beyond that.
func duration(ns float64) time.Duration { return time.Duration(min(ns, longest)) }

// Model estimates, and learns from what happened. It is safe for concurrent use.
type Model struct {
	c Constants

	mu sync.Mutex
	// off is, by function, the logarithm of how many times as long as by the constants
	// an executor takes.
	off    [executors]map[string]float64
	speeds sync.Map // by the name of devices, see speed
}

// NewModel returns a model that has learned nothing yet.
func NewModel(c Constants) *Model {
	m := &Model{c: c}
	for k := range m.off {
		m.off[k] = map[string]float64{}
	}
	return m
}

// Estimate is how long each executor is expected to take for a leaf.
func (m *Model) Estimate(l offload.Size) (e Estimate) {
	e = m.c.Estimate(l)
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, took := range e {
		e[k] = duration(float64(took) * math.Exp(m.off[k][l.Function]))
	}
	return e
}

// speed is how many times as fast as by the constants a device computes, as far as it was measured.
func (m *Model) speed(name string) float64 {
	if times, ok := m.speeds.Load(name); ok {
		return times.(float64)
	}
	return 1
}

// onGPU is the size of a part of a leaf with what a GPU lacks of its selection. Work counts less on a
// faster GPU.
func (m *Model) onGPU(size offload.Size, share float64, sel *selection.Selection, g gpu) offload.Size {
	for _, n := range []*int64{&size.Series, &size.Samples, &size.Windows} {
		*n = int64(float64(*n) * share / m.speed(g.Name()))
	}
	size.Missing = int64(float64(size.Missing) * share * (1 - g.ResidentShare(sel)))
	size.Results = int64(float64(size.Results) * share)
	return size
}

const (
	// learning is the weight of the newest observation.
	learning = 0.2
	// forgetting is the share of what was learned of the other executor that each
	// observation removes. One bad observation must not exclude an executor for ever.
	forgetting = 0.01
	// furthest is how many times longer or shorter than by the constants an
	// estimate can become.
	furthest = 16
	// longest is the longest estimate, in ns.
	longest = 1 << 62
	// tooShort is the time below which an observation says nothing about the costs.
	tooShort = 50 * time.Microsecond
)

// Observe notes how long an executor took for a leaf.
func (m *Model) Observe(x Executor, l offload.Size, took time.Duration) {
	expected := m.c.Estimate(l)[x]
	if took < tooShort || expected <= 0 {
		return
	}
	ratio := math.Log(float64(took) / float64(expected))
	limit := math.Log(furthest)
	m.mu.Lock()
	defer m.mu.Unlock()
	off := m.off[x][l.Function]
	m.off[x][l.Function] = max(-limit, min(limit, off+learning*(ratio-off)))
	for k := range m.off {
		if Executor(k) != x {
			m.off[k][l.Function] *= 1 - forgetting
		}
	}
}

// Costs are what an executor was measured to take for leaves: Fixed + Sample * work.
type Costs struct {
	// Fixed is what a leaf takes however small it is.
	Fixed time.Duration `json:"fixed_ns"`
	// Sample is what a sample takes of a leaf that keeps the executor busy, in ns.
	Sample float64 `json:"sample_ns"`
}

// estimate is how long the executor takes for so much work, in ns.
func (c *Costs) estimate(work float64) float64 { return float64(c.Fixed) + c.Sample*work }

const (
	// seriesWork is the number of samples that a series counts for, besides its own.
	seriesWork = 200
	// decodedWork is as how many samples one counts that is decoded already.
	decodedWork = 0.05
)

// workOf is how many samples a leaf counts as, of whose samples a share is decoded. A window counts
// as a sample.
func workOf(l *offload.Size, decoded float64) float64 {
	return seriesWork*float64(l.Series) + float64(l.Samples)*(1-decoded*(1-decodedWork)) + float64(l.Windows)
}
