package selection

import (
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

// TestPageLockSlabs: large slabs are locked when they are made, and unlocked once
// no selection has them, whoever still holds their bytes.
func TestPageLockSlabs(t *testing.T) {
	var locked int
	unlocked := make(chan int, 100)
	PageLockSlabs(func(memory []byte) func() {
		require.Equal(t, len(memory), cap(memory))
		require.GreaterOrEqual(t, len(memory), leastLocked)
		if locked++; locked == 2 {
			return nil // one that cannot be
		}
		memory[len(memory)-1] = 1
		return func() { unlocked <- len(memory) }
	})
	defer PageLockSlabs(nil)
	b := NewBuilder(0)
	b.Series(labels.FromStrings("a", "b"))
	data := make([]byte, 60_000)
	data[1] = 1 // sample
	for i := range int64(60) {
		require.NoError(t, b.Chunk(chunkenc.EncXOR, i*10, i*10+9, data))
	}
	sel, err := b.Finish()
	require.NoError(t, err)
	marked := 0
	for k := range sel.NumSlabs() {
		if sel.Slab(k).PageLocked() {
			marked++
		}
	}
	require.Positive(t, marked)
	require.Equal(t, locked-1, marked)
	held := sel.Bytes(sel.Chunks(0)[59])
	runtime.GC()
	require.Empty(t, unlocked)
	runtime.KeepAlive(sel)
	sel = nil
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
