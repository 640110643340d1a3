package column

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/decode"
)

// TestSizeOfWhatIsGone: what columns took is taken off once the collector has been at work, as often
// as it has, and what is retained meanwhile counts at once.
func TestSizeOfWhatIsGone(t *testing.T) {
	h := NewSet(1 << 30)
	require.Zero(t, h.SizeBytes())
	for range 3 {
		all := retainMany(t, h, 100)
		full := h.SizeBytes()
		require.Greater(t, full, int64(100*1000*4))
		all = append(all, retainMany(t, h, 100)...)
		require.Greater(t, h.SizeBytes(), full)
		runtime.KeepAlive(all)
		all = nil
		runtime.GC()
		require.Zero(t, h.SizeBytes())
		require.Empty(t, h.ring)
		require.Empty(t, h.times)
	}
}

// retainMany has h retain columns of a thousand samples in new entries.
func retainMany(t testing.TB, h *Set, n int) []*entry {
	all := make([]*entry, n)
	for i := range all {
		all[i] = &entry{}
		cols := &decode.Buffer{Times: make([]int64, 1000), Values: make([]float64, 1000)}
		for k := range cols.Times {
			cols.Times[k], cols.Values[k] = int64(k*15_000+i), float64(k)
		}
		require.NotNil(t, h.retain(all[i], 0, nil, cols))
	}
	return all
}

// BenchmarkSizeBytes is what a query pays that looks at memory 20 ms after another one.
func BenchmarkSizeBytes(b *testing.B) {
	h := NewSet(1 << 30)
	all := retainMany(b, h, 10_000)
	for b.Loop() {
		h.SizeBytes()
	}
	runtime.KeepAlive(all)
}
