package carbonara

import (
	"errors"
	"math"
	"unsafe"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/internal/parallel"
)

// rig is the kernels of then on a device, and the arrays they work on.
type rig struct {
	dev     *cuda.Device
	kernels *launch.Set
	streams [4]cuda.Stream

	// Page-locked memory of the host, and its like on the device, which all streams
	// share.
	times, values, out          []byte
	devTimes, devValues, devOut cuda.Pointer
}

func newRig(dev *cuda.Device) (*rig, error) {
	r := &rig{dev: dev}
	var err error
	if r.kernels, err = launch.Load(dev, launch.Historic...); err != nil {
		return nil, err
	}
	err = dev.Do(func(c *cuda.Context) (err error) {
		for i := range r.streams {
			if r.streams[i], err = c.NewStream(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// close gives all back.
func (r *rig) close() error {
	return r.dev.Do(func(c *cuda.Context) error {
		var errs []error
		for _, s := range r.streams {
			if s != 0 {
				errs = append(errs, c.DestroyStream(s))
			}
		}
		return errors.Join(append(errs, r.kernels.Unload(c))...)
	})
}

// load takes memory for the points and writes them into the host's: regular ones
// without times, others as one long series after the other.
func (r *rig) load(p *points, size int) error {
	n, means := len(p.value), len(p.mean)
	err := r.dev.Do(func(c *cuda.Context) error {
		arrays := []struct {
			host   *[]byte
			device *cuda.Pointer
			n      int
		}{{&r.values, &r.devValues, n}, {&r.out, &r.devOut, means}, {&r.times, &r.devTimes, n}}
		if !p.gaps {
			arrays = arrays[:2]
		}
		for _, a := range arrays {
			bytes := 4 * a.n * size
			var err error
			if *a.device, err = c.Alloc(uint64(bytes)); err != nil {
				return err
			}
			if *a.host, err = c.AllocHost(bytes); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return errors.Join(err, r.unload())
	}
	values, times := as[float32](r.values), as[uint32](r.times)
	series, span := len(p.first)-1, uint32(p.steps*p.to)
	parallel.For(series*size, func(i int) {
		k := i % series
		at := i/series*n + p.first[k]
		for j := p.first[k]; j < p.first[k+1]; j++ {
			values[at] = float32(p.value[j])
			if p.gaps {
				times[at] = uint32(i)*span + p.time[j]
			}
			at++
		}
	})
	return nil
}

// unload gives the arrays back.
func (r *rig) unload() error {
	return r.dev.Do(func(c *cuda.Context) error {
		var errs []error
		for _, p := range []*cuda.Pointer{&r.devTimes, &r.devValues, &r.devOut} {
			if *p != 0 {
				errs = append(errs, c.Free(*p))
				*p = 0
			}
		}
		for _, b := range []*[]byte{&r.times, &r.values, &r.out} {
			if *b != nil {
				errs = append(errs, c.FreeHost(*b))
				*b = nil
			}
		}
		return errors.Join(errs...)
	})
}

// spoil fills the means with what no mean is, so that those that are not written show.
func (r *rig) spoil() {
	for i, out := 0, as[float32](r.out); i < len(out); i++ {
		out[i] = float32(math.Inf(-1))
	}
}

// as is memory as an array.
func as[T float32 | uint32](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
