package placement

import (
	"github.com/promwarp/promwarp/gpuexec/device"
	"github.com/promwarp/promwarp/selection"
)

// Report is what a Placer knows at a moment of its GPUs and of what the machine does.
type Report struct {
	Reason  string         `json:"reason,omitempty"` // why there are no GPUs
	Devices []device.State `json:"devices"`
	// Constants are what was measured; nil where there is no GPU.
	Constants *Constants `json:"constants,omitempty"`
	// Crossover is how long leaves of ever more samples are expected to take.
	Crossover []Crossing `json:"crossover,omitempty"`
}

// Crossing is how long a leaf of so many samples is expected to take, in seconds.
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
		r.Reason = "no GPU is to be used (--gpu=off)"
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
		l := Size{Series: n / crossingSamples, Samples: n, Windows: n / crossingSamples * crossingWindows}
		there := m.c.Estimate(l)
		l.Missing = n * crossingBytes
		r.Crossover = append(r.Crossover, Crossing{
			Samples: n, Cores: there[Cores].Seconds(), Resident: there[Device].Seconds(), Copied: m.c.Estimate(l)[Device].Seconds(),
		})
	}
	return r
}

// ResidentShare is the share, from 0 to 1, of a selection's chunks that are on the GPU that has
// most of them. A nil Placer has none.
func (p *Placer) ResidentShare(sel *selection.Selection) (most float64) {
	if p == nil {
		return 0
	}
	all, _ := p.devices.Devices()
	for _, d := range all {
		most = max(most, d.ResidentShare(sel))
	}
	return most
}
