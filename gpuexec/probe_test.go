package gpuexec

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/kernels/abi"
)

// Chunks are encoded chunks in device memory.
type Chunks struct {
	Slab  cuda.Pointer // their bytes
	Refs  cuda.Pointer // a abi.ChunkRef each
	Count uint32
}

// decodeXOR puts decoding of chunks to columns on the stream. status gets an abi.Status a chunk.
func (b *bench) decodeXOR(in Chunks, out launch.Columns, status cuda.Pointer) error {
	p := launch.DecodeXOR{
		Slab: in.Slab, Chunks: in.Refs, Count: in.Count, Rows: out.Rows, Times: out.Times, Values: out.Values, Status: status,
	}
	return p.Launch(b.k.On(b.c, b.stream), launch.Blocks(in.Count, abi.DecodeBlock), cuda.Size{X: abi.DecodeBlock})
}

// reduceXOR puts decoding of chunks to an abi.ChunkSums each on the stream.
func (b *bench) reduceXOR(in Chunks, sums, status cuda.Pointer) error {
	p := launch.ReduceXOR{Slab: in.Slab, Chunks: in.Refs, Count: in.Count, Sums: sums, Status: status}
	return p.Launch(b.k.On(b.c, b.stream), launch.Blocks(in.Count, abi.DecodeBlock), cuda.Size{X: abi.DecodeBlock})
}
