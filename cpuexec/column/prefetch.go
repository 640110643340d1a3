package column

import (
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec/decode"
)

const (
	// A step that looks at a few samples of so many, or more, leaves cache lines out.
	prefetchedPerStep = 16
	// mostPrefetched is how many samples are brought nearer at most: with their times 256 KiB where
	// both are packed.
	mostPrefetched = 42_000
)

// Prefetch has memory bring the column that the samples are of nearer to the core, for functions
// that look at a few samples at each of so many steps: these wait for one line of memory after the
// other otherwise, and have work to do on the times before they come to the values.
func (in *Samples) Prefetch(steps int) {
	n, c := in.Times.Known, in.column
	if c == nil || n == 0 || n > prefetchedPerStep*steps {
		return
	}
	n = min(n, mostPrefetched)
	if late := c.runs.Late; late != nil && !in.Times.Several() { // which are looked at once
		prefetch(&late[in.Times.at], n)
	}
	switch {
	case in.Units != nil:
		prefetch(&in.Units[0], n)
	case c.Units == nil:
		prefetch(&in.Values[0], n)
	}
}

// prefetch prefetches n values from first on.
func prefetch[V any](first *V, n int) {
	decode.Prefetch((*byte)(unsafe.Pointer(first)), n*int(unsafe.Sizeof(*first)))
}
