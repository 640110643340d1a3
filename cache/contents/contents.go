// Package contents is what a cache has at a moment, as operators see it: sizes, and of each selector
// the stretches of time that are kept in memory and in files.
//
// cache.Cache.Contents fills it in; /api/v1/status/cache shows it.
package contents

import (
	"cmp"
	"slices"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/tile"
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
}

// AddFiles adds what is in files.
func (s *Selector) AddFiles(files []*disk.File) {
	var all tile.Spans
	for _, f := range files {
		s.DiskBytes += f.Size()
		for _, covered := range f.Covered {
			all = all.With(covered.Span)
		}
	}
	s.Disk = all.Pairs()
}

// List lists selectors, at most so many, those that take most first.
func (c *Contents) List(byKey map[string]*Selector, most int) {
	c.Count, c.Selectors = len(byKey), []Selector{}
	for _, s := range byKey {
		c.Selectors = append(c.Selectors, *s)
	}
	slices.SortFunc(c.Selectors, func(a, b Selector) int {
		return cmp.Or(cmp.Compare(b.Bytes+b.DiskBytes, a.Bytes+a.DiskBytes), cmp.Compare(a.Text, b.Text))
	})
	c.Selectors = c.Selectors[:min(most, c.Count)]
}
