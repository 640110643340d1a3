// Package docs has no code; its tests hold documents against the code.
package docs

import (
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/docs/markdown"
)

const (
	root   = ".."
	module = "github.com/promwarp/promwarp/"
)

// ownModules are the folders that are modules of their own, which may import all others.
var ownModules = []string{"bench", "deploy", "e2e"}

// TestRooms holds the table of rooms in architecture.md against the real imports: each folder
// with Go files is in it, and imports folders behind it alone. Tests may import any.
func TestRooms(t *testing.T) {
	rows := rooms(t)
	found := map[string]bool{}
	for dir, imports := range packages(t) {
		at := slices.Index(rows, dir)
		if !assert(t, at >= 0, "%s/ is not in the table of rooms", dir) {
			continue
		}
		found[rows[at]] = true
		for _, in := range imports {
			assert(t, slices.Index(rows, in) > at, "%s/ imports %s/, which is above it", dir, in)
		}
	}
	for _, r := range rows {
		assert(t, found[r], "%s/ of the table of rooms has no Go files", r)
	}
}

// TestTopFloor bounds the number of folders at the top, so that one can take them in.
func TestTopFloor(t *testing.T) {
	dirs := map[string]bool{}
	walk(t, func(file string) {
		if dir, _, nested := strings.Cut(file, "/"); nested {
			dirs[dir] = true
		}
	})
	require.LessOrEqual(t, len(dirs), 18, slices.Sorted(maps.Keys(dirs)))
}

// The most lines of Go, tests and generated files aside, of a room and of a file.
const (
	mostOfRoom = 2500
	mostOfFile = 600
)

// generated is what Go's tools know generated files by.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

// TestSizes bounds rooms and files, so that one can be read in one go.
func TestSizes(t *testing.T) {
	lines := map[string]int{}
	walk(t, func(file string) {
		top, _, _ := strings.Cut(file, "/")
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || slices.Contains(ownModules, top) {
			return
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		if n := strings.Count(string(text), "\n"); !generated.Match(text) {
			lines[file] = n
			lines[path.Dir(file)] += n
		}
	})
	for name, n := range lines {
		most := mostOfRoom
		if strings.HasSuffix(name, ".go") {
			most = mostOfFile
		}
		assert(t, n <= most, "%s has %d lines, of at most %d", name, n, most)
	}
}

func assert(t *testing.T, ok bool, format string, args ...any) bool {
	if !ok {
		t.Errorf(format, args...)
	}
	return ok
}

// rooms returns the folders of the table in architecture.md, the highest first; a row may have several.
func rooms(t *testing.T) (rows []string) {
	text, err := os.ReadFile("architecture.md")
	require.NoError(t, err)
	_, table, ok := strings.Cut(string(text), "| folder | holds |\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	for row := range strings.Lines(table) {
		for _, m := range regexp.MustCompile("`([a-z0-9/]+)/`").FindAllStringSubmatch(strings.Split(row, "|")[1], -1) {
			rows = append(rows, m[1])
		}
	}
	require.Greater(t, len(rows), 15)
	return rows
}

// packages returns what the Go files of each folder import of this module, tests aside.
func packages(t *testing.T) map[string][]string {
	all := map[string][]string{}
	walk(t, func(file string) {
		dir := path.Dir(file)
		top, _, _ := strings.Cut(dir, "/")
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") || slices.Contains(ownModules, top) {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, parser.ImportsOnly)
		require.NoError(t, err)
		all[dir] = append(all[dir], []string{}...)
		for _, in := range f.Imports {
			name, err := strconv.Unquote(in.Path.Value)
			require.NoError(t, err)
			if name, ours := strings.CutPrefix(name, module); ours && !slices.Contains(all[dir], name) {
				all[dir] = append(all[dir], name)
			}
		}
	})
	require.Greater(t, len(all), 20)
	return all
}

// walk calls f with the path of each file of the project from its root, but for what is hidden
// or built.
func walk(t *testing.T, f func(file string)) {
	require.NoError(t, markdown.Walk(root, f))
}
