package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTiming(t *testing.T) {
	a := union([]interval{{5, 6}, {0, 2}, {1, 3}, {3, 4}})
	require.Equal(t, []interval{{0, 4}, {5, 6}}, a)
	require.Equal(t, []interval{{1, 2}, {3, 4}, {5, 5.5}}, common(a, []interval{{1, 2}, {3, 5.5}}))
	require.InDelta(t, 5, length(a), 0)
	s := Stages{Link: 2000, CopiedBytes: 1000}
	require.Zero(t, s.CopyRate())
	require.Zero(t, s.Overlap())
	timing := timing{copies: []interval{{0, 1000}}, kernels: []interval{{500, 900}, {1000, 1500}}}
	timing.finish(&s)
	require.InDelta(t, 1000, s.CopyRate(), 1e-9)
	require.InDelta(t, 0.5, s.LinkShare(), 1e-9)
	require.InDelta(t, 4.0/9, s.Overlap(), 1e-9)
	require.Zero(t, (&Stages{}).LinkShare())
}
