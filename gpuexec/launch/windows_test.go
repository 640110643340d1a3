package launch

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPanesOf(t *testing.T) {
	for _, c := range []struct {
		steps Steps
		want  Panes
		ok    bool
	}{
		{Steps{Interval: 60_000, Width: 3_600_000, Count: 100}, Panes{0, 1, 159, 30, 60}, true},
		{Steps{Interval: 60_000, Width: 3_600_001, Count: 100}, Panes{1, 2, 319, 60, 121}, true},
		{Steps{Interval: 60_000, Width: 86_400_000, Count: 100}, Panes{0, 1, 1539, 128, 1440}, true},
		{Steps{Interval: 60_000, Width: 420_000, Count: 100}, Panes{}, false},   // little is shared
		{Steps{Interval: 60_000, Width: 3_600_000, Count: 7}, Panes{}, false},   // few steps
		{Steps{Interval: 0, Width: 3_600_000, Count: 100}, Panes{}, false},      // all windows are the same
		{Steps{Interval: 1, Width: 86_400_000, Count: 100_000}, Panes{}, false}, // too many
	} {
		got, ok := PanesOf(c.steps)
		require.Equal(t, c.ok, ok, c.steps)
		if ok {
			require.Equal(t, c.want, got, c.steps)
			require.Less(t, got.Block, got.Span)
		}
	}
}
