package fleet

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/prometheus/common/version"

	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/planner/placement"
)

// calibrate makes the model, from the file of constants or by measuring, unless
// there is one.
func (f *Fleet) calibrate(x *gpuexec.Executor, d *device) error {
	if f.model.Load() != nil {
		return nil
	}
	if f.o.Constants != nil {
		f.model.Store(placement.New(*f.o.Constants))
		return nil
	}
	path, machine := f.o.ConstantsFile, f.machine(d)
	if path != "" {
		c, err := placement.Read(path, machine, time.Now())
		if err == nil {
			f.model.Store(placement.New(c))
			return nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			f.log.Info("what was measured earlier is of no use and is measured again", "reason", err)
		}
	}
	start := time.Now()
	c, err := measure(f.ctx, x, f.cpu)
	if err != nil {
		return err
	}
	f.log.Info("measured what the GPU and the cores do", "took", time.Since(start).Round(time.Millisecond),
		"gpu_leaf", c.Device.Fixed, "copy", c.Copy, "link_bytes_per_second", int64(c.Link), "gpu_samples_per_second", int64(1e9/c.Device.Sample),
		"cores_samples_per_second", int64(1e9/c.Cores.Sample), "cores", f.workers())
	f.model.Store(placement.New(c))
	if path == "" {
		return nil
	}
	if err := placement.Write(path, machine, time.Now(), c); err != nil {
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
