package gpuexec

import (
	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/kernels/abi"
)

// maxGridY is the most blocks that a grid has in its second dimension. A test lowers it.
var maxGridY uint32 = launch.MaxGridY

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

// Grid is a matrix of series by steps in device memory, with a bit for each
// place that says whether there is a value. A row of bits begins at a new uint32.
type Grid struct {
	Values  cuda.Pointer // float64, row by row
	Present cuda.Pointer // uint32, row by row
	Steps   uint32
}

// Groups say in device memory which series belong together: those of group g
// are Members[First[g]] to Members[First[g+1]-1], all uint32.
type Groups struct {
	Members, First cuda.Pointer
	Count          uint32
}

// groupSum puts adding the series of each group on the stream. sums gets a float64
// and counts a uint32 for each group and step.
func (b *bench) groupSum(in Grid, groups Groups, sums, counts cuda.Pointer) error {
	grid := launch.Blocks(in.Steps, abi.GroupSumSteps)
	grid.Y = min(groups.Count, maxGridY)
	p := launch.GroupSum{
		Values: in.Values, Present: in.Present, Members: groups.Members, First: groups.First, Groups: groups.Count,
		Steps: in.Steps, Sums: sums, Counts: counts,
	}
	return p.Launch(b.k.On(b.c, b.stream), grid, cuda.Size{X: abi.GroupSumSteps, Y: abi.GroupSumParts})
}
