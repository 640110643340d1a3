package carbonara

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
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
