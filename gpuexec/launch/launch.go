// Package launch loads the kernels on a device and launches them.
//
// In goes a device, then for each launch a struct of the kernel's name with its parameters;
// out comes work on a stream. A kernel's parameters are declared in its source alone:
// kernels/build generates kernels.go here from them, so that a launch with other parameters
// than the kernel's does not compile. Start reading at Set, then at any type of kernels.go.
package launch

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/ptx"
)

// Kernel is one of the kernels.
type Kernel int

// String is the kernel's name.
func (k Kernel) String() string { return names[k] }

// Queries returns the kernels that queries need.
func Queries() []Kernel { return slices.Concat(Decode, Window, Values, Group, Resample) }

// Fused are the kernels that decode and compute windows in one. First are those of Queries that a
// device begins with: neither Fused nor Resample, which are most of what the driver has to compile
// at the first start on a machine.
var (
	Fused = slices.DeleteFunc(slices.Clone(Window), func(k Kernel) bool { return !strings.HasPrefix(k.String(), "fused_") })
	First = slices.DeleteFunc(slices.Concat(Decode, Window, Values, Group), func(k Kernel) bool { return slices.Contains(Fused, k) })
)

// Set holds kernels of one device. Each is compiled and loaded once: by Load, or when it is
// launched first. It is safe for concurrent use.
type Set struct {
	dev *cuda.Device
	of  func(Kernel) []byte // PTX
	all [numKernels]struct {
		loading  sync.Mutex
		in       bool // the set
		module   cuda.Module
		function atomic.Uintptr // a cuda.Function, 0 until it is loaded
	}
}

// New returns a set of kernels none of which is loaded.
func New(dev *cuda.Device, which ...Kernel) *Set {
	return newSet(dev, which, func(k Kernel) []byte { return ptx.Of(k.String()) })
}

func newSet(dev *cuda.Device, which []Kernel, of func(Kernel) []byte) *Set {
	s := &Set{dev: dev, of: of}
	for _, k := range which {
		s.all[k].in = true
	}
	return s
}

// Load returns a set of kernels, all of them loaded.
func Load(dev *cuda.Device, which ...Kernel) (*Set, error) {
	return New(dev, which...).loaded(which)
}

func (s *Set) loaded(which []Kernel) (*Set, error) {
	if err := s.Load(context.Background(), runtime.GOMAXPROCS(0), which...); err != nil {
		return nil, errors.Join(err, s.dev.Do(s.Unload))
	}
	return s, nil
}

// Load compiles and loads kernels of the set, so many beside each other, until ctx ends. The driver
// keeps what it compiled, so only the first start on a machine takes more than some ms.
func (s *Set) Load(ctx context.Context, workers int, which ...Kernel) error {
	which, errs := slices.Clone(which), make([]error, len(which))
	var size [numKernels]int
	for _, k := range which {
		size[k] = len(ptx.Of(k.String()))
	}
	slices.SortFunc(which, func(a, b Kernel) int { return size[b] - size[a] }) // what takes longest first
	parallel.While(workers, len(which), func(_, i int) bool {
		errs[i] = s.dev.Do(func(c *cuda.Context) error {
			_, err := s.function(c, which[i])
			return err
		})
		return ctx.Err() == nil
	})
	return errors.Join(append(errs, ctx.Err())...)
}

// Loaded reports whether all of the kernels are loaded.
func (s *Set) Loaded(which ...Kernel) bool {
	return !slices.ContainsFunc(which, func(k Kernel) bool { return s.all[k].function.Load() == 0 })
}

// function returns a kernel, loaded.
func (s *Set) function(c *cuda.Context, k Kernel) (cuda.Function, error) {
	of := &s.all[k]
	if f := of.function.Load(); f != 0 {
		return cuda.Function(f), nil
	}
	of.loading.Lock()
	defer of.loading.Unlock()
	if f := of.function.Load(); f != 0 {
		return cuda.Function(f), nil
	}
	if !of.in {
		return 0, fmt.Errorf("kernel %s is not loaded", k)
	}
	m, err := c.Load(s.of(k))
	if err != nil {
		return 0, fmt.Errorf("kernel %s: %w", k, err)
	}
	of.module = m
	f, err := c.Function(m, k.String())
	of.function.Store(uintptr(f))
	return f, err
}

// Unload gives the kernels back, for good.
func (s *Set) Unload(c *cuda.Context) error {
	var errs []error
	for k := range s.all {
		if m := s.all[k].module; m != 0 {
			errs = append(errs, c.Unload(m))
		}
	}
	return errors.Join(errs...)
}

// Queue is where launches go: a stream of the device that the kernels are loaded on.
type Queue struct {
	Set     *Set
	Context *cuda.Context
	Stream  cuda.Stream
}

// launch puts a kernel with its parameters on the queue.
func (q Queue) launch(k Kernel, grid, block cuda.Size, params ...uint64) error {
	f, err := q.Set.function(q.Context, k)
	if err != nil {
		return err
	}
	return q.Context.Launch(f, grid, block, q.Stream, params...)
}

// bit is a parameter that is true or false.
func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
