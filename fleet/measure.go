package fleet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/common/version"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/cost"
	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
)

// Measurements are made with as many series as it takes for the rates to show beside
// what any leaf takes, within bounds.
const (
	leastSeries = 2 << 10
	mostSeries  = 128 << 10
	shows       = 8 // times what any leaf takes
)

// calibrate makes the model, from the file of constants or by measuring, unless
// there is one.
func (f *Fleet) calibrate(x *gpuexec.Executor, d *device) error {
	if f.model.Load() != nil {
		return nil
	}
	if f.o.Constants != nil {
		f.model.Store(cost.New(*f.o.Constants))
		return nil
	}
	path, machine := f.o.ConstantsFile, f.machine(d)
	if path != "" {
		c, err := cost.Read(path, machine, time.Now())
		if err == nil {
			f.model.Store(cost.New(c))
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			f.log.Info("what was measured earlier is of no use and is measured again", "reason", err)
		}
	}
	c, err := measure(f.ctx, x, f.cpu, f.workers())
	if err != nil {
		return err
	}
	f.log.Info("measured what the GPU and the cores do", "launch", c.Launch,
		"link_bytes_per_second", int64(c.Link), "gpu_samples_per_second", int64(c.DeviceSamples), "gpu_windows_per_second", int64(c.DeviceWindows),
		"core_samples_per_second", int64(c.CoreSamples), "core_windows_per_second", int64(c.CoreWindows), "cores", c.Workers)
	f.model.Store(cost.New(c))
	if path == "" {
		return nil
	}
	if err := cost.Write(path, machine, time.Now(), c); err != nil {
		f.log.Warn("what was measured cannot be kept and is measured again at the next start", "err", err)
	}
	return nil
}

func (f *Fleet) workers() int {
	if f.o.Workers > 0 {
		return f.o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// machine names what constants depend on.
func (f *Fleet) machine(d *device) string {
	return fmt.Sprintf("%s, driver %s, CUDA %s, %d cores of %s, promwarp %s",
		d.info.Name, cuda.Release(), d.driver.Version(), f.workers(), Processor(), version.Version)
}

// Processor is the name of the machine's processor.
func Processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

// chunkSamples is the number of samples in each of the chunks that are measured.
const chunkSamples = 120

// measure finds the constants, from whole leaves.
func measure(ctx context.Context, x *gpuexec.Executor, cpu *cpuexec.Executor, workers int) (c cost.Constants, err error) {
	c.Workers = workers
	few, many := plan.Grid{Start: span, Interval: 1, Steps: 1}, plan.Grid{Interval: span / 512, Steps: 512}
	device := func(s *selection.Selection, g plan.Grid) time.Duration {
		return best(&err, func() error { _, err := x.Run(ctx, rates(s, g)); return err })
	}
	cores := func(s *selection.Selection, g plan.Grid) time.Duration {
		return best(&err, func() error { _, err := cpu.Run(ctx, rates(s, g)); return err })
	}
	c.Launch = device(counters(1), few)
	series := leastSeries
	large := counters(series)
	decoded := device(large, few)
	for err == nil && series < mostSeries && decoded < shows*c.Launch {
		series *= 4
		large = counters(series)
		decoded = device(large, few)
	}
	if err != nil {
		return c, err
	}
	c.Link = x.Link()
	samples, windows := float64(large.NumSamples()), float64(series*(many.Steps-few.Steps))
	bytes := 0
	for i := range series {
		for _, k := range large.Chunks(i) {
			bytes += int(k.Len)
		}
	}
	windowed := device(large, many)
	// What is left of so short a time is at least a tenth of it.
	left := max(decoded.Seconds()/10, decoded.Seconds()-c.Launch.Seconds()-float64(bytes)/c.Link)
	c.DeviceSamples = samples / left
	c.DeviceWindows = windows / max(windowed.Seconds()/10, (windowed-decoded).Seconds())
	decoded, windowed = cores(large, few), cores(large, many)
	c.CoreSamples = samples / decoded.Seconds() / float64(workers)
	c.CoreWindows = windows / max(windowed.Seconds()/10, (windowed-decoded).Seconds()) / float64(workers)
	if err == nil && !c.Sound() {
		err = fmt.Errorf("the rates cannot be: %+v", c)
	}
	return c, err
}

// best is the least time of a few calls of f. An error is kept, and ends them.
func best(err *error, f func() error) (least time.Duration) {
	for k := 0; k < 3 && *err == nil; k++ {
		start := time.Now()
		*err = f()
		if took := time.Since(start); k == 0 || took < least {
			least = took
		}
	}
	return max(least, 1)
}

// span is the time that the measured samples take, in ms.
const span = chunkSamples * 15_000

// rates is the job of a sum of rates over a selection.
func rates(s *selection.Selection, g plan.Grid) cpuexec.Job {
	w := &plan.Window{Scan: &plan.Scan{Text: "measured"}, Func: plan.Windows["rate"], Width: span, Text: "rate(measured)"}
	if g.Steps > 1 {
		w.Width = span / 16
	}
	return cpuexec.Job{
		Node: &plan.Aggregate{Func: plan.Aggregates["sum"], Input: w, Text: "sum(rate(measured))"}, Grid: g,
		Select: func(context.Context, *plan.Window, plan.Grid) (*selection.Selection, annotations.Annotations, error) {
			return s, nil, nil
		},
	}
}

// counters is a selection of counters of one chunk each.
func counters(series int) *selection.Selection {
	c := chunkenc.NewXORChunk()
	app, err := c.Appender()
	for k := range chunkSamples {
		if err == nil {
			app.Append(0, int64(k)*15_000, float64(k*k%977+k*1000))
		}
	}
	b := selection.NewBuilder(0)
	for i := range series {
		b.Series(labels.FromStrings("i", fmt.Sprintf("%08d", i)))
		if err == nil {
			err = b.Chunk(chunkenc.EncXOR, 0, (chunkSamples-1)*15_000, c.Bytes())
		}
	}
	s, finished := b.Finish()
	if err := errors.Join(err, finished); err != nil {
		panic(err) // it is the same at every start
	}
	return s
}
