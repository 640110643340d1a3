package cpuexec

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShrink: the columns that were not used for longest go, no more of them than it takes,
// and the account is of those that stay.
func TestShrink(t *testing.T) {
	h := newHotSet(1 << 30)
	var all []*hotSeries
	for i := range 10 {
		s := &hotSeries{}
		s.used.Store(int64(10 - i)) // the first was used last
		cols := &columns{ts: make([]int64, 1000), vs: make([]float64, 1000)}
		for k := range cols.ts {
			cols.ts[k], cols.vs[k] = int64(k*15+i), float64(k)/3
		}
		require.NotNil(t, h.keep(s, 0, nil, cols))
		all = append(all, s)
	}
	before := h.size()
	freed := h.shrink(before / 4)
	require.GreaterOrEqual(t, freed, before/4)
	require.Less(t, freed, before/2)
	require.Equal(t, before-freed, h.size())
	kept := 0
	for i, s := range all {
		if s.cols.Load() != nil {
			require.Equal(t, i, kept, "those used last stay")
			kept++
		}
	}
	require.Positive(t, kept)
	require.Less(t, kept, 10)
	require.Equal(t, before-freed, h.shrink(1<<40))
	require.Zero(t, h.size())
	require.Empty(t, h.ring)
	require.Empty(t, h.times)
	require.Zero(t, h.shrink(1))
}
