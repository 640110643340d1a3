package peers

import (
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// allowed is how many cores the calling thread may run on.
func allowed(t *testing.T) int {
	t.Helper()
	var set unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &set))
	return set.Count()
}

func TestParseList(t *testing.T) {
	require.Equal(t, []int{0, 1, 2, 3, 8, 10, 11}, parseList("0-3,8,10-11\n"))
	require.Empty(t, parseList("\n"))
	require.Equal(t, []int{4}, parseList("a-b,4"))
}

func TestSpread(t *testing.T) {
	var all unix.CPUSet
	require.NoError(t, unix.SchedGetaffinity(0, &all))
	order := spread(&all)
	require.Len(t, order, runtime.NumCPU())
	require.ErrorContains(t, onCores(len(order)+1, exec.Command("true").Start), "cores are asked for")
}

// This program keeps its cores when it has started another on one.
func TestOnCores(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := allowed(t)
	one := exec.Command("grep", "^Cpus_allowed_list:", "/proc/self/status")
	var out strings.Builder
	one.Stdout = &out
	require.NoError(t, onCores(1, one.Start))
	require.NoError(t, one.Wait())
	require.Regexp(t, `^Cpus_allowed_list:\s*\d+\n$`, out.String())
	require.Equal(t, before, allowed(t))
}
