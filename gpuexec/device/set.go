// Package device holds the GPUs of a machine: what they are, and which ones a process uses.
//
// A Set opens its devices, in the background or before Open returns. A Device computes
// leaves. One that fails keeps leaves away until it is tried again: after
// Options.Retry, then after ever longer, by one leaf at a time. One that is lost is never
// tried again. A failure never ends a query: the caller has the cores evaluate the leaf.
// Which leaves go to which device is not decided here; see planner/placement.
//
// Begin with Open and Device.Evaluate. TakeInventory, which needs no Set, is behind
// promwarp devices.
package device

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/promslog"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/pipeline"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/plan"
	"github.com/promwarp/promwarp/selection"
	"github.com/promwarp/promwarp/selection/slab"
)

// Options configure a Set.
type Options struct {
	// Require makes Open wait for the devices and fail where one cannot be used.
	// Otherwise they start in the background.
	Require bool
	// Devices are the driver's numbers of the devices to use; none means all.
	Devices []int
	// MemoryFraction is the part of a device's free memory that is allocated at most,
	// as it is needed: more than 0 and at most 1.
	MemoryFraction float64
	// MemoryBytes is the most memory that is allocated of each device, in bytes; 0
	// means no bound but MemoryFraction.
	MemoryBytes int64
	// HostBytes is the memory of the process in bytes that all devices together go by in what they page-lock;
	// 0 means no bound.
	HostBytes int64
	// Library is the CUDA driver's library.
	Library string
	// Retry is how long after a failure a device is tried again at first. The time
	// doubles with every failure, up to maxRetry. 0 means a second.
	Retry time.Duration
	// Found, if it is set, is called where there is a driver, and begins what can be done while devices open.
	// What it returns is called with each device that was opened, before leaves go to it. An error means
	// that the device cannot be used.
	Found func(context.Context) func(*pipeline.Machine) error

	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// maxRetry is the longest time after which a device that failed is tried again.
const maxRetry = 5 * time.Minute

// Set is the GPUs that a process uses. It is safe for concurrent use.
type Set struct {
	o       Options
	log     *slog.Logger
	metrics *metrics

	hostBytes int64 // of Options.HostBytes the share of each device

	mu      sync.Mutex
	devices []*Device
	none    string // why there are no devices

	ctx   context.Context // until Close
	stop  context.CancelFunc
	tasks sync.WaitGroup
	ready chan struct{} // closed when every device was tried
}

// Open starts using devices. Only with Options.Require does it fail, or wait.
func Open(o Options) (*Set, error) {
	if o.Logger == nil {
		o.Logger = promslog.NewNopLogger()
	}
	if o.Retry <= 0 {
		o.Retry = time.Second
	}
	s := &Set{
		o: o, log: o.Logger, metrics: newMetrics(o.Registerer), none: "the GPU is still starting", ready: make(chan struct{}),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	if o.Require {
		if err := s.start(); err != nil {
			s.Close()
			return nil, err
		}
		return s, nil
	}
	s.tasks.Go(func() {
		if err := s.start(); err != nil {
			if errors.As(err, new(*cuda.Unavailable)) {
				s.log.Info("no GPU is used: the cores evaluate all queries", "reason", err)
			} else {
				s.log.Warn("no GPU is used: the cores evaluate all queries", "err", err)
			}
		}
	})
	return s, nil
}

// Ready is closed once every device is open or was found not to be usable.
func (s *Set) Ready() <-chan struct{} { return s.ready }

// Close waits for the leaves under way and closes the devices.
func (s *Set) Close() {
	s.stop()
	s.tasks.Wait()
	slab.PageLock(nil)
	all, _ := s.Devices()
	for _, d := range all {
		d.close()
	}
}

// Devices returns the devices that are used, or says in one plain sentence why there are
// none. Not all of them need be usable.
func (s *Set) Devices() (all []*Device, none string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.devices, s.none
}

// Forget frees the devices' memory for a selection's chunks, unless a leaf under way uses
// them.
func (s *Set) Forget(sel *selection.Selection) {
	all, _ := s.Devices()
	for _, d := range all {
		_ = d.opened(func() error {
			d.x.Store.Forget(sel)
			return nil
		})
	}
}

// start opens the devices. Where it has an error, there are none, or Require is
// set.
func (s *Set) start() (err error) {
	defer close(s.ready)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if err != nil {
			s.none = err.Error()
		}
	}()
	driver, err := cuda.Load(s.o.Library)
	if err != nil {
		return err
	}
	opened := s.found()
	if err := driver.Start(); err != nil {
		return err
	}
	infos, err := driver.Devices()
	if err != nil {
		return err
	}
	devices, err := s.chosen(driver, infos)
	if err != nil {
		return err
	}
	s.hostBytes = s.o.HostBytes / int64(max(1, len(devices)))
	s.mu.Lock()
	s.devices = devices
	s.mu.Unlock()
	for _, d := range devices {
		if err := d.start(opened); err != nil && s.o.Require {
			return err
		} else if err != nil {
			s.log.Warn("a GPU cannot be used at present; it is tried again later", "gpu", d.Number(), "err", err)
			s.tasks.Go(d.reopen)
		}
	}
	return nil
}

// chosen are the devices to use.
func (s *Set) chosen(driver *cuda.Driver, infos []cuda.Info) (ds []*Device, err error) {
	for _, n := range s.o.Devices {
		if n < 0 || n >= len(infos) {
			return nil, fmt.Errorf("there is no GPU %d: the driver finds %d, numbered from 0; see promwarp devices", n, len(infos))
		}
	}
	for _, i := range infos {
		if len(s.o.Devices) > 0 && !slices.Contains(s.o.Devices, i.Ordinal) {
			continue
		}
		if reason := tooOld(i); reason != "" {
			err = fmt.Errorf("GPU %d (%s): %s", i.Ordinal, i.Name, reason)
			if s.o.Require {
				return nil, err
			}
			s.log.Warn("a GPU is not used", "err", err)
			continue
		}
		ds = append(ds, &Device{set: s, driver: driver, info: i, unusable: "the GPU is still starting", retry: s.o.Retry})
	}
	if len(ds) == 0 {
		return nil, err
	}
	return ds, nil
}

// metrics say what the GPUs did.
type metrics struct {
	jobs    *prometheus.CounterVec
	faults  *prometheus.CounterVec
	usable  *prometheus.GaugeVec
	samples prometheus.Counter
	bytes   prometheus.Counter
	copied  prometheus.Counter
	seconds *prometheus.CounterVec
}

func newMetrics(reg prometheus.Registerer) *metrics {
	f := instrument.With(reg)
	return &metrics{
		jobs:    f.Counters("promwarp_gpu_jobs_total", "Windows, with what aggregates them, and resample requests that a GPU evaluated.", "gpu"),
		faults:  f.Counters("promwarp_gpu_faults_total", "Failures of a GPU, by CUDA's name of the error.", "gpu", "reason"),
		usable:  f.Gauges("promwarp_gpu_usable", "Whether a GPU is open and did not fail when it was last used.", "gpu"),
		samples: f.Counter("promwarp_gpu_samples_decoded_total", "Samples decoded by GPUs."),
		bytes:   f.Counter("promwarp_gpu_chunk_bytes_total", "Bytes of encoded chunks decoded by GPUs."),
		copied:  f.Counter("promwarp_gpu_bytes_copied_total", "Bytes copied to GPUs: encoded chunks, and where they are."),
		seconds: f.Counters("promwarp_gpu_seconds_total", "Time that windows took on GPUs, by stage: wait, for others to be done; job, from then to the values. Of a job, the stages prepare, copy, decode, window, fold and result run beside each other.", "stage"),
	}
}

// count records what a device computed.
func (m *metrics) count(d *Device, work *plan.Work, s *pipeline.Stages) {
	m.jobs.WithLabelValues(d.label()).Inc()
	m.samples.Add(float64(work.Samples))
	m.bytes.Add(float64(work.Bytes))
	m.copied.Add(float64(s.CopiedBytes))
	for stage, took := range map[string]time.Duration{
		"wait": s.Waited, "job": s.Total - s.Waited, "prepare": s.Prepare,
		"copy": s.Copy, "decode": s.Decode, "window": s.Window, "fold": s.Reduce, "result": s.Result,
	} {
		m.seconds.WithLabelValues(stage).Add(took.Seconds())
	}
}
