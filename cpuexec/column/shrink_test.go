package column

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/decode"
)

// TestShrink: the columns that were not used for longest go, no more of them than it takes,
// and the account is of those that stay.
func TestShrink(t *testing.T) {
	h := NewSet(1 << 30)
	var all []*entry
	for i := range 10 {
		s := &entry{}
		s.used.Store(int64(10 - i)) // the first was used last
		cols := &decode.Buffer{Times: make([]int64, 1000), Values: make([]float64, 1000)}
		for k := range cols.Times {
			cols.Times[k], cols.Values[k] = int64(k*15+i), float64(k)/3
		}
		require.NotNil(t, h.retain(s, 0, nil, cols))
		all = append(all, s)
	}
	before := h.SizeBytes()
	freed := h.Shrink(before / 4)
	require.GreaterOrEqual(t, freed, before/4)
	require.Less(t, freed, before/2)
	require.Equal(t, before-freed, h.SizeBytes())
	kept := 0
	for i, s := range all {
		if s.cols[0].Load() != nil {
			require.Equal(t, i, kept, "those used last stay")
			kept++
		}
	}
	require.Positive(t, kept)
	require.Less(t, kept, 10)
	require.Equal(t, before-freed, h.Shrink(1<<40))
	require.Zero(t, h.SizeBytes())
	require.Empty(t, h.ring)
	require.Empty(t, h.times)
	require.Zero(t, h.Shrink(1))
}
