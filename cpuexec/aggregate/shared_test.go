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

// TestMovedApart: groups of about as many series are each moved once, away from their neighbours, and
// stay behind those of more.
func TestMovedApart(t *testing.T) {
	for _, c := range []struct{ sizes, want []int }{
		{nil, nil},
		{[]int{5}, []int{0}},
		{[]int{5, 5, 5, 5}, []int{0, 1, 2, 3}},
		{[]int{5, 5, 5, 5, 5, 5, 5, 5}, []int{0, 3, 6, 1, 4, 7, 2, 5}},
		{[]int{8, 8, 7, 7, 6, 6, 6, 5, 5, 3}, []int{0, 2, 4, 6, 1, 3, 5, 7, 8, 9}},
	} {
		members := make([][]int32, len(c.sizes))
		for k, n := range c.sizes {
			members[k] = slices.Repeat([]int32{int32(k)}, n)
		}
		moveApart(members)
		var got []int
		for _, m := range members {
			got = append(got, int(m[0]))
		}
		require.Equal(t, c.want, got, "%v", c.sizes)
	}
	members := make([][]int32, 96)
	for k := range members {
		members[k] = []int32{int32(k)}
	}
	moveApart(members)
	for k := range members[1:] {
		away := int(members[k+1][0] - members[k][0])
		require.Greater(t, max(away, -away), 30)
	}
}
