// Package gpuexec evaluates aggregations over windows on an NVIDIA GPU.
//
// In goes a leaf of a query, as cpuexec offers it to an accelerator; out comes an Outcome with
// the same bits as the cores', but for what docs/gpu.md lists. A job goes through the device in
// batches of series, which are brought, decoded, windowed and reduced on several streams, so
// that one batch is copied while another is computed. Start reading at job.
package gpuexec

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/kernels/abi"
)

// Kernels holds the kernels loaded on one device. Its methods shape the grids of launches.
type Kernels struct{ set *launch.Set }

// LoadKernels loads the kernels that queries need, and more.
func LoadKernels(dev *cuda.Device, more ...launch.Kernel) (*Kernels, error) {
	set, err := launch.Load(dev, append(launch.Queries(), more...)...)
	if err != nil {
		return nil, err
	}
	return &Kernels{set}, nil
}

// Unload gives the kernels back.
func (k *Kernels) Unload(c *cuda.Context) error { return k.set.Unload(c) }

// on is where launches on a stream go.
func (k *Kernels) on(c *cuda.Context, s cuda.Stream) launch.Queue {
	return launch.Queue{Set: k.set, Context: c, Stream: s}
}

// Columns are decoded chunks in device memory, laid out by abi.Tiles.
type Columns struct {
	Rows   cuda.Pointer // uint64 a tile
	Times  cuda.Pointer // int64 a place, ms
	Values cuda.Pointer // float64 a place
}

// maxGridY is the most blocks that a grid has in its second dimension. A test
// lowers it.
var maxGridY uint32 = 65535

// Check puts adding count numbers (uint32) on a stream, if launch.CheckKernel was loaded. sums
// gets a uint32 for each abi.CheckBlock of them.
func (k *Kernels) Check(c *cuda.Context, s cuda.Stream, numbers cuda.Pointer, count uint32, sums cuda.Pointer) error {
	p := launch.Check{Numbers: numbers, Count: count, Sums: sums}
	return p.Launch(k.on(c, s), blocks(count, abi.CheckBlock), cuda.Size{X: abi.CheckBlock})
}

// blocks is the grid of one thread an item.
func blocks(items, threads uint32) cuda.Size {
	return cuda.Size{X: (items + threads - 1) / threads}
}
