package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/bench/report"
)

// The whole program, with a real Prometheus and promwarp, at a tiny size.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts servers")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	jsonFile, mdFile := filepath.Join(t.TempDir(), "r.json"), filepath.Join(t.TempDir(), "r.md")
	var out, progress strings.Builder
	err := run(t.Context(), []string{"-smoke", "-queries", "^(red|k8s|topk)-", "-out", jsonFile, "-markdown", mdFile}, &out, &progress)
	require.NoError(t, err, "%s%s", progress.String(), out.String())
	require.Contains(t, out.String(), "answers of promwarp that are not Prometheus's, or failed: 0 of ")

	b, err := os.ReadFile(jsonFile)
	require.NoError(t, err)
	var r report.Result
	require.NoError(t, json.Unmarshal(b, &r))
	require.Greater(t, len(r.Rows), 10)
	for _, row := range r.Rows {
		require.Positive(t, row.Points, row.Name)
		for _, c := range []string{report.Prometheus, report.PromwarpFirst, report.Promwarp} {
			require.Positive(t, row.Timings[c].Median, "%s %s", row.Name, c)
		}
	}
	require.FileExists(t, mdFile)
	left, err := filepath.Glob(filepath.Join(dir, "promwarp-bench-*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

// A run that is interrupted leaves nothing behind.
func TestInterrupted(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts servers")
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	progress := writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "1/") { // the first query was asked
			cancel()
		}
		return len(p), nil
	})
	err := run(ctx, []string{"-smoke"}, &strings.Builder{}, progress)
	require.ErrorIs(t, err, context.Canceled)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, f := range left {
		require.False(t, strings.HasPrefix(f.Name(), "promwarp-bench-"), f.Name())
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
