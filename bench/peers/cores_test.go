package peers

import (
	"os/exec"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseList(t *testing.T) {
	require.Equal(t, []int{0, 1, 2, 3, 8, 10, 11}, parseList("0-3,8,10-11\n"))
	require.Empty(t, parseList("\n"))
	require.Equal(t, []int{4}, parseList("a-b,4"))
}

// A program gets as many cores as are asked for.
func TestPinned(t *testing.T) {
	order, err := spread()
	require.NoError(t, err)
	require.Len(t, order, runtime.NumCPU())
	program := Program{Path: "grep"}
	_, err = pinned(program.On(len(order) + 1))
	require.ErrorContains(t, err, "cores are asked for")
	command, err := pinned(program)
	require.NoError(t, err)
	require.Equal(t, []string{"grep"}, command)
	command, err = pinned(program.On(1))
	require.NoError(t, err)
	out, err := exec.Command(command[0], append(command[1:], "^Cpus_allowed_list:", "/proc/self/status")...).Output()
	require.NoError(t, err)
	require.Regexp(t, `^Cpus_allowed_list:\s*\d+\n$`, string(out))
}
