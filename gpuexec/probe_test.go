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
	return b.k.On(b.c, b.stream).Launch("decode_xor", launch.Blocks(in.Count, abi.DecodeBlock), cuda.Size{X: abi.DecodeBlock},
		in.Slab, in.Refs, in.Count, out.Rows, out.Times, out.Values, status)
}

// reduceXOR puts decoding of chunks to an abi.ChunkSums each on the stream.
func (b *bench) reduceXOR(in Chunks, sums, status cuda.Pointer) error {
	return b.k.On(b.c, b.stream).Launch("reduce_xor", launch.Blocks(in.Count, abi.DecodeBlock), cuda.Size{X: abi.DecodeBlock},
		in.Slab, in.Refs, in.Count, sums, status)
}
