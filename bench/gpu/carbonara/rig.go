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

	times, values, out array // which all streams share
}

// array is page-locked memory of the host, and its like on the device.
type array struct {
	host   []byte
	device cuda.Pointer
}

// alloc takes memory for n numbers of 4 bytes.
func (a *array) alloc(c *cuda.Context, n int) (err error) {
	if a.device, err = c.Alloc(uint64(4 * n)); err == nil {
		a.host, err = c.AllocHost(4 * n)
	}
	return err
}

// free gives the memory back.
func (a *array) free(c *cuda.Context) (err error) {
	if a.device != 0 {
		err = c.Free(a.device)
	}
	if a.host != nil {
		err = errors.Join(err, c.FreeHost(a.host))
	}
	*a = array{}
	return err
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
		if err := errors.Join(r.values.alloc(c, n*size), r.out.alloc(c, means*size)); err != nil || !p.gaps {
			return err
		}
		return r.times.alloc(c, n*size)
	})
	if err != nil {
		return errors.Join(err, r.unload())
	}
	values, times := as[float32](r.values.host), as[uint32](r.times.host)
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
		return errors.Join(r.values.free(c), r.out.free(c), r.times.free(c))
	})
}

// spoil fills the means with a value that no mean has, so that missing ones show.
func (r *rig) spoil() {
	for i, out := 0, as[float32](r.out.host); i < len(out); i++ {
		out[i] = float32(math.Inf(-1))
	}
}

// as is memory as an array.
func as[T float32 | uint32](b []byte) []T {
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
