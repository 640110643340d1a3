package device

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/pinned"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/plan/offload"
	"github.com/promwarp/promwarp/selection"
)

// Device is one GPU of a Set. It is safe for concurrent use.
type Device struct {
	set    *Set
	driver *cuda.Driver
	info   cuda.Info

	use sync.RWMutex      // held by leaves under way, and by opening and closing
	x   *pipeline.Machine // nil unless open

	leaves  atomic.Int64 // under way or waiting
	typical atomic.Int64 // ns that a leaf takes

	compiling atomic.Bool // kernels of custom aggregates, in the background

	mu       sync.Mutex
	unusable string        // why leaves must not go to it; empty if they may
	lost     bool          // it is of no more use to this process
	until    time.Time     // when one that failed may be tried again
	retry    time.Duration // how long after the next failure
	trying   bool          // a leaf is trying whether it works again
}

// Number is the driver's number of the device.
func (d *Device) Number() int { return d.info.Ordinal }

// Name is the driver's name of the device.
func (d *Device) Name() string { return d.info.Name }

// ResidentShare is the share, from 0 to 1, of a selection's chunks that are on the device.
func (d *Device) ResidentShare(sel *selection.Selection) (share float64) {
	_ = d.opened(func() error {
		share, _ = d.x.Store.Share(sel)
		return nil
	})
	return share
}

// Keeps is resident.Store.Keeps.
func (d *Device) Keeps(sel *selection.Selection, needed int64) (ok bool) {
	_ = d.opened(func() error {
		ok = d.x.Store.Keeps(sel, needed)
		return nil
	})
	return ok
}

// Leaves is the number of leaves that the device computes, or that wait for it.
func (d *Device) Leaves() int64 { return d.leaves.Load() }

// Wait is by how much longer a leaf is expected to take because of those before it: the device computes
// several at once, which share it and so take about twice as long.
func (d *Device) Wait() (wait time.Duration) {
	_ = d.opened(func() error {
		wait = time.Duration(d.leaves.Load() * d.typical.Load() * 2 / int64(d.x.AtOnce()))
		return nil
	})
	return wait
}

func (d *Device) label() string { return strconv.Itoa(d.info.Ordinal) }

// found calls Options.Found.
func (s *Set) found() (opened func(*pipeline.Machine) error) {
	if s.o.Found == nil {
		return func(*pipeline.Machine) error { return nil }
	}
	return s.o.Found(s.ctx)
}

// open opens the device, and calls opened with it.
func (d *Device) open(opened func(*pipeline.Machine) error) (err error) {
	d.use.Lock()
	defer d.use.Unlock()
	defer func() { d.noteOpened(err) }()
	s := d.set
	if s.ctx.Err() != nil {
		return s.ctx.Err()
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
	memory = uint64(float64(memory) * s.o.MemoryFraction)
	if most := uint64(s.o.MemoryBytes); most > 0 {
		memory = min(memory, most)
	}
	x, err := pipeline.New(dev, pipeline.Options{Memory: memory, Host: s.hostBytes})
	if err != nil {
		return errors.Join(err, dev.Close())
	}
	if err := opened(x); err != nil {
		return errors.Join(fmt.Errorf("measuring GPU %d: %w", d.info.Ordinal, err), x.Close(), dev.Close())
	}
	d.x = x
	pinned.PageLockSlabs(dev)
	s.log.Info("a GPU is ready", "gpu", d.info.Ordinal, "name", d.info.Name, "memory_bytes", memory, "took", time.Since(start).Round(time.Millisecond))
	return nil
}

// start opens the device. The kernels that are not needed to begin with come later, in the
// background unless the Set waits for its devices.
func (d *Device) start(opened func(*pipeline.Machine) error) error {
	if err := d.open(opened); err != nil {
		return err
	}
	if d.set.o.Require {
		d.loadRest()
	} else {
		d.set.tasks.Go(d.loadRest)
	}
	return nil
}

// mostCompilers are the most contexts in which kernels are compiled at once: each takes memory.
const mostCompilers = 4

func (d *Device) loadRest() {
	s, start := d.set, time.Now()
	err := d.opened(func() error {
		// The other cores are left to queries.
		return d.x.Kernels.LoadAside(s.ctx, min(mostCompilers, max(1, runtime.GOMAXPROCS(0)/2)), launch.Queries()...)
	})
	if err != nil && s.ctx.Err() == nil {
		s.log.Warn("loading the other kernels of a GPU failed", "gpu", d.info.Ordinal, "err", err)
	} else if err == nil {
		s.log.Info("a GPU has all kernels", "gpu", d.info.Ordinal, "took", time.Since(start).Round(time.Millisecond))
	}
}

func freeMemory(dev *cuda.Device) (free uint64, err error) {
	err = dev.Do(func(c *cuda.Context) (err error) {
		free, _, err = c.MemoryInfo()
		return err
	})
	return free, err
}

// noteOpened notes how opening ended.
func (d *Device) noteOpened(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.unusable, d.retry = "", d.set.o.Retry
		d.set.metrics.usable.WithLabelValues(d.label()).Set(1)
		return
	}
	d.set.metrics.usable.WithLabelValues(d.label()).Set(0)
	d.set.metrics.faults.WithLabelValues(d.label(), nameOf(err)).Inc()
	d.unusable = "the GPU cannot be used: " + err.Error()
	d.lost = cuda.Lost(err)
}

// reopen tries to open a device again and again, until it can be, is lost, or the
// Set is closed.
func (d *Device) reopen() {
	for delay := d.set.o.Retry; ; delay = min(2*delay, maxRetry) {
		select {
		case <-d.set.ctx.Done():
			return
		case <-time.After(delay):
		}
		if err := d.start(d.set.found()); err == nil || cuda.Lost(err) {
			return
		}
	}
}

// close closes the device once the leaves under way are done.
func (d *Device) close() {
	d.use.Lock()
	defer d.use.Unlock()
	if d.x == nil {
		return
	}
	err := errors.Join(d.x.Close(), d.x.Dev.Close())
	d.x = nil
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil && !d.lost {
		d.set.log.Warn("closing a GPU failed", "gpu", d.info.Ordinal, "err", err)
	}
	d.unusable = "the GPU is closed"
}

// errTrying is the error of a leaf that came while another one tries a device that failed.
var errTrying = errors.New("it is just being tried again")

// Evaluate computes a leaf, as gpuexec.Evaluate does. An error that is neither the leaf's nor the
// request's is the device's, which is kept from leaves until it is time to try it again.
func (d *Device) Evaluate(ctx context.Context, l offload.Leaf, consume func(*offload.Rows) error) (o pipeline.Outcome, err error) {
	if !d.begin() {
		return o, errTrying
	}
	err = d.opened(func() (err error) {
		o, err = gpuexec.Evaluate(ctx, d.x, l, consume)
		return err
	})
	d.end(err, err != nil && IsFault(err))
	if err == nil {
		d.noteTook(o.Stages.Total - o.Stages.Waited)
		d.set.metrics.count(d, &o.Work, &o.Stages)
	}
	return o, err
}

// Ready reports whether the device has the kernels that a leaf needs, or compiles them in less than
// some time. Where it does not, it compiles them in the background, unless it is compiling some. One
// that is closed says so itself.
func (d *Device) Ready(l offload.Leaf, within time.Duration) bool {
	var wait time.Duration
	var compile func() error
	err := d.opened(func() error {
		wait, compile = gpuexec.Compiles(d.x, l)
		return nil
	})
	if err != nil || wait == 0 || wait < within {
		return true
	}
	if compile == nil || !d.compiling.CompareAndSwap(false, true) {
		return false
	}
	go func() {
		defer d.compiling.Store(false)
		if err := parallel.Rescue(func() error { return d.opened(compile) }); err != nil {
			d.set.log.Warn("compiling a custom aggregate for a GPU failed", "gpu", d.info.Ordinal, "err", err)
		}
	}()
	return false
}

// opened calls f while the device is open.
func (d *Device) opened(f func() error) error {
	d.use.RLock()
	defer d.use.RUnlock()
	if d.x == nil {
		return errors.New("it is closed")
	}
	return f()
}

// IsFault reports whether an error of Evaluate is the device's.
func IsFault(err error) bool {
	return !errors.As(err, new(*pipeline.RequestError)) && !errors.As(err, new(*pipeline.Unsuited)) && !errors.As(err, new(*selection.CorruptError))
}

// noteTook notes how long a leaf took. The first is the measure until there are more.
func (d *Device) noteTook(took time.Duration) {
	was := d.typical.Load()
	if was == 0 {
		was = int64(took)
	}
	d.typical.Store(was + (int64(took)-was)/8)
}

// Unusable says in one plain sentence why leaves must not go to the device, or nothing.
// After a failure, it lets one leaf through when it is time to.
func (d *Device) Unusable(now time.Time) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unusable != "" && !d.until.IsZero() && !d.lost && !d.trying && !now.Before(d.until) {
		return ""
	}
	return d.unusable
}

// begin notes that a leaf goes to the device. It reports false where another leaf
// was let through in the meantime.
func (d *Device) begin() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.unusable != "" {
		if d.trying {
			return false
		}
		d.trying = true
	}
	d.leaves.Add(1)
	return true
}

// end notes how a leaf ended, and whether its error is the device's.
func (d *Device) end(err error, fault bool) {
	d.leaves.Add(-1)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.trying = false
	switch {
	case fault:
		d.failed(err)
	case err == nil && d.unusable != "" && !d.lost:
		d.unusable, d.until, d.retry = "", time.Time{}, d.set.o.Retry
		d.set.metrics.usable.WithLabelValues(d.label()).Set(1)
		d.set.log.Info("a GPU works again", "gpu", d.info.Ordinal)
	}
}

// failed keeps leaves away from a device that failed, whose mutex is held. Only
// the first failure is logged.
func (d *Device) failed(err error) {
	d.set.metrics.faults.WithLabelValues(d.label(), nameOf(err)).Inc()
	d.set.metrics.usable.WithLabelValues(d.label()).Set(0)
	first := d.unusable == ""
	d.unusable = "the GPU failed: " + err.Error()
	switch {
	case cuda.Lost(err) && !d.lost:
		d.lost = true
		d.unusable = "the GPU is of no use until promwarp is restarted: " + err.Error()
		d.set.log.Error("a GPU is lost to this process: the cores evaluate its queries until promwarp is restarted", "gpu", d.info.Ordinal, "err", err)
	case d.lost:
	default:
		if first {
			d.set.log.Warn("a GPU failed: the cores evaluate its queries, and it is tried again later", "gpu", d.info.Ordinal, "err", err, "after", d.retry)
		}
		d.until = time.Now().Add(d.retry)
		d.retry = min(2*d.retry, maxRetry)
	}
}

// nameOf is what a failure is counted under: CUDA's name of the error.
func nameOf(err error) string {
	if e, ok := errors.AsType[*cuda.Error](err); ok {
		return e.Name
	}
	if u, ok := errors.AsType[*cuda.Unavailable](err); ok {
		return string(u.Reason)
	}
	return "other"
}
