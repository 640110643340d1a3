package gpuexec

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/gpuexec/launch"
	"github.com/promwarp/promwarp/gpuexec/layout"
	"github.com/promwarp/promwarp/kernels/abi"
)

// bench is a device with the kernels and a stream, for one test.
type bench struct {
	t      testing.TB
	c      *cuda.Context
	k      *launch.Set
	stream cuda.Stream
}

// onBench runs f on the first device.
func onBench(t testing.TB, f func(b *bench)) {
	dev := cudatest.Device(t)
	k, err := launch.Load(dev, append(launch.Queries(), launch.Probe...)...)
	require.NoError(t, err)
	require.NoError(t, dev.Do(func(c *cuda.Context) error {
		s, err := c.NewStream()
		require.NoError(t, err)
		f(&bench{t, c, k, s})
		require.NoError(t, c.DestroyStream(s))
		return k.Unload(c)
	}))
}

// put copies a slice to the device.
func put[T any](b *bench, data []T) cuda.Pointer {
	p := space[T](b, uint64(len(data)))
	require.NoError(b.t, b.c.CopyIn(p, layout.BytesOf(data), b.stream))
	require.NoError(b.t, b.c.Wait(b.stream))
	return p
}

// space takes room for n elements, filled with a pattern.
func space[T any](b *bench, n uint64) cuda.Pointer {
	var one T
	size := max(n, 1) * uint64(unsafe.Sizeof(one))
	p, err := b.c.Alloc(size)
	require.NoError(b.t, err)
	require.NoError(b.t, b.c.Set(p, 0xEE, size, b.stream))
	return p
}

// get copies n elements from the device.
func get[T any](b *bench, p cuda.Pointer, n uint64) []T {
	out := make([]T, n)
	if n > 0 {
		require.NoError(b.t, b.c.CopyOut(layout.BytesOf(out), p, b.stream))
	}
	require.NoError(b.t, b.c.Wait(b.stream))
	return out
}

func (b *bench) free(ps ...cuda.Pointer) {
	for _, p := range ps {
		require.NoError(b.t, b.c.Free(p))
	}
}

// slabOf lays chunks out as a selection does, at multiples of 8 bytes, with
// nonsense between them.
func slabOf(chunks [][]byte, r *rand.Rand) ([]byte, []abi.ChunkRef) {
	var slab []byte
	refs := make([]abi.ChunkRef, len(chunks))
	for i, c := range chunks {
		refs[i] = abi.ChunkRef{Off: uint64(len(slab)), Len: uint32(len(c)), Samples: uint32(c[0])<<8 | uint32(c[1])}
		slab = append(slab, c...)
		for len(slab)%8 != 0 {
			slab = append(slab, byte(r.Uint32()))
		}
	}
	return slab, refs
}

// decoded is what the device made of chunks.
type decoded struct {
	rows   []uint64
	times  []int64
	values []uint64 // bits of floats
	status []abi.Status
}

func (b *bench) decode(chunks [][]byte, r *rand.Rand) decoded {
	slab, refs := slabOf(chunks, r)
	var d decoded
	rows, total := abi.Tiles(refs)
	d.rows = rows
	places := total * abi.TileChunks
	in := Chunks{put(b, slab), put(b, refs), uint32(len(refs))}
	out := launch.Columns{Rows: put(b, rows), Times: space[int64](b, places), Values: space[uint64](b, places)}
	status := space[uint32](b, uint64(len(refs)))
	require.NoError(b.t, b.decodeXOR(in, out, status))
	d.times = get[int64](b, out.Times, places)
	d.values = get[uint64](b, out.Values, places)
	d.status = get[abi.Status](b, status, uint64(len(refs)))
	b.free(in.Slab, in.Refs, out.Rows, out.Times, out.Values, status)
	return d
}

// encode makes an XOR chunk.
func encode(t testing.TB, ts []int64, vs []float64) []byte {
	c := chunkenc.NewXORChunk()
	app, err := c.Appender()
	require.NoError(t, err)
	for i := range ts {
		app.Append(0, ts[i], vs[i])
	}
	return c.Bytes()
}

// encode2 makes an XOR2 chunk, with start timestamps or without.
func encode2(t testing.TB, r *rand.Rand, ts []int64, vs []float64) []byte {
	c := chunkenc.NewXOR2Chunk()
	app, err := c.Appender()
	require.NoError(t, err)
	start, from := int64(0), r.IntN(3)*r.IntN(40)
	for i := range ts {
		if from > 0 && i >= from && r.IntN(3) == 0 {
			start = ts[i] - r.Int64N(1<<uint(1+r.IntN(40)))
		}
		app.Append(start, ts[i], vs[i])
	}
	return c.Bytes()
}
