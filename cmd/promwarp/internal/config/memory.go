package config

import (
	"fmt"
	"math"

	"github.com/promwarp/promwarp/cmd/promwarp/internal/footprint"
)

// memorySettings bound the memory of the process.
type memorySettings struct {
	// Limit is the memory of the process in bytes; 0 means no bound.
	Limit ByteSize `yaml:"limit"`
}

// unset is a size that follows from the limit of the process.
const unset ByteSize = math.MinInt64

// unknownShare is what a share of the memory is where nobody says how much there is.
const unknownShare = 1 << 30

// defaultLimit is nine tenths of the memory that the program may use; 0 where that is
// unknown.
func defaultLimit() ByteSize {
	if m := footprint.Usable("/"); m < math.MaxInt64 {
		return ByteSize(m / 10 * 9)
	}
	return 0
}

// mostResults is the most memory for results of aggregations where nobody says how much.
const mostResults = 64 << 20

// Divide sets what follows from the limit of the process and was not given: the cache and
// each query may have a quarter, results of aggregations an eighth, up to mostResults.
func (s *Settings) Divide() {
	if s.Memory.Limit == unset {
		s.Memory.Limit = defaultLimit()
	}
	share := s.Memory.Limit / 4
	if share <= 0 {
		share = unknownShare
	}
	for _, size := range []*ByteSize{&s.Cache.HostBytes, &s.Query.MaxMemory} {
		if *size == unset {
			*size = share
		}
	}
	if s.Cache.ResultsBytes == unset {
		s.Cache.ResultsBytes = min(mostResults, share/2)
	}
}

// leastLimit is the least memory that promwarp is of use with.
const leastLimit = 64 << 20

// validate checks what the types cannot say.
func (m memorySettings) validate(c CacheSettings) error {
	switch kept := c.HostBytes + c.ResultsBytes; {
	case m.Limit == 0:
	case m.Limit < leastLimit:
		return fmt.Errorf("memory.limit must be at least %s; 0 sets no limit", ByteSize(leastLimit))
	case kept > m.Limit/4*3:
		return fmt.Errorf("cache.host_bytes and cache.results_bytes come to %s, which is more than three quarters of memory.limit, %s: raise memory.limit, or lower them", kept, m.Limit)
	}
	return nil
}
