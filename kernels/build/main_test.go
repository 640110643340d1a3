package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// inFolders are the files in the folders with kernels whose names match.
func inFolders(t *testing.T, pattern string) (files []string) {
	for _, dir := range folders {
		in, err := filepath.Glob(filepath.Join("..", "..", dir, pattern))
		require.NoError(t, err)
		files = append(files, in...)
	}
	return files
}

// TestFresh fails when a kernel's source changed and its PTX did not, and, where
// the compiler that made the PTX is at hand, when it makes something else.
func TestFresh(t *testing.T) {
	sources := inFolders(t, "*.cu")
	require.NotEmpty(t, sources)
	version, missing := compilerVersion()
	for _, src := range sources {
		have, err := os.ReadFile(target(src))
		require.NoError(t, err, "run make kernels")
		first, _, _ := strings.Cut(string(have), "\n")
		sum, err := hash(src)
		require.NoError(t, err)
		require.Contains(t, first, sum, "%s is stale: run make kernels", target(src))
		if missing != nil || !strings.Contains(first, version) {
			t.Logf("%s: only its hash was checked: it says %q, the compiler %q (%v)", src, first, version, missing)
			continue
		}
		want, err := compile(src, version)
		require.NoError(t, err)
		require.Equal(t, string(want), string(have), "%s differs from what its source compiles to: run make kernels", target(src))
	}
}

// TestNoOrphans: every PTX has a source.
func TestNoOrphans(t *testing.T) {
	for _, p := range inFolders(t, "*.ptx") {
		require.FileExists(t, strings.TrimSuffix(p, ".ptx")+".cu")
	}
}

func TestHashSeesHeaders(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "below")
	require.NoError(t, os.Mkdir(dir, 0o755))
	src := filepath.Join(dir, "a.cu")
	require.NoError(t, os.WriteFile(src, []byte("x"), 0o644))
	seen := map[string]bool{}
	for _, header := range []string{"", "b.h", "../shim.h"} {
		if header != "" {
			require.NoError(t, os.WriteFile(filepath.Join(dir, header), []byte("y"), 0o644))
		}
		sum, err := hash(src)
		require.NoError(t, err)
		require.False(t, seen[sum], header)
		seen[sum] = true
	}
}
