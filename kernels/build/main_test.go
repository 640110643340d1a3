package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/kernels/abi"
)

const root = "../.."

func kernels(t *testing.T) []*kernel {
	all, err := parseAll(root)
	require.NoError(t, err)
	return all
}

// TestFresh fails when a kernel's source changed and what is generated from it did not, and,
// where the compiler that made the PTX is at hand, when it makes something else.
func TestFresh(t *testing.T) {
	all := kernels(t)
	generated, err := functionTexts(root)
	require.NoError(t, err)
	generated[table] = hostTable(all)
	for path, want := range generated {
		have, err := os.ReadFile(filepath.Join(root, path))
		require.NoError(t, err, "run make kernels")
		require.Equal(t, string(want), string(have), "%s is stale: run make kernels", path)
	}
	version, missing := compilerVersion()
	for _, k := range all {
		have, err := os.ReadFile(filepath.Join(root, k.ptx()))
		require.NoError(t, err, "run make kernels")
		first, _, _ := strings.Cut(string(have), "\n")
		sum, err := k.hash()
		require.NoError(t, err)
		require.Contains(t, first, sum, "%s is stale: run make kernels", k.ptx())
		require.Contains(t, string(have), ".visible .entry "+k.name+"(")
		if missing != nil || !strings.Contains(first, version) {
			t.Logf("%s: only its hash was checked: it says %q, the compiler %q (%v)", k.name, first, version, missing)
			continue
		}
		want, err := k.compile(version)
		require.NoError(t, err)
		require.Equal(t, string(want), string(have), "%s differs from what its source compiles to: run make kernels", k.ptx())
	}
}

// TestPoliciesAreUsed: kernels know each number that a definition has made.
func TestPoliciesAreUsed(t *testing.T) {
	var sources strings.Builder
	for _, k := range kernels(t) {
		for _, path := range k.files {
			if base := filepath.Base(path); base != "functions.h" && base != "aggregates.h" {
				text, err := os.ReadFile(path)
				require.NoError(t, err)
				sources.Write(text)
			}
		}
	}
	for _, k := range abi.Numbered {
		for _, name := range policies()[k] {
			if k != abi.ByStatistic { // whose policies have to be there to be compiled
				require.Regexp(t, `\bk`+name+`\b`, sources.String(), "no kernel computes %s %s", k, name)
			}
		}
	}
}

// TestNoOrphans: every PTX has a source.
func TestNoOrphans(t *testing.T) {
	var want []string
	for _, k := range kernels(t) {
		want = append(want, filepath.Join(root, k.ptx()))
	}
	have, err := filepath.Glob(filepath.Join(root, "kernels/ptx/*.ptx"))
	require.NoError(t, err)
	require.ElementsMatch(t, want, have)
}

// source writes a kernel k and headers to a room of a new folder, and returns the path of k.
func source(t *testing.T, kernel string, headers map[string]string) string {
	room := filepath.Join(t.TempDir(), "room")
	require.NoError(t, os.Mkdir(room, 0o755))
	path := filepath.Join(room, "k.cu")
	require.NoError(t, os.WriteFile(path, []byte(kernel), 0o644))
	for name, text := range headers {
		require.NoError(t, os.WriteFile(filepath.Join(room, name), []byte(text), 0o644))
	}
	return path
}

func TestParse(t *testing.T) {
	k, err := parse("room", source(t, `#include "a.h"
KERNEL MAX_THREADS(128) k(COMMON_PARAMETERS, Flag which,
                          u64* __restrict__ out) {
}`, map[string]string{"a.h": "#include \"b.h\"\n", "b.h": `
#define COMMON_PARAMETERS                   \
  const u8 *__restrict__ slab, u32 count,   \
      const double *__restrict__ values
barrier();`}))
	require.NoError(t, err)
	require.Equal(t, "k", k.name)
	require.True(t, k.waits)
	_, err = parse("room", source(t, "KERNEL other(u32 a) {\n}", nil))
	require.ErrorContains(t, err, "it must have the name of the file")
}

// TestHashSeesHeaders: the hash is another when a header changes that is included by way of
// another, and the same when one changes that is not included.
func TestHashSeesHeaders(t *testing.T) {
	var seen []string
	for _, headers := range []map[string]string{
		{"a.h": "#include \"b.h\"\n", "b.h": "1", "c.h": "1"},
		{"a.h": "#include \"b.h\"\n", "b.h": "2", "c.h": "1"},
		{"a.h": "#include \"b.h\"\n", "b.h": "2", "c.h": "2"},
	} {
		k, err := parse("room", source(t, "#include \"a.h\"\nKERNEL k(u32 a) {\n}", headers))
		require.NoError(t, err)
		sum, err := k.hash()
		require.NoError(t, err)
		seen = append(seen, sum)
	}
	require.Len(t, slices.Compact(seen), 2)
	require.NotEqual(t, seen[0], seen[1])
}

// TestIsFresh: PTX is made anew when its source, or the compiler, is another.
func TestIsFresh(t *testing.T) {
	path := source(t, "KERNEL k(u32 a) {\n}", nil)
	k, err := parse("room", path)
	require.NoError(t, err)
	above := t.TempDir()
	require.False(t, k.isFresh(above, "clang 1"), "there is no PTX")
	sum, err := k.hash()
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(above, "kernels/ptx"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(above, k.ptx()), []byte(stamp(sum, "clang 1")+".version 6.3\n"), 0o644))
	require.True(t, k.isFresh(above, "clang 1"))
	require.False(t, k.isFresh(above, "clang 2"))
	require.NoError(t, os.WriteFile(path, []byte("KERNEL k(u64 a) {\n}"), 0o644))
	require.False(t, k.isFresh(above, "clang 1"))
}

// TestIncludesRunDown: a room includes from itself, from abi, and from rooms before it alone.
func TestIncludesRunDown(t *testing.T) {
	floor := func(path string) int { return slices.Index(rooms, filepath.Base(filepath.Dir(path))) }
	for _, k := range kernels(t) {
		for _, f := range k.files {
			require.LessOrEqual(t, floor(f), floor(k.source), "%s includes %s", k.source, f)
		}
	}
}

// TestOpenings: each kernel opens with what it computes, its grid, what a thread owns, and the
// bytes and operations that this takes.
func TestOpenings(t *testing.T) {
	for _, k := range kernels(t) {
		text, err := os.ReadFile(k.source)
		require.NoError(t, err)
		opening, _, ok := strings.Cut(string(text), "\n#include")
		require.True(t, ok, k.source)
		require.True(t, strings.HasPrefix(opening, "// "+k.name), k.source)
		for _, word := range []string{"computes", "grid", "owns", "bytes", "operations"} {
			require.Contains(t, strings.ToLower(opening), word, k.source)
		}
	}
}
