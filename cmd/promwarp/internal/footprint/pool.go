package footprint

import (
	"context"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/gpuexec/cuda"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/selection/slab"
)

// NewPool makes the pool that everything which depends on requests shares, nil if there is
// no limit, and registers its metrics. What selections take is counted in it from now on.
func NewPool(limit int64, reg prometheus.Registerer) *memory.Pool {
	if limit <= 0 {
		return nil
	}
	pool := memory.New(memory.Options{Limit: limit})
	slab.CountMemory(func(n int64) { pool.Count(memory.Fetched, n) })
	pool.Watch("page_locked", cuda.HostBytes.Load)
	Limit(pool, limit)
	f := instrument.With(reg)
	f.GaugeOf("promwarp_memory_limit_bytes", "Memory of the process that --memory.limit allows, in bytes.", func() float64 { return float64(pool.Limit()) })
	f.CounterOf("promwarp_memory_reclaimed_bytes_total", "Bytes of the cache's memory that gave way to requests that lacked memory.", func() float64 { return float64(pool.Reclaimed()) })
	reg.MustRegister(memoryCollector{pool})
	return pool
}

// memoryCollector shows what memory is taken for. The parts come to the memory of the
// process that is no file's.
type memoryCollector struct{ pool *memory.Pool }

var (
	memoryParts   = prometheus.NewDesc("promwarp_memory_bytes", "Memory of the process in bytes, by what it is for: what requests and caches take, and of the Go runtime's the rest of the heap (garbage, and what nobody counts), free memory that was not given back, stacks and the runtime's own.", []string{"part"}, nil)
	memoryRefused = prometheus.NewDesc("promwarp_memory_refused_total", "Requests for memory that were refused, by what they were for.", []string{"part"}, nil)
)

func (memoryCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- memoryParts
	ch <- memoryRefused
}

func (c memoryCollector) Collect(ch chan<- prometheus.Metric) {
	parts := c.pool.Parts()
	heap, rest := runtimeMemory()
	heap += cuda.HostBytes.Load() // a part that is not on the heap
	for _, n := range parts {
		heap -= n
	}
	rest["heap_other"] = max(heap, 0)
	maps.Copy(parts, rest)
	for part, n := range parts {
		ch <- prometheus.MustNewConstMetric(memoryParts, prometheus.GaugeValue, float64(n), part)
	}
	for part, n := range c.pool.Refused() {
		ch <- prometheus.MustNewConstMetric(memoryRefused, prometheus.CounterValue, float64(n), part)
	}
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

// How long no request comes before memory is given back to the system: a short time where
// more memory is free than is in use, as after a request that took very much. Otherwise the buffers
// that a dashboard uses again at each refresh are worth more than the memory.
const (
	soon = 2 * time.Second
	late = 15 * time.Second
)

// Return gives memory back to the system soon and late after the last request, until ctx ends. The
// runtime does so by itself, but only little by little. A nil pool does not know of requests.
func Return(ctx context.Context, pool *memory.Pool) {
	const look = time.Second
	tick := time.NewTicker(look)
	defer tick.Stop()
	var used uint64 // as of the last collection here: a dashboard's refresh changes it little
	for idle, asked := time.Duration(0), int64(-1); ; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if now := pool.Uses(); now != asked {
			idle, asked = 0, now
			continue
		}
		idle += look
		if _, held := heapInUse(); idle == late || idle == soon && held > 2*used {
			runtime.GC() // pools of buffers survive one collection
			if used, held = heapInUse(); idle == late || held > 2*used {
				debug.FreeOSMemory()
			}
		}
	}
}

// heapInUse returns the bytes that the last collection found in use, and those that the Go runtime
// holds of the system's memory.
func heapInUse() (used, held uint64) {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64() - samples[2].Value.Uint64()
}

// PaceCollector keeps the garbage collector from letting the heap grow to twice
// what is kept, until ctx ends. What is kept is mostly samples, without pointers,
// which it marks at no cost, so it may run often: a quarter more than what is
// kept, or collectAt bytes, is the room it gets. GOGC in the environment wins.
func PaceCollector(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for now := 100; ; {
		metrics.Read(live)
		if want := collectPercent(live[0].Value.Uint64()); want < now*9/10 || want > now*10/9 {
			now = want
			debug.SetGCPercent(now)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// collectAt is the room in bytes that a small heap gets.
const collectAt = 64 << 20

// collectPercent is by how many percent a heap with that many live bytes may grow. The first query
// of a process with nothing cached would otherwise be collected for several times. A heap of less than
// leastHeap counts as that large: the runtime takes it so.
func collectPercent(live uint64) int {
	return int(max(100*collectAt/max(live, leastHeap), 25))
}

const leastHeap = 4 << 20 // bytes
