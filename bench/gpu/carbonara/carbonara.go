// Package carbonara measures the experiment that promwarp began with, which
// resampled Gnocchi's points on a GPU: 1024·1024·7 points 5 s apart to means of 35 s,
// with the kernels of then, and as promwarp does it.
//
// # What is compared
//
// The points are those of 1024 series of 7168 points each; 64 times as many are 64
// times as many series with the same points.
//
//   - v1 to v3: page-locked float32 copied to the device, one kernel, float32 means
//     copied back; v4 has v3's kernel in pieces on four streams, so that it copies
//     both ways while it computes. They know nothing of times: point i belongs to
//     mean i/7. "On the device" is v3 without the copy to the device.
//   - runs: where points are irregular, times (4 bytes, in s) and values copied to the
//     device, where each run of a rounded time is found and added up.
//   - promwarp: from the job, over compressed chunks with their times in ms and
//     float64 values, to the matrix in the host's memory. Resident, chunks and the
//     tables that address them are on the device; else in page-locked slabs of the
//     host. Means by series are `avg_over_time(points[35s])`, all that the others
//     compute; summed is `sum(avg_over_time(points[35s]))`, what a dashboard asks, of
//     which little is copied back.
//   - promwarp's resample requests, of points 5 s apart: from the plan to the values in the
//     host's memory, as `/query` answers them. Means of each series, and all aggregates that
//     GPUs make of one group of all series.
//   - promwarp's cores: the same job by series with all cores, from chunks.
//
// All times are from the host's memory to the host's memory; every way's means are
// compared with those of a plain loop in float64.
package carbonara

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/promwarp/promwarp/bench/report"
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/slab"
)

// Options say how much to measure. The experiment's are Defaults. The kinds of points
// are those whose names match, such as "zeros 5-35" and "range 7-300".
type Options struct {
	Library string // the CUDA driver's
	Series  int
	Points  int   // of a series, a multiple of 7
	Sizes   []int // how many times the series
	Kinds   *regexp.Regexp
	report.Limits
	Log func(format string, args ...any)
}

// Defaults are the experiment's sizes.
func Defaults(library string) Options {
	return Options{Library: library, Series: 1024, Points: 7 * 1024, Sizes: []int{1, 64}, Kinds: regexp.MustCompile(""), Limits: report.Limits{Rounds: 9, Budget: 2 * time.Second}}
}

// The ways to resample, as results name them.
const (
	V1          = "v1"
	V2          = "v2"
	V3          = "v3"
	V4          = "v4"
	V3There     = "v3_on_the_device"
	Runs        = "runs"
	Cores       = "promwarp_cores"
	BySeries    = "promwarp_by_series"
	BySeriesHot = "promwarp_by_series_resident"
	Summed      = "promwarp_summed"
	SummedHot   = "promwarp_summed_resident"

	Resampled    = "promwarp_resampled"
	ResampledHot = "promwarp_resampled_resident"
	Grouped      = "promwarp_resampled_group"
	GroupedHot   = "promwarp_resampled_group_resident"
)

// Comparison is how long every way takes for the same points.
type Comparison struct {
	Values     string             `json:"values"`     // zeros, range or random
	Size       int                `json:"size"`       // times the experiment's series
	From       int                `json:"from_s"`     // s between points
	To         int                `json:"to_s"`       // s of a mean
	Points     int64              `json:"points"`     // that are there
	Floats     int64              `json:"copy_bytes"` // what the kernels of then copy to the device
	ChunkBytes int64              `json:"chunk_bytes"`
	Ms         map[string]float64 `json:"ms"`           // from the host to the host, by way
	Worst      map[string]float64 `json:"worst_errors"` // of any mean, by way, beside the larger of it and 1
	Failed     map[string]string  `json:"failed,omitempty"`
}

// Measure compares the ways for all kinds of points. save is called with what there
// is after each. Its error tells of all ways that failed.
func Measure(ctx context.Context, o Options, save func([]Comparison)) (err error) {
	driver, err := cuda.Open(o.Library)
	if err != nil {
		return err
	}
	dev, err := driver.Device(0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	cpu := cpuexec.New(cpuexec.Options{})
	x, err := pipeline.New(dev, pipeline.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, x.Close()) }()
	pinned.PageLockSlabs(dev)
	defer slab.PageLock(nil)
	r, err := newRig(dev)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	var all []Comparison
	var failed []error
	for _, size := range o.Sizes {
		for _, p := range o.kinds() {
			if err := ctx.Err(); err != nil {
				return err
			}
			if !o.Kinds.MatchString(p.name()) {
				continue
			}
			k := &kind{Options: o, points: p, size: size, rig: r, gpu: x, cpu: cpu}
			if err := k.compare(ctx); err != nil {
				return fmt.Errorf("%s, %d times: %w", p.name(), size, err)
			}
			all, failed = append(all, k.Comparison), append(failed, k.failures()...)
			save(all)
		}
	}
	return errors.Join(failed...)
}

// kind is points of one kind and size, and what measures them.
type kind struct {
	Options
	*points
	size int
	rig  *rig
	gpu  *pipeline.Machine
	cpu  *cpuexec.Executor
	sel  *selection.Selection // the points as promwarp has them
	Comparison
}

// compare measures all ways.
func (k *kind) compare(ctx context.Context) (err error) {
	k.make(k.Options)
	k.Comparison = Comparison{
		Values: k.values, Size: k.size, From: k.from, To: k.to, Points: int64(len(k.value)) * int64(k.size),
		Ms: map[string]float64{}, Worst: map[string]float64{}, Failed: map[string]string{},
	}
	if err := k.rig.load(k.points, k.size); err != nil {
		return err
	}
	k.Floats = int64(len(k.rig.values.host) + len(k.rig.times.host))
	k.historic()
	if err := k.rig.unload(); err != nil {
		return err
	}
	if k.sel, err = k.selection(k.size); err != nil {
		return err
	}
	defer k.gpu.Forget(k.sel)
	for i := range k.sel.NumSeries() {
		for _, c := range k.sel.Chunks(i) {
			k.ChunkBytes += int64(c.Len)
		}
	}
	if k.promwarp(ctx); k.from == 5 {
		err = k.resampled(ctx)
	}
	k.Log("%s, %d points", k.name(), k.Comparison.Points)
	return errors.Join(err, ctx.Err())
}

// take measures one way, whose means may be off by so much. One that fails is noted, and
// the others go on.
func (k *kind) take(way string, off float64, f func() error, check func() (float64, error)) {
	ms, err := k.Median(f)
	if err == nil {
		k.Worst[way], err = check()
	}
	if err == nil && k.Worst[way] > off {
		err = fmt.Errorf("a mean is off by %g", k.Worst[way])
	}
	if err != nil {
		k.Failed[way] = err.Error()
		k.Log("%s: %v", way, err)
		return
	}
	k.Ms[way] = ms
}

// failures are the ways that failed.
func (c *Comparison) failures() (errs []error) {
	for way, said := range c.Failed {
		errs = append(errs, fmt.Errorf("%s, %d to %d s, %d points: %s: %s", c.Values, c.From, c.To, c.Points, way, said))
	}
	return errs
}

// Tables are the comparisons for reading: the times by way, then promwarp beside v4.
func Tables(all []Comparison) []*report.Table {
	regular := &report.Table{
		Title: "Means of 7 points, 5 s to 35 s, ms from the host's memory to the host's memory:",
		Head:  []string{"values", "points", "v1", "v2", "v3", "v4", "v3, on the device"},
	}
	ours := &report.Table{
		Title: "promwarp, ms, and times as fast as v4:",
		Head:  []string{"values", "points", "bytes a point", "its cores", "by series", "resident", "summed", "resident", "/query by series", "resident", "/query, all aggregates of all series", "resident"},
	}
	irregular := &report.Table{
		Title: "Points 7 s apart with gaps, ms:",
		Head:  []string{"to", "points", "runs", "bytes a point", "its cores", "promwarp by series", "resident", "summed", "resident"},
	}
	for _, c := range all {
		at := func(way string) string { return report.Number(c.Ms[way]) }
		base := V4
		if c.From != 5 {
			base = Runs
		}
		beside := func(way string) string {
			return fmt.Sprintf("%s, %s", at(way), report.Times(c.Ms[base], c.Ms[way]))
		}
		points := fmt.Sprintf("%.1f M", float64(c.Points)/1e6)
		bytes := report.Number(float64(c.ChunkBytes) / float64(c.Points))
		if c.From == 5 {
			regular.Add(c.Values, points, at(V1), at(V2), at(V3), at(V4), at(V3There))
			ours.Add(c.Values, points, bytes, at(Cores), beside(BySeries), beside(BySeriesHot), beside(Summed), beside(SummedHot),
				beside(Resampled), beside(ResampledHot), beside(Grouped), beside(GroupedHot))
			continue
		}
		irregular.Add(fmt.Sprintf("%d s", c.To), points, at(Runs), bytes, at(Cores),
			beside(BySeries), beside(BySeriesHot), beside(Summed), beside(SummedHot))
	}
	return []*report.Table{regular, ours, irregular}
}
