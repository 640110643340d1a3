package footprint

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/internal/memory"
)

// tree writes files below a new folder, and returns it as a root.
func tree(t *testing.T, files map[string]string) string {
	root := t.TempDir() + "/"
	for name, text := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(root+name), 0o777))
		require.NoError(t, os.WriteFile(root+name, []byte(text+"\n"), 0o666))
	}
	return root
}

// TestUsable: the least limit counts, of whom it ever is.
func TestUsable(t *testing.T) {
	const (
		machine = 4096 << 10
		group   = "0::/system.slice/promwarp.service"
		unit    = "sys/fs/cgroup/system.slice/promwarp.service/"
	)
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no group":            {nil, machine},
		"no limit":            {map[string]string{"proc/self/cgroup": group, unit + "memory.max": "max", unit + "memory.high": "max"}, machine},
		"MemoryMax":           {map[string]string{"proc/self/cgroup": group, unit + "memory.max": "1048576", unit + "memory.high": "max"}, 1 << 20},
		"MemoryHigh below":    {map[string]string{"proc/self/cgroup": group, unit + "memory.max": "1048576", unit + "memory.high": "524288"}, 1 << 19},
		"its slice":           {map[string]string{"proc/self/cgroup": group, unit + "memory.max": "1048576", "sys/fs/cgroup/system.slice/memory.max": "65536"}, 1 << 16},
		"more than there is":  {map[string]string{"proc/self/cgroup": group, unit + "memory.max": "1099511627776"}, machine},
		"another unit's":      {map[string]string{"proc/self/cgroup": group, "sys/fs/cgroup/system.slice/other.service/memory.max": "1"}, machine},
		"container":           {map[string]string{"proc/self/cgroup": "0::/", "sys/fs/cgroup/memory.max": "1048576"}, 1 << 20},
		"container, no proc":  {map[string]string{"sys/fs/cgroup/memory.max": "1048576"}, 1 << 20},
		"container, outside":  {map[string]string{"proc/self/cgroup": "0::/../../docker/abc", "sys/fs/cgroup/memory.max": "1048576"}, 1 << 20},
		"version 1":           {map[string]string{"proc/self/cgroup": "12:cpu,cpuacct:/a\n4:memory:/b\n0::/c", "sys/fs/cgroup/memory/b/memory.limit_in_bytes": "1048576"}, 1 << 20},
		"version 1, no limit": {map[string]string{"proc/self/cgroup": "4:memory:/b", "sys/fs/cgroup/memory/b/memory.limit_in_bytes": "9223372036854771712"}, machine},
		"version 1, host's":   {map[string]string{"proc/self/cgroup": "4:memory:/docker/abc", "sys/fs/cgroup/memory/memory.limit_in_bytes": "1048576"}, 1 << 20},
		"both versions":       {map[string]string{"proc/self/cgroup": "0::/a", "sys/fs/cgroup/unified/a/memory.max": "1048576"}, 1 << 20},
		"nonsense":            {map[string]string{"proc/self/cgroup": "what\n0:", "sys/fs/cgroup/memory.max": "-1"}, machine},
	} {
		t.Run(name, func(t *testing.T) {
			root := tree(t, c.files)
			require.NoError(t, os.MkdirAll(root+"proc", 0o777))
			require.NoError(t, os.WriteFile(root+"proc/meminfo", []byte("MemTotal:       4096 kB\nMemFree: 1 kB\n"), 0o666))
			require.Equal(t, c.want, Usable(root))
		})
	}
	require.Equal(t, startLimit, Usable(t.TempDir()+"/"), "nobody says")
}

func TestCollectPercent(t *testing.T) {
	require.Equal(t, 1600, collectPercent(0))
	require.Equal(t, 1600, collectPercent(4<<20))
	require.Equal(t, 640, collectPercent(10<<20))
	require.Equal(t, 200, collectPercent(32<<20))
	require.Equal(t, 64, collectPercent(100<<20))
	require.Equal(t, 25, collectPercent(10<<30))
}

// TestReturn: memory is given back 2 s after the last request where more is free than in use, otherwise
// after 15 s, and not while requests come.
func TestReturn(t *testing.T) {
	touched := func(size int) []byte { return bytes.Repeat([]byte{1}, size) }
	held := func() int { _, held := heapInUse(); return int(held >> 20) }
	synctest.Test(t, func(t *testing.T) {
		pool := memory.New(memory.Options{Limit: 1 << 30})
		go Return(t.Context(), pool)
		for range 4 {
			pool.Lease(memory.Evaluation)
			touched(256 << 20)
			time.Sleep(1500 * time.Millisecond)
			require.Greater(t, held(), 200, "requests come")
		}
		time.Sleep(2 * time.Second)
		require.Less(t, held(), 100, "much is free")

		kept := touched(256 << 20)
		pool.Lease(memory.Evaluation)
		touched(128 << 20)
		time.Sleep(14 * time.Second)
		require.Greater(t, held(), 300, "less is free than is in use")
		time.Sleep(3 * time.Second)
		require.Less(t, held(), 300, "it is given back late")
		runtime.KeepAlive(kept)
	})
}

func TestPaceCollector(t *testing.T) {
	t.Setenv("GOGC", "")
	before := debug.SetGCPercent(100)
	defer debug.SetGCPercent(before)
	kept := make([]byte, 1<<30)
	debug.FreeOSMemory()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { PaceCollector(ctx); close(done) }()
	percent := func() int {
		p := debug.SetGCPercent(100)
		debug.SetGCPercent(p)
		return p
	}
	require.Eventually(t, func() bool { return percent() == 25 }, 5*time.Second, 10*time.Millisecond)
	cancel()
	<-done
	require.Len(t, kept, 1<<30)

	t.Setenv("GOGC", "50")
	debug.SetGCPercent(50)
	PaceCollector(t.Context()) // leaves it alone
	require.Equal(t, 50, percent())
}
