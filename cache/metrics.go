package cache

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// metrics are the cache's counters, kept here and shown to Prometheus.
type metrics struct {
	hits, misses, fetches, shared, bytes, failures, evictions, discards, dropped *counter

	seconds prometheus.Histogram
}

// counter is a number that Stats can read and Prometheus can scrape.
type counter struct{ n atomic.Int64 }

func (c *counter) add(n int64)  { c.n.Add(n) }
func (c *counter) value() int64 { return c.n.Load() }

func newMetrics(r prometheus.Registerer, c *Cache) *metrics {
	auto := promauto.With(r)
	count := func(name, help string) *counter {
		n := &counter{}
		auto.NewCounterFunc(prometheus.CounterOpts{Name: "promwarp_cache_" + name, Help: help}, func() float64 { return float64(n.value()) })
		return n
	}
	gauge := func(name, help string, f func(Stats) float64) {
		auto.NewGaugeFunc(prometheus.GaugeOpts{Name: "promwarp_cache_" + name, Help: help}, func() float64 { return f(c.Stats()) })
	}
	m := &metrics{
		hits:      count("tile_hits_total", "Tiles answered from memory."),
		misses:    count("tile_misses_total", "Tiles that were asked for and not in memory."),
		fetches:   count("fetches_total", "Requests to the upstream."),
		shared:    count("shared_fetches_total", "Times a query waited for a request that another query had started."),
		bytes:     count("fetched_bytes_total", "Bytes of encoded chunks and labels that requests to the upstream brought."),
		failures:  count("fetch_failures_total", "Requests to the upstream that failed."),
		evictions: count("evictions_total", "Selectors dropped to stay within the limit."),
		discards:  count("discards_total", "Selectors dropped because a chunk was corrupt."),
		dropped:   count("dropped_tiles_total", "Tiles dropped at the request of an operator."),
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
