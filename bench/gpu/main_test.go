package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/gpuexec/cuda/cudatest"
)

// TestRun measures one thing of each kind in a small size.
func TestRun(t *testing.T) {
	out := filepath.Join(t.TempDir(), "results.json")
	o, err := parse([]string{
		"-crossover", "-most", "1000", "-shapes", "-resample", "-match", "^(rate|eight by job|custom (mean|steps) by job.*|10 of .*)$", "-series", "40", "-samples", "200",
		"-rounds", "1", "-budget", "10ms", "-memory", "0.1", "-library", cudatest.Library(t), "-out", out,
	}, io.Discard)
	require.NoError(t, err)
	var table, log bytes.Buffer
	require.NoError(t, o.run(t.Context(), &table, &log))
	require.Contains(t, table.String(), "promwarp host device 0")
	require.Contains(t, table.String(), "`sum by (job) (rate(m_total[5m]))`")
	b, err := os.ReadFile(out)
	require.NoError(t, err)
	var r results
	require.NoError(t, json.Unmarshal(b, &r))
	require.Len(t, r.Shapes, 1)
	require.Len(t, r.Crossover, 1)
	require.Len(t, r.Resampled, 3)
	for _, row := range r.Resampled {
		require.Positive(t, row.Resident, row.Name)
	}
	require.Equal(t, int64(8000), r.Resampled[0].Samples)
	require.Empty(t, r.Carbonara)
	require.NotEmpty(t, r.Date)
	require.Positive(t, r.Cores)
	require.True(t, r.Machine.Usable())
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		args []string
		err  string
	}{
		{nil, "say what to measure"},
		{[]string{"-shapes", "now"}, `unexpected argument "now"`},
		{[]string{"-shapes", "-match", "("}, "-match: "},
		{[]string{"-shapes", "-series", "0"}, "at least 1"},
	} {
		_, err := parse(c.args, io.Discard)
		require.ErrorContains(t, err, c.err)
	}
	o, err := parse([]string{"-carbonara", "-times", "1"}, io.Discard)
	require.NoError(t, err)
	require.Equal(t, []int{1}, o.sizes)
}

// TestNoGPU: without one the error says why.
func TestNoGPU(t *testing.T) {
	o, err := parse([]string{"-carbonara", "-library", "libnothing.so.1"}, io.Discard)
	require.NoError(t, err)
	require.ErrorContains(t, o.run(t.Context(), io.Discard, io.Discard), "no GPU is usable: no NVIDIA driver")
}
