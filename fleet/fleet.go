// Package fleet looks after the GPUs of a machine: it opens them, decides which
// leaves of queries they evaluate and which are left to the cores, and keeps
// queries away from a device that fails until it works again.
package fleet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/planner/placement"
	"github.com/promwarp/promwarp/selection"
)

// Options configure a Fleet.
type Options struct {
	// Require makes Open wait for the devices and fail where one cannot be used.
	// Otherwise they start in the background.
	Require bool
	// Devices are the driver's numbers of the devices to use; none means all.
	Devices []int
	// MemoryFraction is the part of a device's free memory that is taken, more
	// than 0 and at most 1.
	MemoryFraction float64
	// MemoryBytes is the most memory that is taken of each device, in bytes; 0
	// means no bound but MemoryFraction.
	MemoryBytes int64
	// Library is the CUDA driver's library.
	Library string
	// Workers is the number of cores that evaluate a query.
	Workers int
	// ConstantsFile keeps what was measured for the next start; nothing keeps none.
	ConstantsFile string
	// Constants, where given, are taken instead of what would be measured.
	Constants *placement.Constants
	// Retry is how long after a failure a device is tried again at first. The time
	// doubles with every failure, up to maxRetry. 0 means a second.
	Retry time.Duration

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// maxRetry is the longest time after which a device that failed is tried again.
const maxRetry = 5 * time.Minute

// Fleet is the GPUs that a process uses. It is safe for concurrent use.
type Fleet struct {
	o       Options
	log     *slog.Logger
	cpu     *cpuexec.Executor // measures, and opens the leaves of that
	metrics *metrics
	model   atomic.Pointer[placement.Model]

	mu      sync.Mutex
	devices []*device
	none    string // why there are no devices

	ctx   context.Context // until Close
	stop  context.CancelFunc
	tasks sync.WaitGroup
	ready chan struct{} // closed when every device was tried
}

// Open starts using devices. Only with Options.Require does it fail, or wait.
func Open(o Options) (*Fleet, error) {
	if o.Logger == nil {
		o.Logger = promslog.NewNopLogger()
	}
	if o.Retry <= 0 {
		o.Retry = time.Second
	}
	f := &Fleet{
		o: o, log: o.Logger, cpu: cpuexec.New(cpuexec.Options{Workers: o.Workers}), metrics: newMetrics(o.Registerer),
		none: "the GPU is still starting", ready: make(chan struct{}),
	}
	f.ctx, f.stop = context.WithCancel(context.Background())
	if o.Require {
		if err := f.start(); err != nil {
			f.Close()
			return nil, err
		}
		return f, nil
	}
	f.tasks.Go(func() {
		if err := f.start(); err != nil {
			var u *cuda.Unavailable
			if errors.As(err, &u) {
				f.log.Info("no GPU is used: the cores evaluate all queries", "reason", err)
			} else {
				f.log.Warn("no GPU is used: the cores evaluate all queries", "err", err)
			}
		}
	})
	return f, nil
}

// Ready is closed once every device is open or was found not to be usable.
func (f *Fleet) Ready() <-chan struct{} { return f.ready }

// Constants are what was measured, once Ready is closed and where there is a device.
func (f *Fleet) Constants() (c placement.Constants) {
	if m := f.model.Load(); m != nil {
		c = m.Constants()
	}
	return c
}

// Close waits for the leaves under way and gives the devices back.
func (f *Fleet) Close() {
	f.stop()
	f.tasks.Wait()
	selection.PageLockSlabs(nil)
	for _, d := range f.all() {
		d.close()
	}
}

func (f *Fleet) all() []*device {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.devices
}

// start opens the devices. Where it has an error, there are none, or Require is
// set.
func (f *Fleet) start() (err error) {
	defer close(f.ready)
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if err != nil {
			f.none = err.Error()
		}
	}()
	driver, err := cuda.Open(f.o.Library)
	if err != nil {
		return err
	}
	infos, err := driver.Devices()
	if err != nil {
		return err
	}
	devices, err := f.chosen(driver, infos)
	if err != nil {
		return err
	}
	f.mu.Lock()
	f.devices = devices
	f.mu.Unlock()
	for _, d := range devices {
		if err := d.open(); err != nil && f.o.Require {
			return err
		} else if err != nil {
			f.log.Warn("a GPU cannot be used at present; it is tried again later", "gpu", d.info.Ordinal, "err", err)
			f.tasks.Go(d.reopen)
		}
	}
	return nil
}

// chosen are the devices to use.
func (f *Fleet) chosen(driver *cuda.Driver, infos []cuda.Info) (ds []*device, err error) {
	for _, n := range f.o.Devices {
		if n < 0 || n >= len(infos) {
			return nil, fmt.Errorf("there is no GPU %d: the driver finds %d, numbered from 0; see promwarp devices", n, len(infos))
		}
	}
	for _, i := range infos {
		if len(f.o.Devices) > 0 && !slices.Contains(f.o.Devices, i.Ordinal) {
			continue
		}
		if reason := gpuexec.TooOld(i); reason != "" {
			err = fmt.Errorf("GPU %d (%s): %s", i.Ordinal, i.Name, reason)
			if f.o.Require {
				return nil, err
			}
			f.log.Warn("a GPU is not used", "err", err)
			continue
		}
		ds = append(ds, &device{f: f, driver: driver, info: i, reason: "the GPU is still starting", retry: f.o.Retry})
	}
	if len(ds) == 0 {
		return nil, err
	}
	return ds, nil
}
