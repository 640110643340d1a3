package carbonara

import (
	"errors"
	"math"
	"unsafe"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/historic"
)

// float32s is how far the means that are made of float32 values may be off.
const float32s = 1e-6

// historic measures the ways of then.
func (k *kind) historic() {
	r, ratio, out := k.rig, k.to/k.from, as[float32](k.rig.out.host)
	type way struct {
		name string
		f    func() error
	}
	ways := []way{{V1, r.copied(r.v1(ratio))}, {V2, r.copied(r.v2(ratio))}, {V3, r.copied(r.v3(ratio))}, {V4, r.v4(ratio)}, {V3There, r.there(r.v3(ratio))}}
	if k.gaps {
		ways = []way{{Runs, r.copied(r.runs(k.to, len(k.value)*k.size))}}
	}
	for _, w := range ways {
		r.spoil()
		k.take(w.name, float32s, w.f, func() (float64, error) {
			absent(k.points, out)
			return worst(k.points, out)
		})
	}
}

// absent makes NaN of the means of no points, which no way writes. v1 and runs begin
// with zeros, the others with what spoil wrote.
func absent(p *points, out []float32) {
	if !p.gaps {
		return
	}
	for i := range out {
		if want := p.mean[i%len(p.mean)]; want != want && (out[i] == 0 || out[i] < -1e30) {
			out[i] = float32(want)
		}
	}
}

// enqueue puts a kernel over means [from, to) on a stream.
type enqueue func(c *cuda.Context, s cuda.Stream, from, to int) error

// kernel is what a number of threads do.
type kernel struct {
	name    launch.Kernel
	threads int
	params  []any
}

// enqueue makes a kernel over means [from, to), which begin as zeros if it adds.
func (r *rig) enqueue(adds bool, of func(from, to int) kernel) enqueue {
	return func(c *cuda.Context, s cuda.Stream, from, to int) error {
		if adds {
			if err := c.Set(r.outFrom(from), 0, uint64(4*(to-from)), s); err != nil {
				return err
			}
		}
		k := of(from, to)
		return r.kernels.On(c, s).Launch(k.name, launch.Blocks(uint32(k.threads), historic.Block), cuda.Size{X: historic.Block}, k.params...)
	}
}

// valuesFrom and outFrom are where values and means from a number on lie on the device.
func (r *rig) valuesFrom(n int) cuda.Pointer { return r.values.device + cuda.Pointer(4*n) }
func (r *rig) outFrom(n int) cuda.Pointer    { return r.out.device + cuda.Pointer(4*n) }

func (r *rig) v1(ratio int) enqueue {
	return r.enqueue(true, func(from, to int) kernel {
		return kernel{"resample_atomic", to - from, []any{r.valuesFrom(ratio * from), uint32(to - from), uint32(ratio), r.outFrom(from)}}
	})
}

func (r *rig) v2(ratio int) enqueue {
	const run = 8 // means that a thread makes
	return r.enqueue(false, func(from, to int) kernel {
		params := []any{r.valuesFrom(ratio * from), uint32(to - from), uint32(ratio), uint32(run), r.outFrom(from)}
		return kernel{"resample_blocks", (to - from + run - 1) / run, params}
	})
}

func (r *rig) v3(ratio int) enqueue {
	return r.enqueue(false, func(from, to int) kernel {
		return kernel{"resample_shared", to - from, []any{r.valuesFrom(ratio * from), uint32(to - from), uint32(ratio), r.outFrom(from)}}
	})
}

func (r *rig) runs(interval, samples int) enqueue {
	return r.enqueue(true, func(int, int) kernel {
		return kernel{"resample_runs", samples, []any{r.times.device, r.values.device, uint32(samples), uint32(interval), r.out.device}}
	})
}

// copied copies all points, makes all means and copies them back, on one stream.
func (r *rig) copied(k enqueue) func() error {
	return func() error {
		return r.dev.Do(func(c *cuda.Context) error {
			s := r.streams[0]
			for _, a := range []array{r.values, r.times} {
				if a.host == nil {
					continue
				}
				if err := c.CopyIn(a.device, a.host, s); err != nil {
					return err
				}
			}
			return r.back(c, s, k)
		})
	}
}

// there is copied for points that are on the device.
func (r *rig) there(k enqueue) func() error {
	return func() error {
		return r.dev.Do(func(c *cuda.Context) error { return r.back(c, r.streams[0], k) })
	}
}

func (r *rig) back(c *cuda.Context, s cuda.Stream, k enqueue) error {
	if err := k(c, s, 0, len(r.out.host)/4); err != nil {
		return err
	}
	if err := c.CopyOut(r.out.host, r.out.device, s); err != nil {
		return err
	}
	return c.Wait(s)
}

// v4 copies and computes a piece on each stream in turn: at most 64, of 1.8 MB to the
// device or more.
func (r *rig) v4(ratio int) func() error {
	k := r.v3(ratio)
	means := len(r.out.host) / 4
	piece := max(64<<10, (means+63)/64)
	return func() error {
		return r.dev.Do(func(c *cuda.Context) error {
			for n, from := 0, 0; from < means; n, from = n+1, from+piece {
				to, s := min(from+piece, means), r.streams[n%len(r.streams)]
				if err := c.CopyIn(r.valuesFrom(ratio*from), r.values.host[4*ratio*from:4*ratio*to], s); err != nil {
					return err
				}
				if err := k(c, s, from, to); err != nil {
					return err
				}
				if err := c.CopyOut(r.out.host[4*from:4*to], r.outFrom(from), s); err != nil {
					return err
				}
			}
			for _, s := range r.streams {
				if err := c.Wait(s); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

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
