package pipeline

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestTiming: what overlaps or touches is counted once, and what ran beside something else is hidden.
func TestTiming(t *testing.T) {
	var all timing
	for _, copied := range [][2]float64{{5, 6}, {0, 2}, {1, 3}, {3, 4}} {
		all.ran(copied[0], copied[1], 1, 0)
	}
	all.ran(1, 2, 0, 1)
	all.ran(3, 5.5, 0, 1)
	var s Stages
	all.finish(&s)
	require.Equal(t, []time.Duration{5 * time.Millisecond, 3500 * time.Microsecond, 2500 * time.Microsecond}, []time.Duration{s.Copying, s.Computing, s.Hidden})
}

func TestExplain(t *testing.T) {
	s := Stages{Link: 2000, CopiedBytes: 1000}
	require.Zero(t, s.Explain().CopyRate)
	require.Zero(t, s.Explain().Overlap)
	var timing timing
	timing.ran(0, 1000, 1, 0)
	timing.ran(500, 900, 0, 1)
	timing.ran(1000, 1500, 0, 1)
	timing.finish(&s)
	require.InDelta(t, 1000, s.Explain().CopyRate, 1e-9)
	require.InDelta(t, 0.5, s.Explain().LinkShare, 1e-9)
	require.InDelta(t, 4.0/9, s.Explain().Overlap, 1e-9)
	require.Zero(t, (&Stages{}).Explain().LinkShare)
}
