package cache

import (
	"cmp"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/instrument"
	"github.com/promwarp/promwarp/selection"
)

// Stats is what the cache holds at a moment.
type Stats struct {
	Bytes   int64 // memory held, in bytes
	Limit   int64 // most memory held, in bytes
	Entries int   // selectors of which something is kept
	Tiles   int64 // tiles kept, those of all selectors added up
}

// Stats returns the state of the cache.
func (c *Cache) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	return Stats{Bytes: c.bytes + c.noted.Load(), Limit: c.limit, Entries: c.kept, Tiles: c.tiles}
}

// Contents lists what the cache has, of `most` selectors at most. onDevice is the share, from 0 to
// 1, of a selection's chunks that are on a device; it may be nil.
func (c *Cache) Contents(most int, onDevice func(*selection.Selection) float64) Contents {
	s, m := c.Stats(), c.moment()
	out := Contents{Tile: c.tile, Settled: m.Settled.To, Bytes: s.Bytes, Limit: s.Limit}
	byKey, selections := map[string]*Selector{}, map[*entry]*selection.Selection{}
	for e := range c.all() {
		if e.sel != nil {
			selections[e] = e.sel
			byKey[e.key] = &Selector{Looked: e.looked, Bytes: e.bytes(), Memory: e.covered.Pairs()}
		}
	}
	for e, sel := range selections { // without the mutex
		s := byKey[e.key]
		s.Text, s.Series, s.Samples = matching.Text(e.matchers), sel.NumSeries(), sel.NumSamples()
		if onDevice != nil {
			s.DeviceBytes = int64(onDevice(sel) * float64(sel.PayloadBytes()))
		}
	}
	if c.disk != nil {
		d := c.disk.Stats()
		out.DiskBytes, out.DiskLimit = d.Bytes, d.Limit
		for _, key := range c.disk.Keys() {
			if byKey[key] == nil {
				ms, _ := matching.Parse(key) // without an error, since Key has made it
				byKey[key] = &Selector{Text: matching.Text(ms)}
			}
			var all tile.Coverage
			for _, f := range c.disk.Files(key) {
				byKey[key].DiskBytes += f.Size()
				for _, covered := range f.Covered {
					all = all.With(covered.Span, 0)
				}
			}
			byKey[key].Disk = all.Pairs()
		}
	}
	out.Count, out.Selectors = len(byKey), []Selector{}
	for _, s := range byKey {
		out.Selectors = append(out.Selectors, *s)
	}
	slices.SortFunc(out.Selectors, func(a, b Selector) int {
		return cmp.Or(cmp.Compare(b.Bytes+b.DiskBytes, a.Bytes+a.DiskBytes), cmp.Compare(a.Text, b.Text))
	})
	out.Selectors = out.Selectors[:min(most, out.Count)]
	return out
}

// Contents are what a cache has at a moment. Sizes are in bytes, times in ms since the epoch.
type Contents struct {
	Name      string     `json:"name,omitempty"` // of the upstream, where there are several
	Tile      int64      `json:"tile_ms"`        // length of a tile
	Settled   int64      `json:"settled_ms"`     // what is older is kept in whole tiles
	Bytes     int64      `json:"host_bytes"`
	Limit     int64      `json:"host_limit_bytes"`
	DiskBytes int64      `json:"disk_bytes"`
	DiskLimit int64      `json:"disk_limit_bytes"` // 0 where there is no disk
	Count     int        `json:"count"`            // selectors of which something is kept
	Selectors []Selector `json:"selectors"`        // the ones that take most memory
}

// Selector is what is kept of one selector.
type Selector struct {
	Text    string `json:"selector"`
	Series  int    `json:"series"`
	Samples int64  `json:"samples"`
	// Bytes are those in memory, with what other selectors share.
	Bytes       int64      `json:"host_bytes"`
	DiskBytes   int64      `json:"disk_bytes"`
	DeviceBytes int64      `json:"device_bytes"`
	Looked      int64      `json:"looked_ms"`    // when it was last asked for with the newest samples; 0 for never
	Memory      [][2]int64 `json:"in_memory_ms"` // stretches of time: from, and to, which is not included
	Disk        [][2]int64 `json:"on_disk_ms"`   // the same of files
}

// metrics are the cache's counters.
type metrics struct {
	hits, hitBytes, misses, fetches, shared, bytes, failures, evictions, discards, dropped, subsumed, evicted, refused, prefetches, prefetched, restored, saved, unsaved, corrected prometheus.Counter

	seconds prometheus.Histogram
}

func newMetrics(r prometheus.Registerer, c *Cache) *metrics {
	auto := instrument.With(r)
	count := func(name, help string) prometheus.Counter { return auto.Counter("promwarp_cache_"+name, help) }
	gauge := func(name, help string, f func(Stats) float64) {
		auto.GaugeOf("promwarp_cache_"+name, help, func() float64 { return f(c.Stats()) })
	}
	m := &metrics{
		hits:       count("tile_hits_total", "Tiles answered from memory."),
		hitBytes:   count("hit_bytes_total", "Bytes of encoded chunks and labels, about, that queries read from memory, files or a wider selector and that were not fetched."),
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
		corrected:  count("corrected_series_total", "Series of which the upstream had other samples when they were fetched again, as they had reached the greatest age, than were kept until then."),
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
	counted := func(name, help string) prometheus.Counter { return auto.Counter("promwarp_cache_disk_"+name, help) }
	c.metrics.restored = counted("restored_tiles_total", "Tiles read from disk.")
	c.metrics.saved = counted("written_bytes_total", "Bytes of encoded chunks and labels written to disk.")
	c.metrics.unsaved = counted("write_failures_total", "Writes to disk that failed.")
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
