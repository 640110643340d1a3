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
)

// bench is a device with the kernels of groups and a stream, for one test.
type bench struct {
	t      testing.TB
	c      *cuda.Context
	k      *launch.Set
	stream cuda.Stream
}

// onBench runs f on the first device.
func onBench(t testing.TB, f func(b *bench)) {
	dev := cudatest.Device(t)
	k, err := launch.Load(dev, launch.Group...)
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
