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
	byKey := map[string]*contents.Selector{}
	var describe []func() // of each entry, without the mutex
	for e := range c.all() {
		if e.sel == nil {
			continue
		}
		sel, covered, size, looked := e.sel, e.covered, e.size, e.looked
		describe = append(describe, func() {
			s := &contents.Selector{
				Text: matching.Text(e.matchers), Series: sel.NumSeries(), Samples: sel.NumSamples(), Looked: looked,
				Bytes: size + sel.SizeBytes() - sel.TableBytes() + noted(sel), Memory: covered.All().Pairs(),
			}
			if onDevice != nil {
				s.DeviceBytes = int64(onDevice(sel) * float64(sel.PayloadBytes()))
			}
			byKey[e.key] = s
		})
	}
	for _, f := range describe {
		f()
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
