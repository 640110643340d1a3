package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFresh fails when a kernel's source changed and its PTX did not, and, where
// the compiler that made the PTX is at hand, when it makes something else.
func TestFresh(t *testing.T) {
	sources, err := filepath.Glob("../*.cu")
	require.NoError(t, err)
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
	ptx, err := filepath.Glob("../*.ptx")
	require.NoError(t, err)
	for _, p := range ptx {
		require.FileExists(t, strings.TrimSuffix(p, ".ptx")+".cu")
	}
}

func TestHashSeesHeaders(t *testing.T) {
	dir := t.TempDir()
	src := filepath.Join(dir, "a.cu")
	require.NoError(t, os.WriteFile(src, []byte("x"), 0o644))
	before, err := hash(src)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "b.h"), []byte("y"), 0o644))
	after, err := hash(src)
	require.NoError(t, err)
	require.NotEqual(t, before, after)
}
