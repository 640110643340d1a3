package device

import (
	"context"
	"errors"
	"time"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/gpuexec"
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/gpuexec/resampling"
	"github.com/promwarp/promwarp/internal/rescue"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/resample"
	"github.com/promwarp/promwarp/selection"
)

// errTrying is the error of a leaf that came while another one tries a device that failed.
var errTrying = errors.New("it is just being tried again")

// Evaluate computes a leaf, as gpuexec.Executor.Evaluate does. An error that is neither the
// leaf's nor the query's is the device's, which is kept from leaves until it is time to try
// it again.
func (d *Device) Evaluate(ctx context.Context, l *cpuexec.Leaf, consume func(cpuexec.Rows) error) (o gpuexec.Outcome, err error) {
	err = d.attempt(l.Done, &o.Work, &o.Stages, func() (err error) {
		o, err = d.x.Evaluate(ctx, l, consume)
		return err
	})
	return o, err
}

// Resample computes a resample request, as resampling.Evaluate does. Errors of the device are as of
// Evaluate.
func (d *Device) Resample(ctx context.Context, t *resample.Task, consume func(*resample.Cells) error) (o resampling.Outcome, err error) {
	err = d.attempt(t.Ended, &o.Work, &o.Stages, func() (err error) {
		o, err = resampling.Evaluate(ctx, d.x.Machine, t, consume)
		return err
	})
	return o, err
}

// Compiles is about how long compiling the kernels takes that a resample request needs and the
// device lacks; 0 if it lacks none, or is closed.
func (d *Device) Compiles(t *resample.Task) time.Duration {
	d.use.RLock()
	defer d.use.RUnlock()
	if d.x == nil {
		return 0
	}
	return resampling.Compiles(d.x.Machine, t)
}

// Compile has the device load such kernels in the background, unless it is loading some.
func (d *Device) Compile(t *resample.Task) {
	if !d.compiling.CompareAndSwap(false, true) {
		return
	}
	go func() {
		defer d.compiling.Store(false)
		err := rescue.Do(func() error {
			return d.opened(func() error { return resampling.Load(d.x.Machine, t) })
		})
		if err != nil {
			d.set.log.Warn("compiling a custom aggregate for a GPU failed", "gpu", d.info.Ordinal, "err", err)
		}
	}()
}

// attempt has f compute something while the device is open, and notes how that ended: why what
// asks for it has ended, and what f did.
func (d *Device) attempt(ended func() error, work *plan.Work, took *pipeline.Stages, f func() error) error {
	if !d.begin() {
		return errTrying
	}
	err := d.opened(f)
	d.end(err, err != nil && isFault(ended, err))
	if err == nil {
		d.noteTook(took.Total - took.Waited)
		d.set.metrics.count(d, work, took)
	}
	return err
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

// isFault reports whether an error is the device's.
func isFault(ended func() error, err error) bool {
	var query *cpuexec.QueryError
	var request *resampling.RequestError
	var unsuited *pipeline.Unsuited
	var corrupt *selection.CorruptError
	return ended() == nil && !errors.As(err, &query) && !errors.As(err, &request) && !errors.As(err, &unsuited) && !errors.As(err, &corrupt)
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
