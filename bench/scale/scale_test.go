package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// of is a fleet of so many series, a million a leaf.
func of(series float64) fleet {
	return fleet{
		costs: measured, series: series, seriesOfLeaf: 1e6, retention: 30 * 24 * time.Hour, interval: 15 * time.Second, step: time.Hour,
		hot: 0.02, most: 0.001, groups: 50, cores: 16, link: 1.25e9, rate: 20, queries: 2000, seed: 1,
	}
}

// An idle fleet takes what its costs add up to; a busy one queues, and the limit says where.
func TestQueues(t *testing.T) {
	idle := of(1e6)
	idle.rate, idle.most = 0.001, 0.000101 // all queries have about 100 series
	w := idle.simulate()
	cost := (measured.query + 100*(measured.series+172800*measured.evaluate)) / 16
	answer := 2*720*50*measured.pointBytes/1.25e9 + 720*50*measured.point/16
	require.InEpsilon(t, cost+answer, w.median, 0.05)
	require.Less(t, w.high, 1.5*w.median)

	busy := of(1e6)
	busy.rate = 20 / idle.simulate().median // more than the cores can
	busy.most = 0.001
	w = busy.simulate()
	require.Equal(t, "the leaves' cores", w.limit)
	require.Greater(t, w.high, 10*idle.simulate().median)

	wide := of(1e9)
	w = wide.simulate()
	require.Equal(t, "the root's cores", w.limit)

	large := of(1e6)
	large.most, large.rate = 0.5, 0.0001
	require.Equal(t, "a first query's fetch takes over 2 min", large.simulate().limit)
}

// What is there grows with the series; what a leaf has does not.
func TestSize(t *testing.T) {
	small, large := of(1e6), of(1e8)
	a, b := small.size(), large.size()
	require.Equal(t, []int{1, 100}, []int{a.leaves, b.leaves})
	require.InEpsilon(t, 100*a.chunks, b.chunks, 1e-9)
	require.InEpsilon(t, a.memoryOfLeaf, b.memoryOfLeaf, 1e-9)
	require.InEpsilon(t, 1e6*172800*3.0, a.chunks, 1e-9)
}

func TestFlags(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run([]string{"-series", "1e6,1e7", "-queries", "200"}, &out, io.Discard))
	require.Contains(t, out.String(), "| 10 M ")
	for _, bad := range []string{"-leaf=0", "-hot=2", "-queries=1", "-link=0", "-range=0s", "-series=x", "more"} {
		require.Error(t, run([]string{bad}, io.Discard, io.Discard), bad)
	}
}
