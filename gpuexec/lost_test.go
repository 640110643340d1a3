package gpuexec

import (
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/kernels"
)

// TestLostContext: a kernel that goes wrong takes its context with it, and every
// later call fails. A device that is closed and opened again works.
func TestLostContext(t *testing.T) {
	var h *cudatest.Host
	if !cudatest.Real() {
		h = cudatest.Control(t)
	}
	driver := cudatest.Open(t)
	dev, err := driver.Device(0)
	require.NoError(t, err)
	require.NoError(t, dev.Do(func(c *cuda.Context) error {
		k, err := LoadKernels(c)
		require.NoError(t, err)
		s, err := c.NewStream()
		require.NoError(t, err)
		b := &bench{t, c, k, s}
		err = breakContext(b, h)
		require.True(t, lost(err), "%v", err)
		_, err = c.Alloc(1)
		require.True(t, lost(err), "%v", err)
		_, err = c.NewStream()
		require.True(t, lost(err), "%v", err)
		require.True(t, lost(k.Unload(c)))
		return nil
	}))
	t.Log("closing it:", dev.Close())

	dev, err = driver.Device(0)
	require.NoError(t, err)
	require.NoError(t, dev.Do(func(c *cuda.Context) error {
		k, err := LoadKernels(c)
		require.NoError(t, err)
		_, err = checkKernels(c, k)
		require.NoError(t, err)
		return k.Unload(c)
	}))
	require.NoError(t, dev.Close())
}

// breakContext lets a kernel read what no one may, or, on the host driver, fail
// as one that did.
func breakContext(b *bench, h *cudatest.Host) error {
	r := rand.New(rand.NewPCG(1, 1))
	ts, vs := randomSamples(r, 100)
	slab, refs := slabOf([][]byte{encode(b.t, ts, vs)}, r)
	rows, total := kernels.Tiles(refs)
	in := Chunks{put(b, slab), put(b, refs), 1}
	places := total * kernels.TileChunks
	out := Columns{put(b, rows), space[int64](b, places), space[uint64](b, places)}
	status := space[uint32](b, 1)
	if h == nil {
		in.Slab = 0
	} else {
		h.Configure("cuLaunchKernel:1=719")
	}
	return errors.Join(b.k.Decode(b.c, b.stream, in, out, status), b.c.Wait(b.stream))
}

// lost reports whether an error is of those after which a context is of no use:
// CUDA_ERROR_ILLEGAL_ADDRESS and CUDA_ERROR_LAUNCH_FAILED.
func lost(err error) bool {
	return errors.Is(err, cuda.Result(700)) || errors.Is(err, cuda.Result(719))
}
