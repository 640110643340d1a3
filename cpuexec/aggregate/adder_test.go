package aggregate

import (
	"slices"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/operator"
)

// TestShared: all series are in a group, in input order, where the cores would be done
// with the groups at about the same time.
func TestShared(t *testing.T) {
	groupsOf := func(of ...int32) operator.Groups {
		return operator.Groups{Of: of, Labels: make([]labels.Labels, slices.Max(of)+1)}
	}
	for _, c := range []struct {
		g             operator.Groups
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
		require.Equal(t, c.want, shared(c.g, c.from, c.workers), "%v from %d for %d", c.g.Of, c.from, c.workers)
	}
}
