package fleet

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
)

// device is one GPU.
type device struct {
	f      *Fleet
	driver *cuda.Driver
	info   cuda.Info

	use sync.RWMutex // held by leaves under way, and whoever opens or closes
	dev *cuda.Device
	x   *gpuexec.Executor // nil unless open

	leaves  atomic.Int64 // under way or waiting
	typical atomic.Int64 // ns that a leaf takes

	mu     sync.Mutex
	reason string        // why it is not to be used; empty if it is
	lost   bool          // it is of no more use to this process
	until  time.Time     // when one that failed may be tried again
	retry  time.Duration // how long after the next failure
	trying bool          // a leaf is trying whether it works again
}

func (d *device) label() string { return strconv.Itoa(d.info.Ordinal) }

// open opens the device and, if nobody has yet, measures.
func (d *device) open() (err error) {
	d.use.Lock()
	defer d.use.Unlock()
	defer func() { d.opened(err) }()
	if d.f.ctx.Err() != nil {
		return d.f.ctx.Err()
	}
	start := time.Now()
	dev, err := d.driver.Device(d.info.Ordinal)
	if err != nil {
		return err
	}
	memory, err := freeMemory(dev)
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	memory = uint64(float64(memory) * d.f.o.MemoryFraction)
	if most := uint64(d.f.o.MemoryBytes); most > 0 {
		memory = min(memory, most)
	}
	x, err := gpuexec.New(dev, d.f.cpu, gpuexec.Options{Memory: memory})
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	if err := d.f.calibrate(x, d); err != nil {
		return errors.Join(fmt.Errorf("measuring GPU %d: %w", d.info.Ordinal, err), x.Close(), dev.Close())
	}
	d.dev, d.x = dev, x
	gpuexec.PageLockSlabs(dev)
	d.f.log.Info("a GPU is ready", "gpu", d.info.Ordinal, "name", d.info.Name, "memory_bytes", memory, "took", time.Since(start).Round(time.Millisecond))
	return nil
}

func freeMemory(dev *cuda.Device) (free uint64, err error) {
	err = dev.Do(func(c *cuda.Context) (err error) {
		free, _, err = c.MemoryInfo()
		return err
	})
	return free, err
}

// opened notes how opening ended.
func (d *device) opened(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.reason, d.retry = "", d.f.o.Retry
		d.f.metrics.usable.WithLabelValues(d.label()).Set(1)
		return
	}
	d.f.metrics.usable.WithLabelValues(d.label()).Set(0)
	d.f.metrics.faults.WithLabelValues(d.label(), nameOf(err)).Inc()
	d.reason = "the GPU cannot be used: " + err.Error()
	d.lost = cuda.Lost(err)
}

// reopen tries to open a device again and again, until it can be, is lost, or the
// fleet is closed.
func (d *device) reopen() {
	for delay := d.f.o.Retry; ; delay = min(2*delay, maxRetry) {
		select {
		case <-d.f.ctx.Done():
			return
		case <-time.After(delay):
		}
		if err := d.open(); err == nil || d.isLost() {
			return
		}
	}
}

func (d *device) isLost() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

// close gives the device back once the leaves under way are done.
func (d *device) close() {
	d.use.Lock()
	defer d.use.Unlock()
	if d.x == nil {
		return
	}
	if err := errors.Join(d.x.Close(), d.dev.Close()); err != nil && !d.isLost() {
		d.f.log.Warn("closing a GPU failed", "gpu", d.info.Ordinal, "err", err)
	}
	d.x, d.dev = nil, nil
	d.mu.Lock()
	defer d.mu.Unlock()
	d.reason = "the GPU is closed"
}

// usable says why the device is not to be used, or nothing. After a failure, it
// lets one leaf through when it is time to.
func (d *device) usable(now time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reason != "" && !d.until.IsZero() && !d.lost && !d.trying && !now.Before(d.until) {
		return ""
	}
	return d.reason
}

// begin notes that a leaf goes to the device. It reports false where another leaf
// was let through in the meantime.
func (d *device) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.reason != "" {
		if d.trying {
			return false
		}
		d.trying = true
	}
	d.leaves.Add(1)
	return true
}

// end notes how a leaf ended: with an error of the device, or without.
func (d *device) end(fault error) {
	d.leaves.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trying = false
	switch {
	case fault != nil:
		d.failed(fault)
	case d.reason != "" && !d.lost:
		d.reason, d.until, d.retry = "", time.Time{}, d.f.o.Retry
		d.f.metrics.usable.WithLabelValues(d.label()).Set(1)
		d.f.log.Info("a GPU works again", "gpu", d.info.Ordinal)
	}
}

// leave notes that a leaf ended in a way that says nothing about the device.
func (d *device) leave() {
	d.leaves.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trying = false
}

// failed keeps leaves away from a device that failed, whose mutex is held. Only
// the first failure is logged.
func (d *device) failed(err error) {
	d.f.metrics.faults.WithLabelValues(d.label(), nameOf(err)).Inc()
	d.f.metrics.usable.WithLabelValues(d.label()).Set(0)
	first := d.reason == ""
	d.reason = "the GPU failed: " + err.Error()
	switch {
	case cuda.Lost(err) && !d.lost:
		d.lost = true
		d.reason = "the GPU is of no use until promwarp is restarted: " + err.Error()
		d.f.log.Error("a GPU is lost to this process: the cores evaluate its queries until promwarp is restarted", "gpu", d.info.Ordinal, "err", err)
	case d.lost:
	default:
		if first {
			d.f.log.Warn("a GPU failed: the cores evaluate its queries, and it is tried again later", "gpu", d.info.Ordinal, "err", err, "after", d.retry)
		}
		d.until = time.Now().Add(d.retry)
		d.retry = min(2*d.retry, maxRetry)
	}
}

// nameOf is what a failure is counted under: CUDA's name of the error.
func nameOf(err error) string {
	var e *cuda.Error
	if errors.As(err, &e) {
		return e.Name
	}
	var u *cuda.Unavailable
	if errors.As(err, &u) {
		return string(u.Reason)
	}
	return "other"
}
