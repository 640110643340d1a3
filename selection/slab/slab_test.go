package slab

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestPageLock: large slabs are locked when they are made, and unlocked once
// they are not referred to, even where their bytes still are.
func TestPageLock(t *testing.T) {
	var locked int
	unlocked := make(chan int, 100)
	PageLock(func(memory []byte) func() {
		require.Equal(t, len(memory), cap(memory))
		require.GreaterOrEqual(t, len(memory), leastLocked)
		if locked++; locked == 2 {
			return nil // one that cannot be
		}
		memory[len(memory)-1] = 1
		return func() { unlocked <- len(memory) }
	})
	defer PageLock(nil)
	w := NewWriter(0, 0)
	var last Chunk
	for range 60 {
		w.Room(60_000)[:2][1] = 1
		require.NoError(t, w.Claim(last, 60_000))
	}
	last = w.Chunks[len(w.Chunks)-1]
	slabs := w.Slabs()
	marked := 0
	for _, l := range slabs {
		if l.PageLocked() {
			marked++
		}
	}
	require.Positive(t, marked)
	require.Equal(t, locked-1, marked)
	held := slabs.Bytes(last)
	runtime.GC()
	require.Empty(t, unlocked)
	runtime.KeepAlive(slabs)
	slabs, w = nil, Writer{}
	for range marked {
		for waiting := true; waiting; {
			runtime.GC()
			select {
			case <-unlocked:
				waiting = false
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	require.Equal(t, byte(1), held[1])
}

// TestExpect: what comes as expected lies in slabs and a table of about its size, and what comes beyond
// it, or without having been expected, in slabs of which a third is unused at most.
func TestExpect(t *testing.T) {
	const size = 500
	for name, c := range map[string]struct{ expected, come, slabs int }{
		"as expected": {3000, 3000, 1}, "some less": {3000, 2900, 1}, "some more": {3000, 3500, 3}, "many": {30_000, 30_000, 4},
		"not expected": {0, 3000, 12},
	} {
		t.Run(name, func(t *testing.T) {
			w := NewWriter(0, 0)
			w.Expect(c.expected, c.expected*size)
			before := cap(w.Chunks)
			for range c.come {
				w.Room(size)
				require.NoError(t, w.Claim(Chunk{}, size))
			}
			require.Len(t, w.Slabs(), c.slabs)
			if c.come <= c.expected {
				require.Equal(t, before, cap(w.Chunks))
			}
			all := 0
			for _, l := range w.Slabs() {
				all += cap(l.b)
			}
			require.LessOrEqual(t, all, c.come*size*3/2)
		})
	}
}
