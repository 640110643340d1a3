package carbonara

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/kernels/historic"
)

// float32s is how far the means that are made of float32 values may be off.
const float32s = 1e-6

// historic measures the ways of then.
func (o Options) historic(c *Comparison, p *points, size int, r *rig) {
	out := as[float32](r.out)
	ratio := p.to / p.from
	type way struct {
		name string
		f    func() error
	}
	ways := []way{{V1, r.copied(r.v1(ratio))}, {V2, r.copied(r.v2(ratio))}, {V3, r.copied(r.v3(ratio))}, {V4, r.v4(ratio)}, {V3There, r.there(r.v3(ratio))}}
	if p.gaps {
		ways = []way{{Runs, r.copied(r.runs(p.to, len(p.value)*size))}}
	}
	for _, w := range ways {
		r.spoil()
		o.take(c, w.name, float32s, w.f, func() (float64, error) {
			absent(p, out)
			return worst(p, out)
		})
	}
}

// absent makes NaN of the means of no points, which nobody writes. v1 and runs begin
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

func threads(n int) (grid, block cuda.Size) {
	return cuda.Size{X: uint32((n + historic.Block - 1) / historic.Block)}, cuda.Size{X: historic.Block}
}

// valuesFrom and outFrom are where values and means from a number on lie on the device.
func (r *rig) valuesFrom(n int) cuda.Pointer { return r.devValues + cuda.Pointer(4*n) }
func (r *rig) outFrom(n int) cuda.Pointer    { return r.devOut + cuda.Pointer(4*n) }

// on is where launches on a stream go.
func (r *rig) on(c *cuda.Context, s cuda.Stream) launch.Queue {
	return launch.Queue{Set: r.kernels, Context: c, Stream: s}
}

func (r *rig) v1(ratio int) enqueue {
	return func(c *cuda.Context, s cuda.Stream, from, to int) error {
		if err := c.Set(r.devOut+cuda.Pointer(4*from), 0, uint64(4*(to-from)), s); err != nil {
			return err
		}
		grid, block := threads(to - from)
		k := launch.ResampleAtomic{Values: r.valuesFrom(ratio * from), Means: uint32(to - from), Ratio: uint32(ratio), Out: r.outFrom(from)}
		return k.Launch(r.on(c, s), grid, block)
	}
}

// run is the number of means that a thread of v2 makes.
const run = 8

func (r *rig) v2(ratio int) enqueue {
	return func(c *cuda.Context, s cuda.Stream, from, to int) error {
		grid, block := threads((to - from + run - 1) / run)
		k := launch.ResampleBlocks{Values: r.valuesFrom(ratio * from), Means: uint32(to - from), Ratio: uint32(ratio), Run: run, Out: r.outFrom(from)}
		return k.Launch(r.on(c, s), grid, block)
	}
}

func (r *rig) v3(ratio int) enqueue {
	return func(c *cuda.Context, s cuda.Stream, from, to int) error {
		grid, block := threads(to - from)
		k := launch.ResampleShared{Values: r.valuesFrom(ratio * from), Means: uint32(to - from), Ratio: uint32(ratio), Out: r.outFrom(from)}
		return k.Launch(r.on(c, s), grid, block)
	}
}

func (r *rig) runs(interval, samples int) enqueue {
	return func(c *cuda.Context, s cuda.Stream, from, to int) error {
		if err := c.Set(r.devOut, 0, uint64(len(r.out)), s); err != nil {
			return err
		}
		grid, block := threads(samples)
		k := launch.ResampleRuns{Times: r.devTimes, Values: r.devValues, Samples: uint32(samples), Interval: uint32(interval), Out: r.devOut}
		return k.Launch(r.on(c, s), grid, block)
	}
}

// copied copies all points, makes all means and copies them back, on one stream.
func (r *rig) copied(k enqueue) func() error {
	return func() error {
		return r.dev.Do(func(c *cuda.Context) error {
			s := r.streams[0]
			if err := c.CopyIn(r.devValues, r.values, s); err != nil {
				return err
			}
			if r.devTimes != 0 {
				if err := c.CopyIn(r.devTimes, r.times, s); err != nil {
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
	if err := k(c, s, 0, len(r.out)/4); err != nil {
		return err
	}
	if err := c.CopyOut(r.out, r.devOut, s); err != nil {
		return err
	}
	return c.Wait(s)
}

// v4 copies and computes a piece on each stream in turn: at most 64, of 1.8 MB to the
// device or more.
func (r *rig) v4(ratio int) func() error {
	k := r.v3(ratio)
	means := len(r.out) / 4
	piece := max(64<<10, (means+63)/64)
	return func() error {
		return r.dev.Do(func(c *cuda.Context) error {
			for n, from := 0, 0; from < means; n, from = n+1, from+piece {
				to, s := min(from+piece, means), r.streams[n%len(r.streams)]
				if err := c.CopyIn(r.devValues+cuda.Pointer(4*ratio*from), r.values[4*ratio*from:4*ratio*to], s); err != nil {
					return err
				}
				if err := k(c, s, from, to); err != nil {
					return err
				}
				if err := c.CopyOut(r.out[4*from:4*to], r.devOut+cuda.Pointer(4*from), s); err != nil {
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
