package main

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
)

// defaultHostBytes is how much the cache keeps in memory when nothing says
// otherwise: a quarter of the memory that the program may use, or 1 GiB where
// that is unknown.
func defaultHostBytes() int64 {
	const unknown = 1 << 30
	if m := usableMemory("/"); m < math.MaxInt64 {
		return m / 4
	}
	return unknown
}

// usableMemory is the least of the machine's memory, the control group's limit
// and the Go runtime's; math.MaxInt64 where none is known. root is where proc
// and sys are mounted.
func usableMemory(root string) int64 {
	least := debug.SetMemoryLimit(-1)
	for _, f := range []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if b, err := os.ReadFile(root + f); err == nil {
			if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
				least = min(least, n)
			}
		}
	}
	if b, err := os.ReadFile(root + "proc/meminfo"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 && f[0] == "MemTotal:" {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				least = min(least, n<<10)
			}
		}
	}
	return least
}
