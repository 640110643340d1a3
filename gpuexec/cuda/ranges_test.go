package cuda_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
)

func TestAnnotate(t *testing.T) {
	h := cudatest.Control(t)
	t.Cleanup(func() { require.NoError(t, cuda.Annotate("")) })
	failed := errors.New("failed")
	inner, outer := cuda.NewStage("inner"), cuda.NewStage("outer")
	use := func() error { return outer.Do(func() error { return inner.Do(func() error { return failed }) }) }

	require.Error(t, cuda.Annotate("libnothing.so.1"))
	require.ErrorContains(t, cuda.Annotate("libc.so.6"), "libc.so.6 is not a library of NVTX")
	require.NoError(t, cuda.Annotate(""))
	require.ErrorIs(t, use(), failed)
	require.Zero(t, h.Ranges("outer"), "nobody is told")

	require.NoError(t, cuda.Annotate(cudatest.Library(t)))
	for n := 1; n < 4; n++ {
		require.ErrorIs(t, use(), failed)
		require.Equal(t, n, h.Ranges("inner"))
		require.Equal(t, n, h.Ranges("outer"))
	}
	require.PanicsWithValue(t, "out", func() { _ = inner.Do(func() error { panic("out") }) })
	require.Equal(t, 4, h.Ranges("inner"), "it has ended")
	require.Zero(t, h.Ranges("another"))
}

func BenchmarkStage(b *testing.B) {
	require.NoError(b, cuda.Annotate(""))
	s := cuda.NewStage("nothing")
	for b.Loop() {
		_ = s.Do(func() error { return nil })
	}
}
