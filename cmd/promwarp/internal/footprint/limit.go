// Package footprint keeps the process to its memory: the limit, the pool that requests share, how
// far the heap may grow, and what is given back to the system. Start reading at NewPool.
package footprint

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/promwarp/promwarp/internal/memory"
)

// startLimit is the memory limit that the program was started with.
var startLimit = debug.SetMemoryLimit(-1)

// Limit has the process keep to limit, 0 for none, and the pool that its requests
// share, if there is one, too.
func Limit(pool *memory.Pool, limit int64) {
	if pool != nil {
		pool.SetLimit(limit)
	}
	most := startLimit
	if limit > 0 {
		most = min(most, limit)
	}
	debug.SetMemoryLimit(most)
}

// Usable is the least of the machine's memory, the limits of the process's control groups and the
// Go runtime's; math.MaxInt64 where none is known. root is where proc and sys are mounted.
func Usable(root string) int64 {
	least := min(startLimit, groupLimit(root))
	if b, err := os.ReadFile(root + "proc/meminfo"); err == nil {
		if f := strings.Fields(string(b)); len(f) > 1 && f[0] == "MemTotal:" {
			if n, err := strconv.ParseInt(f[1], 10, 64); err == nil {
				least = min(least, n<<10)
			}
		}
	}
	return least
}

// hierarchies are where control groups that bound memory are mounted, and the files that have their
// limits: of version 2, of version 2 beside version 1, and of version 1. memory.high kills nothing,
// but above it the kernel slows the process down.
var hierarchies = []struct {
	controller string // as /proc/self/cgroup names it, nothing for version 2
	mount      string
	files      []string
}{
	{"", "sys/fs/cgroup", []string{"memory.max", "memory.high"}},
	{"", "sys/fs/cgroup/unified", []string{"memory.max", "memory.high"}},
	{"memory", "sys/fs/cgroup/memory", []string{"memory.limit_in_bytes"}},
}

// groupLimit is the least limit of the process's control groups and of all above them, in bytes;
// math.MaxInt64 where there is none. systemd makes a group of each unit, and slices above it have
// limits, too. In a container the group's name may be that on the host: what is mounted is then the
// container's group itself.
func groupLimit(root string) int64 {
	least := int64(math.MaxInt64)
	groups := groupsOf(root)
	for _, h := range hierarchies {
		for dir := path.Clean("/" + groups[h.controller]); ; dir = path.Dir(dir) {
			for _, file := range h.files {
				least = min(least, limitIn(root+h.mount+path.Join(dir, file)))
			}
			if dir == "/" {
				break
			}
		}
	}
	return least
}

// groupsOf are the names of the process's control groups by controller.
func groupsOf(root string) map[string]string {
	groups := map[string]string{}
	text, _ := os.ReadFile(root + "proc/self/cgroup")
	for line := range strings.Lines(string(text)) {
		// Such as 0::/system.slice/promwarp.service, or 4:cpu,memory:/docker/abc.
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(f) < 3:
		case f[0] == "0":
			groups[""] = f[2]
		case slices.Contains(strings.Split(f[1], ","), "memory"):
			groups["memory"] = f[2]
		}
	}
	return groups
}

// limitIn is the limit that a file has; math.MaxInt64 where it is not there, or has none.
func limitIn(file string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil || n <= 0 {
		return math.MaxInt64 // it says max
	}
	return n
}
