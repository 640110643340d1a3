package backtest

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"
	"time"
	"unsafe"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/plan"
)

// Retained keeps results of expressions for some minutes, for requests that try the same rule otherwise.
// They take a bounded part of memory that no request needs; what was asked for longest ago makes room.
type Retained struct {
	pool *memory.Pool
	most int64 // bytes

	mu    sync.Mutex
	bytes int64
	byKey *simplelru.LRU[string, *retained]
}

// retained is one result.
type retained struct {
	rows []plan.Row
	said annotations.Annotations
	size int64
}

// retainedFor is how long results are kept: as long as one moves sliders.
const retainedFor = 5 * time.Minute

// Results take at most a sixteenth of the memory of the process, or mostRetained if that has no limit.
const (
	retainedShare = 16
	mostRetained  = 256 << 20
)

// NewRetained keeps results in the memory of a process.
func NewRetained(pool *memory.Pool) *Retained {
	r := &Retained{pool: pool, most: cmp.Or(pool.Limit()/retainedShare, mostRetained)}
	r.byKey, _ = simplelru.NewLRU(math.MaxInt, func(_ string, e *retained) { r.bytes -= e.size }) // bytes are bounded
	return r
}

// Get returns what is kept by a key, which must not be changed, with what was said of it.
func (r *Retained) Get(key string) ([]plan.Row, annotations.Annotations, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e, ok := r.byKey.Get(key); ok {
		return e.rows, e.said, true
	}
	return nil, nil, false
}

// Keep keeps a copy of rows, if there is room, and returns that or the rows.
func (r *Retained) Keep(key string, rows []plan.Row, said annotations.Annotations) []plan.Row {
	size, n := int64(len(key)), 0
	for i := range rows {
		n += len(rows[i].Values)
		size += int64(8*len(rows[i].Values)+8*len(rows[i].Runs)+len(rows[i].Labels.String())) + int64(unsafe.Sizeof(rows[i]))
	}
	if size > r.most || !r.pool.Spare(memory.Evaluation, size) {
		return rows
	}
	values := make([]float64, 0, max(n, 1))
	// The copy counts as long as a request reads it.
	runtime.AddCleanup(&values[:1][0], func(pool *memory.Pool) { pool.Count(memory.Evaluation, -size) }, r.pool)
	e := &retained{rows: make([]plan.Row, len(rows)), said: said, size: size}
	for i, row := range rows {
		values = append(values, row.Values...)
		e.rows[i] = plan.Row{Labels: row.Labels.Copy(), Values: values[len(values)-len(row.Values):], Runs: slices.Clone(row.Runs)}
	}
	time.AfterFunc(retainedFor, func() { r.forget(key) }) // with the result itself it would keep that
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byKey.Remove(key)
	r.byKey.Add(key, e)
	for r.bytes += size; r.bytes > r.most; {
		r.byKey.RemoveOldest()
	}
	return e.rows
}

// forget forgets a result, or one that was evaluated again meanwhile.
func (r *Retained) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byKey.Remove(key)
}

// Clear forgets all.
func (r *Retained) Clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byKey.Purge()
}
