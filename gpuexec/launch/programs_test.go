package launch

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
)

// numbered is a program that is another for another number.
func numbered(number byte) *Program {
	return &Program{Hash: [32]byte{number}, Kernels: []Kernel{"check"}, Translate: func(k []byte) []byte { return k }}
}

// TestPrograms: one text is loaded once, whoever asks; what is held stays; of the others those that
// were used last do.
func TestPrograms(t *testing.T) {
	h := cudatest.Control(t)
	dev := cudatest.Device(t)
	p := Programs{Device: dev}
	loads := func() int { return h.Calls("cuModuleLoadDataEx") }
	var wait sync.WaitGroup
	sets := make([]*Set, 4)
	for i := range sets {
		wait.Go(func() { sets[i], _ = p.Hold(numbered(0)) })
	}
	wait.Wait()
	require.NotNil(t, sets[0])
	for _, s := range sets {
		require.Same(t, sets[0], s)
	}
	require.Equal(t, 1, loads())
	for i := byte(1); i <= maxPrograms+2; i++ {
		require.False(t, p.Loaded(numbered(i)))
		_, err := p.Hold(numbered(i))
		require.NoError(t, err)
		require.NoError(t, p.Release(numbered(i)))
	}
	require.Equal(t, maxPrograms+3, loads())
	require.Equal(t, 3, h.Calls("cuModuleUnload"))
	for i, loaded := range []bool{true, false, false, false, true} {
		require.Equal(t, loaded, p.Loaded(numbered(byte(i))), i)
	}
	_, err := p.Hold(numbered(1))
	require.NoError(t, err)
	require.Equal(t, maxPrograms+4, loads())
	require.NoError(t, p.Release(numbered(1)))
	for range sets {
		require.NoError(t, p.Release(numbered(0)))
	}
	require.NoError(t, dev.Do(p.Unload))
	require.Equal(t, loads(), h.Calls("cuModuleUnload"))
}

// TestProgramsFail: what does not load is tried again when it is asked for again.
func TestProgramsFail(t *testing.T) {
	h := cudatest.Control(t)
	dev := cudatest.Device(t)
	p := Programs{Device: dev}
	h.Configure("cuModuleLoadDataEx:1=999")
	_, err := p.Hold(numbered(0))
	require.ErrorContains(t, err, "CUDA_ERROR_UNKNOWN")
	require.False(t, p.Loaded(numbered(0)))
	_, err = p.Hold(numbered(0))
	require.NoError(t, err)
	broken := numbered(1)
	broken.Translate = func([]byte) []byte { return []byte("nothing") }
	_, err = p.Hold(broken)
	require.ErrorContains(t, err, "kernel check: cuModuleLoadDataEx: CUDA_ERROR_INVALID_IMAGE")
	require.NoError(t, p.Release(numbered(0)))
	require.NoError(t, dev.Do(p.Unload))
}

// TestCustomKernels: queries load none before a program is put into them.
func TestCustomKernels(t *testing.T) {
	require.NotEmpty(t, Custom)
	for _, k := range Custom {
		require.NotContains(t, Queries(), k)
	}
}
