package footprint

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUsableMemory(t *testing.T) {
	root := t.TempDir() + "/"
	put := func(name, text string) {
		require.NoError(t, os.MkdirAll(filepath.Dir(root+name), 0o777))
		require.NoError(t, os.WriteFile(root+name, []byte(text), 0o666))
	}
	unknown := Usable(root)
	put("proc/meminfo", "MemTotal:       4096 kB\nMemFree: 1 kB\n")
	require.Equal(t, int64(4096<<10), Usable(root))
	put("sys/fs/cgroup/memory.max", "max\n")
	require.Equal(t, int64(4096<<10), Usable(root))
	put("sys/fs/cgroup/memory.max", "1048576\n")
	require.Equal(t, int64(1<<20), Usable(root))
	require.Greater(t, unknown, int64(1<<20))
}
