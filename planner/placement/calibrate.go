package placement

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

	"github.com/promwarp/promwarp/gpuexec/device"
)

// calibrate makes the model when the first GPU is open: from the constants that were given,
// the file of constants, or by measuring.
func (p *Placer) calibrate(ctx context.Context, d device.Opened) error {
	if p.model.Load() != nil {
		return nil
	}
	if p.o.Constants != nil {
		p.model.Store(newModel(*p.o.Constants))
		return nil
	}
	if path := p.o.ConstantsFile; path != "" {
		c, err := read(path, p.machine(d), time.Now())
		if err == nil {
			p.model.Store(newModel(c))
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			p.log.Info("what was measured earlier is of no use and is measured again", "reason", err)
		}
	}
	start := time.Now()
	c, err := measure(ctx, d.Executor, p.cpu)
	if err != nil {
		return err
	}
	p.log.Info("measured what the GPU and the cores do", "took", time.Since(start).Round(time.Millisecond),
		"gpu_leaf", c.Device.Fixed, "copy", c.Copy, "link_bytes_per_second", int64(c.Link), "gpu_samples_per_second", int64(1e9/c.Device.Sample),
		"cores_samples_per_second", int64(1e9/c.Cores.Sample), "cores", p.workers())
	p.partial.Store(true)
	p.model.Store(newModel(c))
	return nil
}

// calibrateResampling adds to the model, if it was measured, what resample requests take, and
// stores it.
func (p *Placer) calibrateResampling(ctx context.Context, d device.Opened) error {
	if !p.partial.CompareAndSwap(true, false) {
		return nil
	}
	c := p.model.Load().c
	if err := measureResampling(ctx, d.Executor, p.workers(), &c); err != nil {
		return err
	}
	p.log.Info("measured what resample requests take", "gpu_resampled_per_second", int64(1e9/c.ResampleDevice.Sample),
		"cores_resampled_per_second", int64(1e9/c.ResampleCores.Sample))
	p.model.Store(newModel(c))
	if p.o.ConstantsFile == "" {
		return nil
	}
	if err := write(p.o.ConstantsFile, p.machine(d), time.Now(), c); err != nil {
		p.log.Warn("what was measured cannot be kept and is measured again at the next start", "err", err)
	}
	return nil
}

func (p *Placer) workers() int {
	if p.o.Workers > 0 {
		return p.o.Workers
	}
	return runtime.GOMAXPROCS(0)
}

// machine names what constants depend on.
func (p *Placer) machine(d device.Opened) string {
	return fmt.Sprintf("%s, driver %s, CUDA %s, %d cores of %s, promwarp %s",
		d.Name, d.Driver, d.CUDA, p.workers(), Processor(), version.Version)
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
