package aggregate

import (
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"
)

// TestShared: all series are in a group, in input order, where the cores would be done
// with the groups at about the same time.
func TestShared(t *testing.T) {
	groupsOf := func(of ...int32) *Groups {
		return &Groups{of: of, Labels: make([]labels.Labels, slices.Max(of)+1)}
	}
	for _, c := range []struct {
		g             *Groups
		from, workers int
		want          [][]int32
	}{
		{groupsOf(0, 1, 0, 1), 0, 2, [][]int32{{0, 2}, {1, 3}}},
		{groupsOf(1, 0, 1, 2, 1), 0, 2, [][]int32{{0, 2, 4}, {1}, {3}}},
		{groupsOf(1, 0, 1, 2, 1), 1, 2, [][]int32{{2, 4}, {1}, {3}}},
		{groupsOf(0, 0, 0, 0, 1), 0, 2, nil},
		{groupsOf(0, 0, 0, 0, 1), 0, 1, [][]int32{{0, 1, 2, 3}, {4}}},
		{groupsOf(0, 0, 0, 0), 0, 2, nil},
		{groupsOf(0, 1, 2), 0, 16, [][]int32{{0}, {1}, {2}}},
		{groupsOf(0, 0, 1, 2), 0, 16, nil},
	} {
		require.Equal(t, c.want, c.g.shared(c.from, c.workers), "%v from %d for %d", c.g.of, c.from, c.workers)
	}
}
