package footprint

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/selection/slab"
)

// NewPool makes the pool that everything which depends on requests shares, nil if there is
// no limit. What selections take is counted in it from now on.
func NewPool(limit int64) *memory.Pool {
	if limit <= 0 {
		return nil
	}
	pool := memory.New(memory.Options{Limit: limit})
	slab.CountMemory(func(n int64) { pool.Count(memory.Fetched, n) })
	pool.Watch("page_locked", cuda.HostBytes)
	Limit(pool, limit)
	return pool
}

// Register registers metrics of a pool, if there is one.
func Register(pool *memory.Pool, reg prometheus.Registerer) {
	if pool != nil {
		reg.MustRegister(memoryCollector{pool})
	}
}

// EndCounting ends the counting of what selections take in a pool, if there is one.
func EndCounting(pool *memory.Pool) {
	if pool != nil {
		slab.CountMemory(nil)
	}
}

// memoryCollector shows what memory is taken for. The parts come to the memory of the
// process that is no file's.
type memoryCollector struct{ pool *memory.Pool }

var (
	memoryLimit     = prometheus.NewDesc("promwarp_memory_limit_bytes", "Memory of the process that --memory.limit allows, in bytes.", nil, nil)
	memoryParts     = prometheus.NewDesc("promwarp_memory_bytes", "Memory of the process in bytes, by what it is for: what requests and caches take, and of the Go runtime's the rest of the heap (garbage, and what nobody counts), free memory that was not given back, stacks and the runtime's own.", []string{"part"}, nil)
	memoryReclaimed = prometheus.NewDesc("promwarp_memory_reclaimed_bytes_total", "Bytes of the cache's memory that gave way to requests that lacked memory.", nil, nil)
	memoryRefused   = prometheus.NewDesc("promwarp_memory_refused_total", "Requests for memory that were refused, by what they were for.", []string{"part"}, nil)
)

func (memoryCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- memoryLimit
	ch <- memoryParts
	ch <- memoryReclaimed
	ch <- memoryRefused
}

func (c memoryCollector) Collect(ch chan<- prometheus.Metric) {
	parts := c.pool.Parts()
	heap, rest := runtimeMemory()
	heap += cuda.HostBytes() // a part that is not on the heap
	for _, n := range parts {
		heap -= n
	}
	rest["heap_other"] = max(heap, 0)
	for part, n := range rest {
		parts[part] = n
	}
	for part, n := range parts {
		ch <- prometheus.MustNewConstMetric(memoryParts, prometheus.GaugeValue, float64(n), part)
	}
	for part, n := range c.pool.Refused() {
		ch <- prometheus.MustNewConstMetric(memoryRefused, prometheus.CounterValue, float64(n), part)
	}
	ch <- prometheus.MustNewConstMetric(memoryReclaimed, prometheus.CounterValue, float64(c.pool.Reclaimed()))
	ch <- prometheus.MustNewConstMetric(memoryLimit, prometheus.GaugeValue, float64(c.pool.Limit()))
}

// runtimeMemory is what the Go runtime holds, in bytes: objects on the heap, dead ones that
// were not swept among them, and the rest by kind.
func runtimeMemory() (objects int64, rest map[string]int64) {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	at := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	rest = map[string]int64{"heap_free": at(1) + at(2), "stacks": at(3)}
	rest["runtime"] = max(at(4)-at(5)-at(0)-rest["heap_free"]-rest["stacks"], 0)
	return at(0), rest
}

// Memory is given back to the system where nobody asks for anything, or where much of it
// has been of no use for a while: the runtime does so by itself, but only little by little.
// While queries come the buffers that they use again are worth more than the memory.
const (
	idleLook  = 5 * time.Second
	idleLooks = 3        // that find it of no use, one after the other
	idleLeast = 64 << 20 // bytes that are worth giving back
	busyShare = 8        // of the limit, an eighth, that is given back while queries come
)

// Return gives memory back to the system until ctx ends. The pool may be nil.
func Return(ctx context.Context, pool *memory.Pool) {
	tick := time.NewTicker(idleLook)
	defer tick.Stop()
	idle, asked := 0, int64(0)
	var last collection
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		least := int64(idleLeast)
		if now := pool.Uses(); now != asked {
			asked = now
			least = max(least, pool.Limit()/busyShare)
		}
		if last.look(asked) {
			runtime.GC()
		}
		if !wasteful(least) {
			idle = 0
			continue
		}
		if idle++; idle == idleLooks {
			idle = 0
			runtime.GC() // pools of buffers survive one collection
			debug.FreeOSMemory()
		}
	}
}

// collection is what is known of the last collection of garbage.
type collection struct {
	cycle  uint64
	uses   int64 // of the pool before it
	latest int64 // uses at the last look
	looks  int   // since it
}

// look reports whether one is due: what queries left behind shows as garbage after a
// collection, and a process that has little to do makes one every two minutes only.
func (c *collection) look(uses int64) bool {
	cycle := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(cycle)
	if n := cycle[0].Value.Uint64(); n != c.cycle {
		*c = collection{cycle: n, uses: c.latest}
	}
	c.looks++
	c.latest = uses
	return c.looks > idleLooks && uses != c.uses
}

// wasteful reports whether more than a fifth of the runtime's memory, and more than least
// bytes, is neither in use nor given back, or was garbage at the last collection.
func wasteful(least int64) bool {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	objects, rest := runtimeMemory()
	inUse := int64(live[0].Value.Uint64())
	spare := rest["heap_free"] + max(objects-inUse, 0)
	return spare > least && spare > (objects+rest["heap_free"])/5
}
