package selection

import (
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// TestSharesChunks: chunks are the same where their bytes are, wherever these lie.
func TestSharesChunks(t *testing.T) {
	build := func(values ...float64) *Selection {
		b := NewBuilder(0)
		b.Series(labels.FromStrings("__name__", "m"))
		for i, v := range values {
			require.NoError(t, b.Floats([]int64{int64(1000 * i), int64(1000*i + 900)}, []float64{v, v}))
		}
		s, err := b.Finish()
		require.NoError(t, err)
		return s
	}
	s := build(1, 2, 3)
	for name, c := range map[string]struct {
		other *Selection
		same  bool
	}{
		"itself":           {s, true},
		"chunks elsewhere": {build(1, 2, 3), true},
		"another value":    {build(1, 5, 3), false},
		"fewer chunks":     {build(1, 2), false},
		"outside":          {build(1, 2, 5), true},
	} {
		to := int64(2999)
		if name == "outside" {
			to = 1999
		}
		require.Equal(t, c.same, s.SharesChunks(c.other, 0, to), name)
	}
}
