package disk

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/promwarp/promwarp/internal/refcount"
)

// mapping is a mapped file. It is unmapped some time after the last slab that
// refers to it has become unreachable.
type mapping struct{ b []byte }

// mappings are the mapped files of a store.
//
// That no slab refers to a file any more does not mean that nobody reads it: of
// a slab's bytes there may be slices. But those are held only by readers, who
// say when they begin and when they have ended. So a file that is no longer
// referred to is unmapped when every reader that had begun by then has ended.
type mappings struct {
	bytes atomic.Int64 // mapped at present

	mu sync.Mutex
	// era counts the readers that began since a file was last let go, and the
	// eras before that have not ended. At its end those files are unmapped.
	era *refcount.Count
}

func newMappings() *mappings { return &mappings{era: refcount.New(nil)} }

// add takes charge of mapped memory.
func (m *mappings) add(b []byte) *mapping {
	m.bytes.Add(int64(len(b)))
	f := &mapping{b: b}
	runtime.AddCleanup(f, m.retire, b)
	return f
}

// enter begins a reader. leave ends it.
func (m *mappings) enter() (leave func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	era := m.era
	era.Hold()
	return sync.OnceFunc(era.Release)
}

// retire unmaps b when the readers of now have ended.
func (m *mappings) retire(b []byte) {
	m.mu.Lock()
	old := m.era
	m.era = refcount.New(nil)
	next := m.era
	next.Hold() // until the old era has ended
	m.mu.Unlock()
	old.OnClose(func() {
		_ = unmap(b)
		m.bytes.Add(-int64(len(b)))
		next.Release()
	})
	old.Release() // the mappings' own hold
}
