package cache

import (
	"cmp"
	"slices"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/selection"
)

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
	Selectors []Selector `json:"selectors"`        // those that take most
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
	sel         *selection.Selection
}

// Contents lists what the cache has, of at most so many selectors, those that take most first.
// onDevice is the share, from 0 to 1, of a selection's chunks that are on a device; it may be nil.
func (c *Cache) Contents(most int, onDevice func(*selection.Selection) float64) Contents {
	s, m := c.Stats(), c.moment()
	out := Contents{Tile: c.tile, Settled: m.Settled.To, Bytes: s.Bytes, Limit: s.Limit, Selectors: []Selector{}}
	byKey := map[string]*Selector{}
	c.mu.Lock()
	for key, e := range c.entries {
		if e.sel == nil {
			continue
		}
		byKey[key] = &Selector{
			Text: matching.Text(e.matchers), Series: e.sel.NumSeries(), Samples: e.sel.NumSamples(), Looked: e.looked, sel: e.sel,
			Bytes: e.size + e.sel.SizeBytes() - e.sel.TableBytes() + noted(e.sel), Memory: e.covered.All().Pairs(),
		}
	}
	c.mu.Unlock()
	if c.disk != nil {
		d := c.disk.Stats()
		out.DiskBytes, out.DiskLimit = d.Bytes, d.Limit
		for _, key := range c.disk.Keys() {
			ms, err := matching.Parse(key)
			if err != nil {
				continue
			}
			if byKey[key] == nil {
				byKey[key] = &Selector{Text: matching.Text(ms)}
			}
			byKey[key].addFiles(c.disk.Files(key))
		}
	}
	for _, s := range byKey {
		out.Selectors = append(out.Selectors, *s)
	}
	slices.SortFunc(out.Selectors, func(a, b Selector) int {
		return cmp.Or(cmp.Compare(b.Bytes+b.DiskBytes, a.Bytes+a.DiskBytes), cmp.Compare(a.Text, b.Text))
	})
	out.Count = len(out.Selectors)
	out.Selectors = out.Selectors[:min(most, out.Count)]
	for i := range out.Selectors {
		if s := &out.Selectors[i]; s.sel != nil && onDevice != nil {
			s.DeviceBytes = int64(onDevice(s.sel) * float64(s.sel.PayloadBytes()))
		}
	}
	return out
}

// addFiles adds what is in files.
func (s *Selector) addFiles(files []disk.File) {
	var all tile.Spans
	for _, f := range files {
		s.DiskBytes += f.Size
		for _, covered := range f.Covered {
			all = all.With(tile.Span{From: covered.From, To: covered.To})
		}
	}
	s.Disk = all.Pairs()
}
