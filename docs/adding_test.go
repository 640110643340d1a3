package docs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAddingAFunction does what CONTRIBUTING.md says of adding a function, in a copy of the tree: it
// applies the change that is shown there, makes what is generated, and has the tests of both
// executors run the function. PTX is made where there is a compiler for it.
func TestAddingAFunction(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the kernels, for a minute")
	}
	const name = "spread_over_time"
	dir := copyTree(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "change.diff"), []byte(shownChange(t)), 0o644))
	run(t, dir, "git", "apply", "change.diff")
	if _, err := exec.LookPath("clang-19"); err == nil {
		before := read(t, dir, "kernels/ptx/window_statistic.ptx")
		run(t, dir, "go", "run", "./kernels/build")
		require.NotEqual(t, before, read(t, dir, "kernels/ptx/window_statistic.ptx"))
	} else {
		run(t, dir, "go", "run", "./kernels/build", "-noptx")
	}
	require.Contains(t, read(t, dir, "kernels/abi/functions.h"), "kSpread")
	run(t, dir, "go", "test", "./docs", "-run", "TestFunctions|TestSides", "-update")
	require.Contains(t, read(t, dir, "docs/functions.md"), name)
	for _, c := range []struct{ tests, pattern, passes string }{
		{"./planner", "TestEveryFunction/" + name, "TestEveryFunction/" + name},
		{"./cpuexec/window", "TestPlain/" + name, "TestPlain/" + name},
		{"./gpuexec", "TestExecutor/.*_" + name, "TestExecutor/1_" + name},
	} {
		said := run(t, dir, "go", "test", "-short", "-v", c.tests, "-run", c.pattern)
		require.Contains(t, said, "--- PASS: "+c.passes+" ", c.tests)
	}
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
