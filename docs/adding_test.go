package docs

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAddingAFunction does what CONTRIBUTING.md says of adding a function, in a copy of the tree: it
// applies the change that is shown there, makes what is generated, and has the tests of both executors run
// the function; that nothing above them has a list of functions is TestNamesOfFunctions'. PTX is made where
// there is a compiler for it. Tests are built of the tree with the copy's files overlaid, so that what the
// change leaves alone is not built again.
func TestAddingAFunction(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the kernels, for half a minute")
	}
	t.Setenv("GOGC", "400") // of compilers
	const name = "change"
	dir := copyTree(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "change.diff"), []byte(shownChange(t)), 0o644))
	run(t, dir, "git", "apply", "change.diff")
	makes := filepath.Join(t.TempDir(), "build")
	run(t, root, "go", "build", "-overlay", overlay(t, dir), "-o", makes, "./kernels/build")
	if _, err := exec.LookPath("clang-19"); err == nil {
		before := read(t, dir, "kernels/ptx/run_rows.ptx")
		run(t, dir, makes)
		require.NotEqual(t, before, read(t, dir, "kernels/ptx/run_rows.ptx"))
	} else {
		run(t, dir, makes, "-noptx")
	}
	require.Contains(t, read(t, dir, "kernels/abi/aggregates.h"), "kChangeOf")
	files := overlay(t, dir)
	run(t, dir, "make", "-s", "hostdriver", "HOST_SPEED=-O0") // half of the time to compile
	t.Setenv("PROMWARP_CUDA_LIBRARY", filepath.Join(dir, ".build/libcuda-host.so"))
	test := func(room string, args ...string) string {
		bin := filepath.Join(t.TempDir(), "test")
		run(t, root, "go", "test", "-c", "-ldflags=-s -w", "-overlay", files, "-o", bin, "./"+room)
		return run(t, filepath.Join(dir, room), append([]string{bin, "-test.short", "-test.v"}, args...)...)
	}
	test("docs", "-test.run", "TestFunctions|TestSides", "-update")
	require.Contains(t, read(t, dir, "docs/functions.md"), "`"+name+"`")
	for _, room := range []string{"resample", "gpuexec"} {
		said := test(room, "-test.run", "TestEveryAggregate/"+name+"$|TestDocument")
		require.Contains(t, said, "--- PASS: TestEveryAggregate/"+name+" ", room)
	}
}

// overlay writes what go build is to read a copy's files by that the tree has otherwise or not, and
// returns its path.
func overlay(t *testing.T, dir string) string {
	above, err := filepath.Abs(root)
	require.NoError(t, err)
	replace := map[string]string{}
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		below, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		have, err := os.ReadFile(filepath.Join(above, below))
		if err != nil || string(have) != read(t, dir, below) {
			replace[filepath.Join(above, below)] = path
		}
		return nil
	}))
	require.NotEmpty(t, replace)
	text, err := json.Marshal(map[string]any{"Replace": replace})
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(file, text, 0o644))
	return file
}

// shownChange is the change that CONTRIBUTING.md shows.
func shownChange(t *testing.T) string {
	_, after, ok := strings.Cut(read(t, root, "CONTRIBUTING.md"), "```diff\n")
	require.True(t, ok)
	change, _, ok := strings.Cut(after, "```\n")
	require.True(t, ok)
	return change
}

// copyTree copies all files that git knows, and new ones that it does not ignore, to a new folder.
func copyTree(t *testing.T) (dir string) {
	dir = t.TempDir()
	for _, name := range strings.Split(run(t, root, "git", "ls-files", "--cached", "--others", "--exclude-standard"), "\n") {
		info, err := os.Stat(filepath.Join(root, name))
		if name == "" || os.IsNotExist(err) { // deleted
			continue
		}
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(read(t, root, name)), info.Mode()))
	}
	return dir
}

func read(t *testing.T, dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	return string(text)
}

func run(t *testing.T, dir string, command ...string) string {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%v: %s", command, out)
	return string(out)
}
