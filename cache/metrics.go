package cache

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/internal/instrument"

	"github.com/promwarp/promwarp/cache/disk"
)

// metrics are the cache's counters, kept here and shown to Prometheus.
type metrics struct {
	hits, misses, fetches, shared, bytes, failures, evictions, discards, dropped, subsumed, evicted, refused, prefetches, prefetched, restored, saved, unsaved *counter

	seconds prometheus.Histogram
}

// counter is a number that Stats can read and Prometheus can scrape.
type counter struct{ n atomic.Int64 }

func (c *counter) add(n int64)  { c.n.Add(n) }
func (c *counter) value() int64 { return c.n.Load() }

// register shows c to r as the cache's metric of that name.
func (c *counter) register(r prometheus.Registerer, name, help string) {
	instrument.With(r).CounterOf("promwarp_cache_"+name, help, func() float64 { return float64(c.value()) })
}

func newMetrics(r prometheus.Registerer, c *Cache) *metrics {
	auto := instrument.With(r)
	count := func(name, help string) *counter {
		n := &counter{}
		n.register(r, name, help)
		return n
	}
	gauge := func(name, help string, f func(Stats) float64) {
		auto.GaugeOf("promwarp_cache_"+name, help, func() float64 { return f(c.Stats()) })
	}
	m := &metrics{
		hits:       count("tile_hits_total", "Tiles answered from memory."),
		misses:     count("tile_misses_total", "Tiles that were asked for and not in memory."),
		fetches:    count("fetches_total", "Requests to the upstream."),
		shared:     count("shared_fetches_total", "Times a query was answered by a request that another query had started."),
		bytes:      count("fetched_bytes_total", "Bytes of encoded chunks and labels that requests to the upstream brought."),
		failures:   count("fetch_failures_total", "Requests to the upstream that failed."),
		evictions:  count("evictions_total", "Selectors dropped to stay within the limit."),
		evicted:    count("evicted_tiles_total", "Tiles dropped to stay within the limit."),
		refused:    count("refused_tiles_total", "Tiles that were fetched and not kept, as all that is kept is worth more."),
		discards:   count("discards_total", "Selectors dropped because a chunk was corrupt."),
		dropped:    count("dropped_tiles_total", "Tiles dropped at the request of an operator."),
		subsumed:   count("subsumed_tiles_total", "Tiles answered from those of a wider selector."),
		prefetches: count("prefetches_total", "Requests to the upstream ahead of queries."),
		prefetched: count("prefetched_bytes_total", "Bytes of encoded chunks and labels that they brought."),
		restored:   &counter{},
		saved:      &counter{},
		unsaved:    &counter{},
		seconds: auto.NewHistogram(prometheus.HistogramOpts{
			Name:    "promwarp_cache_fetch_duration_seconds",
			Help:    "Duration of requests to the upstream.",
			Buckets: prometheus.ExponentialBuckets(0.001, 2, 16),
		}),
	}
	gauge("bytes", "Memory held, in bytes.", func(s Stats) float64 { return float64(s.Bytes) })
	gauge("limit_bytes", "Most memory held, in bytes.", func(s Stats) float64 { return float64(s.Limit) })
	gauge("entries", "Selectors of which something is held.", func(s Stats) float64 { return float64(s.Entries) })
	gauge("tiles", "Tiles held, those of all selectors added up.", func(s Stats) float64 { return float64(s.Tiles) })
	return m
}

// registerDisk registers the metrics of a cache with a disk.
func registerDisk(r prometheus.Registerer, c *Cache) {
	auto := instrument.With(r)
	c.metrics.restored.register(r, "disk_restored_tiles_total", "Tiles read from disk.")
	c.metrics.saved.register(r, "disk_written_bytes_total", "Bytes of encoded chunks and labels written to disk.")
	c.metrics.unsaved.register(r, "disk_write_failures_total", "Writes to disk that failed.")
	gauge := func(name, help string, f func(disk.Stats) int64) {
		auto.GaugeOf("promwarp_cache_disk_"+name, help, func() float64 { return float64(f(c.disk.Stats())) })
	}
	gauge("bytes", "Size of all files, in bytes.", func(s disk.Stats) int64 { return s.Bytes })
	gauge("limit_bytes", "Most bytes of files.", func(s disk.Stats) int64 { return s.Limit })
	gauge("files", "Files.", func(s disk.Stats) int64 { return int64(s.Files) })
	gauge("entries", "Selectors of which there are files.", func(s disk.Stats) int64 { return int64(s.Selectors) })
	auto.GaugeOf("promwarp_cache_disk_failing", "Whether the last write failed, so that samples are kept in memory only.", func() float64 {
		if c.saver.Failing() {
			return 1
		}
		return 0
	})
	count := func(name, help string, f func(disk.Stats) int64) {
		auto.CounterOf("promwarp_cache_disk_"+name, help, func() float64 { return float64(f(c.disk.Stats())) })
	}
	count("evictions_total", "Files removed to stay within the limit.", func(s disk.Stats) int64 { return s.Evicted })
	count("bad_files_total", "Files removed because they were damaged.", func(s disk.Stats) int64 { return s.Bad })
}
