package fleet

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
)

// Outcome is what became of a leaf.
type Outcome struct {
	gpuexec.Outcome
	Estimated bool               // Estimate is set
	Estimate  placement.Estimate // the device's includes waiting for it
	GPU       int                // the device's number, where one computed it
}

// Suits says why a node cannot be evaluated on any GPU at present, whatever its
// data, or nothing.
func (f *Fleet) Suits(n plan.Node) string {
	if reason := gpuexec.Suits(n); reason != "" {
		return reason
	}
	_, reason := f.pick(nil)
	return reason
}

// Decline counts a node that is left to the cores. What a reason says behind a
// colon is not counted by.
func (f *Fleet) Decline(reason string) {
	reason, _, _ = strings.Cut(reason, ":")
	f.metrics.declined.WithLabelValues(reason).Inc()
}

// decline is the outcome for a leaf that is left to the cores.
func (f *Fleet) decline(o Outcome, reason string) (Outcome, error) {
	f.Decline(reason)
	o.Declined = reason
	return o, nil
}

// The reasons that this package adds to those of gpuexec.
const (
	reasonCheaper = "the cores are expected to be faster"
	reasonFailed  = "the GPU failed"
	reasonCorrupt = "a chunk is corrupt, which the cores report"
)

// Evaluate has a leaf computed by a device where that is expected to be faster, or
// in any case if forced. The rows of a window alone go to consume, as cpuexec.Accelerator
// says. Its error is the query's.
func (f *Fleet) Evaluate(ctx context.Context, l *cpuexec.Leaf, consume func(cpuexec.Rows) error, forced bool) (o Outcome, err error) {
	if reason := gpuexec.SuitsLeaf(l); reason != "" {
		return f.decline(o, reason)
	}
	d, reason := f.pick(l)
	if d == nil {
		return f.decline(o, reason)
	}
	size := SizeOf(l)
	size.Missing = int64(float64(size.Missing) * (1 - d.resident(l)))
	model := f.model.Load()
	o.Estimate, o.Estimated = model.Estimate(size), true
	o.Estimate[placement.Device] += d.wait()
	if !forced && o.Estimate.Cheaper() == placement.Cores {
		return f.decline(o, fmt.Sprintf("%s: %s against %s", reasonCheaper, short(o.Estimate[placement.Cores]), short(o.Estimate[placement.Device])))
	}
	if !d.begin() {
		return f.decline(o, reasonFailed+": it is just being tried again")
	}
	computed, err := d.run(ctx, l, consume)
	var query *cpuexec.QueryError
	var unsuited *gpuexec.Unsuited
	var corrupt *selection.CorruptError
	switch {
	case err == nil:
		d.end(nil)
		o.Outcome, o.GPU = computed, d.info.Ordinal
		job := o.Stages.Total - o.Stages.Waited
		d.note(job)
		model.Observe(placement.Device, size, job)
		f.metrics.count(d, &o.Outcome)
		return o, nil
	case errors.As(err, &query):
		d.leave()
		return o, query
	case l.Done() != nil:
		d.leave()
		return o, l.Done()
	case errors.As(err, &unsuited):
		d.leave()
		o.WindowOnly = unsuited.WindowOnly
		return f.decline(o, unsuited.Reason)
	case errors.As(err, &corrupt):
		d.leave()
		return f.decline(o, reasonCorrupt)
	}
	d.end(err)
	return f.decline(o, reasonFailed+": "+err.Error())
}

// short is a duration for reading.
func short(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Microsecond)
}

// OnCores tells how long the cores took for a leaf. Those with start timestamps, which
// no device evaluates, say nothing of others.
func (f *Fleet) OnCores(l *cpuexec.Leaf, took time.Duration) {
	if m := f.model.Load(); m != nil && !l.Starts {
		m.Observe(placement.Cores, SizeOf(l), took)
	}
}

// pick chooses the usable device that has most of the leaf's chunks, and of those
// the one with the least to do; else it says why there is none. The leaf may be
// nil.
func (f *Fleet) pick(l *cpuexec.Leaf) (best *device, reason string) {
	f.mu.Lock()
	devices, reason := f.devices, f.none
	f.mu.Unlock()
	now := time.Now()
	var most float64
	var least int64
	for i := range devices {
		// From another device on for every selector, so that ties are spread.
		d := devices[(i+first(l))%len(devices)]
		if why := d.usable(now); why != "" {
			reason = why
			continue
		}
		there, leaves := d.resident(l), d.leaves.Load()
		if best == nil || there > most || there == most && leaves < least {
			best, most, least = d, there, leaves
		}
	}
	if best != nil {
		return best, ""
	}
	return nil, reason
}

// first is a number that is the same for leaves of the same selector.
func first(l *cpuexec.Leaf) int {
	if l == nil {
		return 0
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(l.Window.Scan.String()))
	return int(h.Sum32() >> 1)
}

// resident is the share of a leaf's chunks that are on the device.
func (d *device) resident(l *cpuexec.Leaf) float64 {
	d.use.RLock()
	defer d.use.RUnlock()
	if l == nil || d.x == nil {
		return 0
	}
	return d.x.ResidentShare(l)
}

// Forget gives the devices' memory for a selection's chunks to others, unless a leaf
// under way uses them.
func (f *Fleet) Forget(sel *selection.Selection) {
	for _, d := range f.all() {
		d.use.RLock()
		if d.x != nil {
			d.x.Forget(sel)
		}
		d.use.RUnlock()
	}
}

// run computes a leaf.
func (d *device) run(ctx context.Context, l *cpuexec.Leaf, consume func(cpuexec.Rows) error) (o gpuexec.Outcome, err error) {
	d.use.RLock()
	defer d.use.RUnlock()
	if d.x == nil {
		return o, errors.New("it is closed")
	}
	return d.x.Evaluate(ctx, l, consume)
}

// wait is how long a leaf is expected to wait for the device.
func (d *device) wait() time.Duration {
	return time.Duration(d.leaves.Load() * d.typical.Load())
}

// note notes how long a leaf took. The first is the measure until there are more.
func (d *device) note(took time.Duration) {
	was := d.typical.Load()
	if was == 0 {
		was = int64(took)
	}
	d.typical.Store(was + (int64(took)-was)/8)
}

// looked is the number of series whose chunks are looked at to know about how
// much they are.
const looked = 512

// SizeOf is how much work a leaf is, about. No chunk of it counts as resident.
func SizeOf(l *cpuexec.Leaf) placement.Leaf {
	n := l.Selection.NumSeries()
	mint, maxt := l.Window.Reads(l.Grid)
	every := max(1, n/looked)
	series, samples, bytes := 0, int64(0), int64(0)
	for i := 0; i < n; i += every {
		series++
		for _, c := range l.Selection.Overlapping(i, mint, maxt) {
			samples += int64(c.Samples)
			bytes += int64(c.Len)
		}
	}
	scale := float64(n) / float64(max(series, 1))
	kind, results := kindOf(l)
	return placement.Leaf{
		Function: l.Window.Func.Name + kind,
		Series:   int64(n),
		Samples:  int64(float64(samples) * scale),
		Missing:  int64(float64(bytes) * scale),
		Decoded:  l.DecodedShare(),
		Windows:  int64(n) * int64(l.Grid.Steps),
		Results:  results,
	}
}

// kindOf tells kinds of leaves apart whose costs differ beyond what the estimates
// know, and how many bytes a device copies back of a leaf.
func kindOf(l *cpuexec.Leaf) (kind string, results int64) {
	steps := int64(l.Grid.Steps)
	if l.Aggregate == nil {
		return " alone", 8 * int64(len(l.GroupOf)) * steps
	}
	for _, room := range l.Rooms {
		results += 12 * int64(room) * steps
	}
	switch name := l.Aggregate.Func.Name; name {
	case "topk", "bottomk", "quantile":
		kind = " " + name
	}
	return kind, results + 8*int64(l.Groups)*steps
}
