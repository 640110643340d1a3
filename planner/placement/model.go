package placement

import (
	"math"
	"sync"
	"time"

	"github.com/promwarp/promwarp/plan/offload"
)

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

// sound reports whether estimates can be made from the constants.
func (c *Constants) sound() bool {
	return c.Cores.sound() && c.Device.sound() && c.Copy >= 0 && c.Copy < time.Minute && c.Link > 0 && !math.IsInf(c.Link, 0)
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
func (c *Constants) plain(l offload.Size) (s [executors]float64) {
	series, samples, windows := float64(l.Series), float64(l.Samples), float64(l.Windows)
	s[Cores] = c.Cores.estimate(series, samples*(1-l.Decoded*(1-handicap)), windows)
	s[Device] = c.Device.estimate(series, samples, windows) + float64(l.Missing+l.Results)/c.Link
	if l.Missing > 0 {
		s[Device] += c.Copy.Seconds()
	}
	return s
}

// Estimate is how long each executor takes for a leaf by the constants alone.
func (c Constants) Estimate(l offload.Size) (e Estimate) {
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
func (m *model) estimate(l offload.Size) (e Estimate) {
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
func (m *model) observe(x Executor, l offload.Size, took time.Duration) {
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

// Costs are what an executor was measured to take for leaves. One that is too small
// to keep the whole executor busy (a core a series, a GPU's many threads) takes longer
// for each series, sample and window, until it has lost Ramp:
//
//	Fixed + min(Slow * work, Ramp + work)
//
// where work is the sum of the costs of all series, samples and windows.
type Costs struct {
	// Fixed is what a leaf takes however small it is.
	Fixed time.Duration `json:"fixed_ns"`
	// Series, Sample and Window are what each takes of a leaf that keeps the executor
	// busy, in ns.
	Series float64 `json:"series_ns"`
	Sample float64 `json:"sample_ns"`
	Window float64 `json:"window_ns"`
	// Slow is how many times as long they take of a small leaf, at least 1.
	Slow float64 `json:"slow"`
	// Ramp is the time that is lost until the executor is busy.
	Ramp time.Duration `json:"ramp_ns"`
}

// slowest is the largest Slow that is believed.
const slowest = 64

// sound reports whether estimates can be made from the costs.
func (c *Costs) sound() bool {
	for _, ns := range []float64{c.Series, c.Sample, c.Window} {
		if !(ns >= 0) || ns > float64(time.Minute) {
			return false
		}
	}
	return c.Sample > 0 && c.Slow >= 1 && c.Slow <= slowest &&
		c.Fixed >= 0 && c.Fixed < time.Minute && c.Ramp >= 0 && c.Ramp < time.Minute
}

// work is what so many series, samples and windows take of a busy executor, in ns.
func (c *Costs) work(series, samples, windows float64) float64 {
	return series*c.Series + samples*c.Sample + windows*c.Window
}

// estimate is how long the executor takes for a leaf, in seconds.
func (c *Costs) estimate(series, samples, windows float64) float64 {
	work := c.work(series, samples, windows)
	return (float64(c.Fixed) + min(c.Slow*work, float64(c.Ramp)+work)) / 1e9
}

// timed is how long a leaf took.
type timed struct {
	Series, Samples, Windows int64
	Took                     time.Duration
}

// measurements are the leaves that costs are found from.
type measurements struct {
	Least timed   // hardly any work
	Small timed   // clearly more work, but not enough to keep the executor busy
	Busy  []timed // enough for that, of different shapes
}

// fit finds the costs whose estimates come closest to what was measured: by least squares
// of relative errors, over costs that are not negative.
func (m *measurements) fit() Costs {
	c := Costs{Slow: 1}
	var rows [][unknowns]float64
	for _, t := range m.Busy {
		// As shares of the time that is to be explained.
		took := max(1, float64(t.Took-m.Least.Took))
		rows = append(rows, [unknowns]float64{float64(t.Series) / took, float64(t.Samples) / took, float64(t.Windows) / took, 1 / took})
	}
	x := closest(rows)
	c.Series, c.Sample, c.Window, c.Ramp = x[0], x[1], x[2], time.Duration(x[3])
	if last := len(m.Busy) - 1; c.Sample == 0 && last >= 0 {
		c.Sample = float64(m.Busy[last].Took) / 100 / float64(m.Busy[last].Samples) // not nothing
	}
	least := c.work(float64(m.Least.Series), float64(m.Least.Samples), float64(m.Least.Windows))
	if more := c.work(float64(m.Small.Series), float64(m.Small.Samples), float64(m.Small.Windows)) - least; more > 0 {
		c.Slow = max(1, min(slowest, float64(m.Small.Took-m.Least.Took)/more))
	}
	c.Fixed = max(0, m.Least.Took-time.Duration(c.Slow*least))
	c.Ramp += m.Least.Took - c.Fixed
	return c
}

// unknowns are the costs of a series, a sample and a window, and the ramp.
const unknowns = 4

// closest is the x, none of it negative, for which the sum of the squares of
// rows·x - 1 is least. It goes down one coordinate after the other.
func closest(rows [][unknowns]float64) (x [unknowns]float64) {
	var square [unknowns]float64 // of each column
	left := make([]float64, len(rows))
	for i, row := range rows {
		left[i] = 1
		for k, v := range row {
			square[k] += v * v
		}
	}
	const passes = 20_000 // a few ms
	for range passes {
		for k := range x {
			if square[k] == 0 {
				continue
			}
			down := 0.0
			for i, row := range rows {
				down += row[k] * left[i]
			}
			to := max(0, x[k]+down/square[k])
			for i, row := range rows {
				left[i] -= row[k] * (to - x[k])
			}
			x[k] = to
		}
	}
	return x
}
