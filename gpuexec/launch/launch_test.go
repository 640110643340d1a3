package launch

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
	"github.com/promwarp/promwarp/kernels/abi"
)

// TestLaunch loads a kernel, launches it, and asks for one that is not loaded.
func TestLaunch(t *testing.T) {
	dev := cudatest.Device(t)
	set, err := Load(dev, nil, "check")
	require.NoError(t, err)
	require.NoError(t, dev.Do(func(c *cuda.Context) error {
		s, err := c.NewStream()
		require.NoError(t, err)
		q := Queue{Set: set, Context: c, Stream: s}
		one, block := cuda.Size{X: 1}, cuda.Size{X: abi.CheckBlock}
		at, err := c.Alloc(4)
		require.NoError(t, err)
		require.NoError(t, c.Set(at, 7, 4, s))
		require.NoError(t, q.Launch("check", one, block, cuda.Pointer(0), uint32(0), at))
		sum := []byte{1, 1, 1, 1}
		require.NoError(t, c.CopyOut(sum, at, s))
		require.NoError(t, c.Wait(s))
		require.Equal(t, make([]byte, 4), sum, "the sum of no numbers")

		require.EqualError(t, q.Launch("window_rate", one, block), "kernel window_rate is not loaded")
		require.EqualError(t, q.Launch("check", one, block, at), "kernel check: 1 parameters of 3")
		require.EqualError(t, q.Launch("check", one, block, at, uint64(0), at), "kernel check: parameter 1 is a uint64 for a .u32")
		require.EqualError(t, q.Launch("check", one, block, at, 0, at), "kernel check: parameter 1 is a int for a .u32")
		require.NoError(t, c.Free(at))
		require.NoError(t, c.DestroyStream(s))
		return set.Unload(c)
	}))
}

// TestLoadAside: where the driver had to compile the first kernels, the others are compiled in contexts of
// their own, which are given up; what fails there is loaded all the same.
func TestLoadAside(t *testing.T) {
	h := cudatest.Control(t)
	const loads, contexts = "cuModuleLoadDataEx", "cuCtxCreate_v2"
	others := len(Queries()) - len(First)
	for _, c := range []struct {
		settings        string
		compiled        bool
		loads, contexts int
	}{
		{"", false, others, 0},
		{"", true, 2 * others, 3},
		{contexts + ":1=2", true, 2 * others, 3}, // two of three go on
		{loads + ":1=2", true, 2 * others, 3},
	} {
		h.Reset()
		dev, err := cudatest.Open(t).Device(0)
		require.NoError(t, err)
		s := New(dev, Queries()...)
		require.NoError(t, s.Load(t.Context(), First...))
		h.Configure(c.settings)
		before := h.Calls(loads)
		s.compiled.Store(c.compiled)
		require.NoError(t, s.LoadAside(t.Context(), 3, Queries()...))
		require.True(t, s.Loaded(Queries()...))
		require.Zero(t, s.Missing(Queries()...))
		require.Equal(t, []int{c.loads, c.contexts}, []int{h.Calls(loads) - before, h.Calls(contexts)}, c.settings)
		require.Equal(t, h.Calls(contexts), h.Calls("cuCtxDestroy_v2")+len(strings.Split(c.settings, contexts))-1)
		require.NoError(t, dev.Do(s.Unload))
		require.NoError(t, dev.Close())
		require.Zero(t, h.Held())
	}
	ended, end := context.WithCancel(t.Context())
	end()
	s := New(cudatest.Device(t), Queries()...)
	s.compiled.Store(true)
	require.ErrorIs(t, s.LoadAside(ended, 3, Queries()...), context.Canceled)
	require.NoError(t, s.dev.Do(s.Unload))
}

// TestKernels: the lists of rooms have the kernels whose sources there are.
func TestKernels(t *testing.T) {
	for room, listed := range map[string][]Kernel{
		"decode": Decode, "window": Window, "values": Values, "group": Group, "resample": Resample, "custom": Custom,
		"probe": Probe,
	} {
		sources, err := filepath.Glob("../../kernels/" + room + "/*.cu")
		require.NoError(t, err)
		var there []Kernel
		for _, path := range sources {
			there = append(there, Kernel(strings.TrimSuffix(filepath.Base(path), ".cu")))
		}
		require.ElementsMatch(t, there, listed, room)
	}
}

// TestQueries: what queries load has no kernel that only tests launch.
func TestQueries(t *testing.T) {
	require.NotEmpty(t, Queries())
	for _, k := range Probe {
		require.NotContains(t, Queries(), k, k)
	}
}

func TestPanesOf(t *testing.T) {
	for _, c := range []struct {
		steps Steps
		sums  bool
		want  Panes
		ok    bool
	}{
		{Steps{Interval: 60_000, Width: 3_600_000, Count: 100}, false, Panes{1, 0, 1, 159, 30, 60}, true},
		{Steps{Interval: 60_000, Width: 3_600_001, Count: 100}, false, Panes{1, 1, 2, 319, 60, 121}, true},
		{Steps{Interval: 60_000, Width: 86_400_000, Count: 100}, false, Panes{1, 0, 1, 1539, 64, 1440}, true},
		{Steps{Interval: 60_000, Width: 86_400_000, Count: 2500}, true, Panes{144, 0, 1, 27, 1, 10}, true},
		{Steps{Interval: 60_000, Width: 86_400_000, Count: 100}, true, Panes{32, 0, 1, 48, 1, 45}, true},
		{Steps{Interval: 60_000, Width: 3_600_001, Count: 10_000}, true, Panes{256, 3_600_001, 2, 79, 1, 1}, true},
		{Steps{Interval: 60_000, Width: 420_000, Count: 100}, false, Panes{}, false},   // little is shared
		{Steps{Interval: 60_000, Width: 3_600_000, Count: 7}, false, Panes{}, false},   // few steps
		{Steps{Interval: 0, Width: 3_600_000, Count: 100}, false, Panes{}, false},      // all windows are the same
		{Steps{Interval: 1, Width: 86_400_000, Count: 100_000}, false, Panes{}, false}, // too many
	} {
		got, ok := PanesOf(c.steps, c.sums)
		require.Equal(t, c.ok, ok, c.steps)
		if ok {
			require.Equal(t, c.want, got, c.steps)
			require.True(t, c.sums || got.Block < got.Span)
		}
	}
}

// numbered is a program that is another for another number.
func numbered(number byte) *Program {
	return &Program{Hash: [32]byte{number}, Kernels: []Kernel{"check"}, Translate: func(k []byte) []byte { return k }}
}

// TestPrograms: one text is loaded once for all; what is held stays; of the others those that
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
