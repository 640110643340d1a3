package resident

import (
	"slices"
)

// span is a stretch of memory in bytes.
type span struct{ at, size uint64 }

// spans are the free stretches of a piece of memory, by address, none right behind
// another.
type spans []span

// take takes n bytes from the least stretch that has as many.
func (s *spans) take(n uint64) (at uint64, ok bool) {
	best := -1
	for i, f := range *s {
		if f.size >= n && (best < 0 || f.size < (*s)[best].size) {
			best = i
		}
	}
	if best < 0 {
		return 0, false
	}
	f := &(*s)[best]
	at = f.at
	f.at, f.size = f.at+n, f.size-n
	if f.size == 0 {
		*s = slices.Delete(*s, best, best+1)
	}
	return at, true
}

// give gives n bytes back.
func (s *spans) give(at, n uint64) {
	i, _ := slices.BinarySearchFunc(*s, at, func(f span, at uint64) int {
		if f.at < at {
			return -1
		}
		return 1
	})
	before := i > 0 && (*s)[i-1].at+(*s)[i-1].size == at
	behind := i < len(*s) && at+n == (*s)[i].at
	switch {
	case before && behind:
		(*s)[i-1].size += n + (*s)[i].size
		*s = slices.Delete(*s, i, i+1)
	case before:
		(*s)[i-1].size += n
	case behind:
		(*s)[i].at, (*s)[i].size = at, n+(*s)[i].size
	default:
		*s = slices.Insert(*s, i, span{at, n})
	}
}

// total is the number of free bytes.
func (s spans) total() (n uint64) {
	for _, f := range s {
		n += f.size
	}
	return n
}
