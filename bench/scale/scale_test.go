package main

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// of is a fleet of so many series, a million a leaf.
func of(series float64) fleet {
	return fleet{
		costs: measured, series: series, seriesOfLeaf: 1e6, retention: 30 * 24 * time.Hour, interval: 15 * time.Second, step: time.Hour,
		hot: 0.02, most: 0.001, groups: 50, remembered: 0.8, cores: 16, link: 1.25e9, rate: 20, queries: 2000, seed: 1,
	}
}

// A query of an idle fleet takes what its costs add up to; one of a busy fleet waits.
func TestQueues(t *testing.T) {
	idle := of(1e6)
	idle.rate, idle.remembered, idle.most = 0.001, 0, 0.000101 // all queries have about 100 series
	w := idle.simulate()
	require.InEpsilon(t, idle.alone(100).otherGrid, w.median, 0.1)
	require.Less(t, w.high, 1.5*w.median)

	idle.remembered = 0.999
	require.InEpsilon(t, idle.alone(100).repeated, idle.simulate().median, 0.1)

	busy := of(1e6)
	half := busy.simulate()
	busy.rate *= 1.5 / half.busy // more than the leaves' cores can
	w = busy.simulate()
	require.Greater(t, w.busy, 0.5)
	require.Greater(t, w.high, 3*half.high)

	wide := of(1e8)
	w = wide.simulate()
	require.Greater(t, w.network, w.root, "of 100 leaves")
	wide.link *= 10
	require.InEpsilon(t, w.network, 10*wide.simulate().network, 1e-9)
}

// work keeps cores apart: as much as fits begins at once, and the rest when one is free.
func TestWork(t *testing.T) {
	p := make(places, 2)
	require.EqualValues(t, 2, p.work(0, 2, 0.5))
	require.EqualValues(t, 3, p.work(0, 3, 0.5))
	require.EqualValues(t, 4, p.work(1, 2, 0.5), "from 2 on")
	require.EqualValues(t, 11, p.work(10, 2, 1), "on both")
}

// What all have grows with the series; what a leaf has does not.
func TestSize(t *testing.T) {
	small, large := of(1e6), of(1e8)
	a, b := small.size(), large.size()
	require.Equal(t, []int{1, 100}, []int{a.leaves, b.leaves})
	require.InEpsilon(t, 100*a.chunks, b.chunks, 1e-9)
	require.InEpsilon(t, a.memory, b.memory, 1e-9)
	require.InEpsilon(t, 1e6*172800*3.0, a.chunks, 1e-9)
	require.InEpsilon(t, 100*small.published().disk, large.published().disk, 1e-9)
	// 1 M series: 2.7 cores for distributors, 10 for ingesters, 2 and 2 for 20 queries a second.
	require.InEpsilon(t, 16.67, small.published().cores, 1e-3)
}

// TestPage: docs/scale.md has what the program prints.
func TestPage(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run(nil, &out, io.Discard))
	text, err := os.ReadFile("../../docs/scale.md")
	require.NoError(t, err)
	page, blanks := string(text), regexp.MustCompile(` *\| *`)
	for line := range strings.Lines(out.String()) {
		if row := strings.TrimSpace(blanks.ReplaceAllString(line, " | ")); strings.HasPrefix(row, "|") {
			require.Contains(t, page, row, "have docs/scale.md's tables be those of go run ./scale")
		}
	}
}

func TestFlags(t *testing.T) {
	var out strings.Builder
	require.NoError(t, run([]string{"-series", "1e6,1e7", "-queries", "200"}, &out, io.Discard))
	require.Contains(t, out.String(), "| 10 M ")
	for _, bad := range []string{"-leaf=0", "-hot=2", "-queries=1", "-link=0", "-range=0s", "-series=x", "-remembered=1", "-qps=NaN", "more"} {
		require.Error(t, run([]string{bad}, io.Discard, io.Discard), bad)
	}
}
