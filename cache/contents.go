package cache

import (
	"github.com/promwarp/promwarp/cache/contents"
	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/selection"
)

// Contents lists what the cache has, of at most so many selectors. onDevice is the share, from 0 to
// 1, of a selection's chunks that are on a device; it may be nil.
func (c *Cache) Contents(most int, onDevice func(*selection.Selection) float64) contents.Contents {
	s, m := c.Stats(), c.moment()
	out := contents.Contents{Tile: c.tile, Settled: m.Settled.To, Bytes: s.Bytes, Limit: s.Limit}
	byKey, selections := map[string]*contents.Selector{}, map[*entry]*selection.Selection{}
	for e := range c.all() {
		if e.sel != nil {
			selections[e] = e.sel
			byKey[e.key] = &contents.Selector{Looked: e.looked, Bytes: e.bytes(), Memory: e.covered.All().Pairs()}
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
				byKey[key] = &contents.Selector{Text: matching.Text(ms)}
			}
			byKey[key].AddFiles(c.disk.Files(key))
		}
	}
	out.List(byKey, most)
	return out
}
