package placement

import (
	"math"
	"sync"
	"time"
)

// Constants are what a machine was measured to do.
type Constants struct {
	// Cores are the costs on all of them.
	Cores Costs `json:"cores"`
	// Device are the costs on a device that has the chunks already.
	Device Costs `json:"device"`
	// ResampleCores and ResampleDevice are the same of resample requests, whose windows are the
	// buckets of all series.
	ResampleCores  Costs `json:"resample_cores"`
	ResampleDevice Costs `json:"resample_device"`
	// Copy is what copying chunks to the device takes besides, however few, and Link how
	// many bytes a second are copied.
	Copy time.Duration `json:"copy_ns"`
	Link float64       `json:"link_bytes_per_second"`
}

// sound reports whether estimates can be made from the constants.
func (c *Constants) sound() bool {
	return c.Cores.sound() && c.Device.sound() && c.ResampleCores.sound() && c.ResampleDevice.sound() && c.Copy >= 0 && c.Copy < time.Minute && c.Link > 0 && !math.IsInf(c.Link, 0)
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

// handicap is what a decoded sample costs the cores, as a share of one that must be
// decoded first.
const handicap = 0.05

// plain is the estimate by the constants alone, in seconds.
func (c *Constants) plain(l Size) (s [executors]float64) {
	series, samples, windows := float64(l.Series), float64(l.Samples), float64(l.Windows)
	cores, device := &c.Cores, &c.Device
	if l.Resampled {
		cores, device = &c.ResampleCores, &c.ResampleDevice
	}
	s[Cores] = cores.estimate(series, samples*(1-l.Decoded*(1-handicap)), windows)
	s[Device] = device.estimate(series, samples, windows) + float64(l.Missing+l.Results)/c.Link
	if l.Missing > 0 {
		s[Device] += c.Copy.Seconds()
	}
	return s
}

// Estimate is how long each executor takes for a leaf by the constants alone.
func (c Constants) Estimate(l Size) (e Estimate) {
	for k, s := range c.plain(l) {
		e[k] = time.Duration(s * float64(time.Second))
	}
	return e
}

// model estimates, and learns from what happened. It is safe for concurrent use.
type model struct {
	c Constants

	mu sync.Mutex
	// off is, by function, the logarithm of how many times as long as by the constants
	// an executor takes.
	off [executors]map[string]float64
}

// newModel returns a model that has learned nothing yet.
func newModel(c Constants) *model {
	m := &model{c: c}
	for k := range m.off {
		m.off[k] = map[string]float64{}
	}
	return m
}

// estimate is how long each executor is expected to take for a leaf.
func (m *model) estimate(l Size) (e Estimate) {
	plain := m.c.plain(l)
	m.mu.Lock()
	defer m.mu.Unlock()
	for k, s := range plain {
		ns := s * math.Exp(m.off[k][l.Function]) * float64(time.Second)
		e[k] = time.Duration(min(ns, longest)) // no number of ns is beyond a Duration
	}
	return e
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

// observe notes how long an executor took for a leaf.
func (m *model) observe(x Executor, l Size, took time.Duration) {
	s := m.c.plain(l)[x]
	if took < tooShort || s <= 0 {
		return
	}
	ratio := math.Log(took.Seconds() / s)
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
