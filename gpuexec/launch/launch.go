// Package launch loads the kernels on a device and launches them.
//
// In goes a device, then for each launch a struct of the kernel's name with its parameters;
// out comes work on a stream. A kernel's parameters are declared in its source alone:
// kernels/build generates kernels.go here from them, so that a launch with other parameters
// than the kernel's does not compile. Start reading at Load, then at any type of kernels.go.
package launch

import (
	"errors"
	"fmt"
	"slices"

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

// Set holds kernels loaded on one device.
type Set struct {
	modules   []cuda.Module
	functions [numKernels]cuda.Function
}

// Load compiles and loads kernels, beside each other. The driver keeps what it compiled, so
// only the first start on a machine takes more than some ms.
func Load(dev *cuda.Device, which ...Kernel) (*Set, error) {
	return load(dev, which, func(i int) []byte { return ptx.Of(which[i].String()) })
}

// load loads kernels, of which number i has the PTX of(i).
func load(dev *cuda.Device, which []Kernel, of func(i int) []byte) (*Set, error) {
	s := &Set{}
	modules, errs := make([]cuda.Module, len(which)), make([]error, len(which))
	parallel.For(len(which), func(i int) {
		k := which[i]
		errs[i] = dev.Do(func(c *cuda.Context) (err error) {
			if modules[i], err = c.Load(of(i)); err != nil {
				return fmt.Errorf("kernel %s: %w", k, err)
			}
			s.functions[k], err = c.Function(modules[i], k.String())
			return err
		})
	})
	s.modules = slices.DeleteFunc(modules, func(m cuda.Module) bool { return m == 0 })
	if err := errors.Join(errs...); err != nil {
		return nil, errors.Join(err, dev.Do(s.Unload))
	}
	return s, nil
}

// Unload gives the kernels back.
func (s *Set) Unload(c *cuda.Context) error {
	var errs []error
	for _, m := range s.modules {
		errs = append(errs, c.Unload(m))
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
	f := q.Set.functions[k]
	if f == 0 {
		return fmt.Errorf("kernel %s is not loaded", k)
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
