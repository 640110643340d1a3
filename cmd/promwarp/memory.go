package main

import (
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/promwarp/promwarp/internal/memory"
)

// memorySettings bound the memory of the process.
type memorySettings struct {
	// Limit is the memory of the process in bytes; 0 means no bound.
	Limit byteSize `yaml:"limit"`
}

// unset is a size that follows from the limit of the process.
const unset byteSize = -1

// unknownShare is what a share of the memory is where nobody says how much there is.
const unknownShare = 1 << 30

// defaultLimit is nine tenths of the memory that the program may use; 0 where that is
// unknown.
func defaultLimit() byteSize {
	if m := usableMemory("/"); m < math.MaxInt64 {
		return byteSize(m / 10 * 9)
	}
	return 0
}

// divide sets what follows from the limit of the process and was not given: the cache and
// each query may have a quarter.
func (s *settings) divide() {
	if s.Memory.Limit == unset {
		s.Memory.Limit = defaultLimit()
	}
	share := s.Memory.Limit / 4
	if share <= 0 {
		share = unknownShare
	}
	for _, size := range []*byteSize{&s.Cache.HostBytes, &s.Query.MaxMemory} {
		if *size == unset {
			*size = share
		}
	}
}

// leastLimit is the least memory that promwarp is of use with.
const leastLimit = 64 << 20

// validate checks what the types cannot say.
func (m memorySettings) validate(c cacheSettings) error {
	switch kept := c.HostBytes + c.ResultsBytes; {
	case m.Limit == 0:
	case m.Limit < leastLimit:
		return fmt.Errorf("memory.limit must be at least %s; 0 sets no limit", byteSize(leastLimit))
	case kept > m.Limit/4*3:
		return fmt.Errorf("cache.host_bytes and cache.results_bytes come to %s, which is more than three quarters of memory.limit, %s: raise memory.limit, or lower them", kept, m.Limit)
	}
	return nil
}

// What makes room when requests lack memory, in this order: decoded columns cost decoding
// when they are asked for again, tiles cost a fetch or reading from disk.
const (
	reclaimDecoded = iota
	reclaimTiles
)

// startLimit is the memory limit that the program was started with.
var startLimit = debug.SetMemoryLimit(-1)

// limitMemory has the process keep to limit, 0 for none, and the pool that its requests
// share, if there is one, too.
func limitMemory(pool *memory.Pool, limit byteSize) {
	if pool != nil {
		pool.SetLimit(int64(limit))
	}
	most := startLimit
	if limit > 0 {
		most = min(most, int64(limit))
	}
	debug.SetMemoryLimit(most)
}

// usableMemory is the least of the machine's memory, the control group's limit
// and the Go runtime's; math.MaxInt64 where none is known. root is where proc
// and sys are mounted.
func usableMemory(root string) int64 {
	least := startLimit
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
