// Package placement estimates how long the cores and a GPU take for a leaf, a window
// and perhaps what aggregates it, from constants that were measured on the machine and
// from how far earlier estimates were off.
package placement

import (
	"math"
	"sync"
	"time"
)

// Leaf is how much work a leaf is.
type Leaf struct {
	Function string // of its window, and what is made of that
	Series   int64
	Samples  int64   // in its chunks
	Decoded  float64 // share of them, from 0 to 1, that the cores have kept decoded
	Missing  int64   // bytes that must be copied to the device first
	Windows  int64   // series times steps
	Results  int64   // bytes that are copied back from the device
}

// Constants are what a machine was measured to do.
type Constants struct {
	// Cores are the costs on all of them.
	Cores Costs `json:"cores"`
	// Device are the costs on a device that has the chunks already.
	Device Costs `json:"device"`
	// Copy is what copying chunks to the device takes besides, however few, and Link how
	// many bytes a second are copied.
	Copy time.Duration `json:"copy_ns"`
	Link float64       `json:"link_bytes_per_second"`
}

// Sound reports whether estimates can be made from the constants.
func (c *Constants) Sound() bool {
	return c.Cores.Sound() && c.Device.Sound() && c.Copy >= 0 && c.Copy < time.Minute && c.Link > 0 && !math.IsInf(c.Link, 0)
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

// Cheaper is the executor that is expected to be done first. The cores win ties.
func (e Estimate) Cheaper() Executor {
	if e[Device] < e[Cores] {
		return Device
	}
	return Cores
}

// handicap is what the decoded samples of a series cost beside others: they are
// loaded only.
const handicap = 0.05

// plain is the estimate by the constants alone, in seconds.
func (c *Constants) plain(l Leaf) (s [executors]float64) {
	series, samples, windows := float64(l.Series), float64(l.Samples), float64(l.Windows)
	s[Cores] = c.Cores.estimate(series, samples*(1-l.Decoded*(1-handicap)), windows)
	s[Device] = c.Device.estimate(series, samples, windows) + float64(l.Missing+l.Results)/c.Link
	if l.Missing > 0 {
		s[Device] += c.Copy.Seconds()
	}
	return s
}

// Model estimates, and learns from what happened. It is safe for concurrent use.
type Model struct {
	c Constants

	mu sync.Mutex
	// off is the logarithm of how many times longer than estimated an executor
	// takes, by function.
	off [executors]map[string]float64
}

// New returns a model that has learned nothing yet.
func New(c Constants) *Model {
	m := &Model{c: c}
	for k := range m.off {
		m.off[k] = map[string]float64{}
	}
	return m
}

// Constants are those that the model was made from.
func (m *Model) Constants() Constants { return m.c }

// Estimate is how long each executor is expected to take for a leaf.
func (m *Model) Estimate(l Leaf) (e Estimate) {
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
	// forgetting is how much of what was learned of the executor that was not
	// chosen goes with each choice, so that one bad observation does not keep it
	// out for ever.
	forgetting = 0.01
	// furthest is how many times longer or shorter than by the constants an
	// estimate can become.
	furthest = 16
	// longest is the longest estimate, in ns.
	longest = 1 << 62
	// tooShort is below which what happened says nothing about the rates.
	tooShort = 50 * time.Microsecond
)

// Observe notes how long an executor took for a leaf.
func (m *Model) Observe(x Executor, l Leaf, took time.Duration) {
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
