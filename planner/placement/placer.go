// Package placement chooses for each leaf, of a query or a resample request, whether the cores or
// a GPU evaluate it.
//
// A Placer is asked with a leaf and returns its outcome: that a GPU computed the leaf, with the
// results, or why the cores are to. It goes by a model: Constants, which
// are measured on the machine when the first GPU opens, say how long both are expected to
// take, and what happened corrects them. A wrong estimate costs time, never an answer, and
// what goes wrong with a GPU never ends a request.
//
// Begin with Placer.Evaluate. The formula is Costs.
package placement

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
)

// Options configure a Placer. Its GPUs are those of the embedded Options, of which Open sets
// Found.
type Options struct {
	device.Options
	// Constants, where given, are used instead of what would be measured.
	Constants *Constants
}

// Placer chooses between the cores and the GPUs that it has. It is safe for concurrent use.
type Placer struct {
	o        Options
	log      *slog.Logger
	cpu      *cpuexec.Executor // measures
	devices  *device.Set
	gpus     func() (all []gpu, none string)
	declined *prometheus.CounterVec
	model    atomic.Pointer[Model] // nil until a GPU is open
	serving  atomic.Int64          // queries that are being evaluated
}

// gpu is what the choice goes by: a *device.Device.
type gpu interface {
	Number() int
	Name() string
	Unusable(now time.Time) (reason string)
	ResidentShare(sel *selection.Selection) float64
	Keeps(sel *selection.Selection, needed int64) bool
	Leaves() int64
	Wait() time.Duration
	Evaluate(ctx context.Context, l offload.Leaf, consume func(*offload.Rows) error) (pipeline.Outcome, error)
	Ready(l offload.Leaf, within time.Duration) bool
}

// Open starts using GPUs. It fails, and waits for them, as device.Open does.
func Open(o Options) (*Placer, error) {
	if o.Logger == nil {
		o.Logger = promslog.NewNopLogger()
	}
	p := &Placer{
		o: o, log: o.Logger, cpu: cpuexec.New(cpuexec.Options{}),
		declined: instrument.With(o.Registerer).Counters("promwarp_gpu_declined_total", "Windows, with what aggregates them, that were left to the cores, by reason.", "reason"),
	}
	o.Found = p.calibrate
	devices, err := device.Open(o.Options)
	if err != nil {
		return nil, err
	}
	p.devices = devices
	p.gpus = func() (all []gpu, none string) {
		ds, none := devices.Devices()
		for _, d := range ds {
			all = append(all, d)
		}
		return all, none
	}
	return p, nil
}

// Ready is closed once every GPU is open or was found not to be usable.
func (p *Placer) Ready() <-chan struct{} { return p.devices.Ready() }

// Forget frees the GPUs' memory for a selection's chunks, unless a leaf under way uses them.
func (p *Placer) Forget(sel *selection.Selection) { p.devices.Forget(sel) }

// Serve counts a query as being evaluated until done is called.
func (p *Placer) Serve() (done func()) {
	p.serving.Add(1)
	return func() { p.serving.Add(-1) }
}

// Close waits for the leaves under way and closes the GPUs.
func (p *Placer) Close() { p.devices.Close() }

// Report is what a Placer knows at a moment of its GPUs and of what the machine does.
type Report struct {
	Reason  string         `json:"reason,omitempty"` // why there are no GPUs
	Devices []device.State `json:"devices"`
	// Constants are what was measured; nil where there is no GPU.
	Constants *Constants `json:"constants,omitempty"`
	// Crossover is how long leaves of ever more samples are expected to take.
	Crossover []Crossing `json:"crossover,omitempty"`
}

// Crossing is how long a leaf with that many samples is expected to take, in seconds.
type Crossing struct {
	Samples  int64   `json:"samples"`
	Cores    float64 `json:"cores_seconds"`
	Resident float64 `json:"gpu_resident_seconds"` // on a GPU that has the chunks
	Copied   float64 `json:"gpu_copied_seconds"`   // on one to which they must be copied
}

// The leaf of which Crossover speaks: an hour of samples every 15 s of ever more series, a window a
// minute, chunks as gauges and counters have them.
const (
	crossingSamples = 240 // of a series
	crossingWindows = 60  // of a series
	crossingBytes   = 2   // of a sample
	leastCrossing   = 1e4 // samples
	mostCrossing    = 2e9
)

// Report returns what the Placer knows. A nil one has no GPU.
func (p *Placer) Report() (r Report) {
	r.Devices = []device.State{}
	if p == nil {
		r.Reason = "no GPU is to be used (--gpu.mode=off)"
		return r
	}
	all, none := p.devices.Devices()
	for _, d := range all {
		r.Devices = append(r.Devices, d.State())
	}
	if len(all) == 0 {
		r.Reason = none
	}
	m := p.model.Load()
	if m == nil {
		return r
	}
	r.Constants = &m.c
	for n := int64(leastCrossing); n <= mostCrossing; n *= 2 {
		l := offload.Size{Series: n / crossingSamples, Samples: n, Windows: n / crossingSamples * crossingWindows}
		there := m.c.Estimate(l)
		l.Missing = n * crossingBytes
		r.Crossover = append(r.Crossover, Crossing{
			Samples: n, Cores: there[Cores].Seconds(), Resident: there[Device].Seconds(), Copied: m.c.Estimate(l)[Device].Seconds(),
		})
	}
	return r
}

// Expect is how long each executor is expected to take for a leaf that waits for nothing; ok is false
// where no GPU has opened yet. A nil Placer has none.
func (p *Placer) Expect(l offload.Size) (e Estimate, ok bool) {
	if p == nil || p.model.Load() == nil {
		return e, false
	}
	return p.model.Load().Estimate(l), true
}

// ResidentShare is the share, from 0 to 1, of a selection's chunks that are on GPUs, which may each have
// a part of them. What several have counts as often. A nil Placer has none.
func (p *Placer) ResidentShare(sel *selection.Selection) (share float64) {
	if p == nil {
		return 0
	}
	all, _ := p.devices.Devices()
	for _, d := range all {
		share += d.ResidentShare(sel)
	}
	return min(share, 1)
}
