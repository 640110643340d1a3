package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/bench/peers"
	"github.com/promwarp/promwarp/bench/report"
)

// The whole program, with real servers, at a tiny size: every stage but that of rules, which takes
// as long as rules are evaluated.
func TestSmoke(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and starts servers")
	}
	var names []string
	for _, s := range stages {
		if s.name != "rules" {
			names = append(names, s.name)
		}
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	kept := t.TempDir()
	args := []string{"-smoke", "-dir", kept, "-stages", strings.Join(names, ","), "-only", "promwarp,victoriametrics,prometheus",
		"-queries", "^(red-rate|k8s-.*|rate|.*-over-1h|half-a-job|one-group|sum.*|rate-by-job|arrow|.*_over_time, 5m, cents|node: Load over cores|slo: Page|Sloth errors 30d|Pyrra increase 30d)$", "-markdown", filepath.Join(kept, "r.md")}
	var out, progress strings.Builder
	err := run(t.Context(), args, &out, &progress)
	require.NoError(t, err, "%s%s", progress.String(), out.String())
	require.Contains(t, out.String(), "answers that are not Prometheus's, or failed: 0\n")
	require.FileExists(t, filepath.Join(kept, "r.md"))

	var r report.Result
	require.NoError(t, readJSON(filepath.Join(kept, resultFile), &r))
	for _, name := range names {
		s := r.Stage(name)
		require.NotEmpty(t, s.Rows, name)
		for _, row := range s.Rows {
			for _, c := range s.Contenders {
				if _, ok := row.Costs[c]; ok || s.Rows[0] == row {
					require.Positive(t, row.Costs[c].Median, "%s %s %s", name, row.Name, c)
				}
			}
		}
	}
	require.Equal(t, "same", r.Stage("cores").Row("red-rate").Note)
	require.Contains(t, r.Stage("cores").Row("red-rate").Costs, "Prometheus on 1")
	require.Contains(t, r.Stage("gzip").Row("half-a-job").Costs, "promwarp on 1, gzip")

	// A later run in the folder finds the data made, and adds to the results.
	progress.Reset()
	require.NoError(t, run(t.Context(), []string{"-smoke", "-dir", kept, "-queries", "^topk-pods$"}, &out, &progress))
	require.NotContains(t, progress.String(), "generating")
	require.NoError(t, readJSON(filepath.Join(kept, resultFile), &r))
	require.Contains(t, r.Stage("dashboards").Row("topk-pods").Costs, report.Promwarp)
	require.Contains(t, r.Stage("dashboards").Row("red-rate").Costs, report.Promwarp)
	require.ErrorContains(t, run(t.Context(), []string{"-dir", kept, "-work"}, &out, &progress), "another kind of time")
	require.ErrorContains(t, run(t.Context(), []string{"-smoke", "-" + peers.Promwarp, "none"}, &out, &progress), "-promwarp: ")
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
