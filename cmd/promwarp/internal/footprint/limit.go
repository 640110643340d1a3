// Package footprint keeps the process to its memory: the limit, the pool that requests share, how
// far the heap may grow, and what is given back to the system. Start reading at NewPool.
package footprint

import (
	"os"
	"runtime/debug"
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
