package cache

// mostCopied is the part of the limit, one in so many bytes, that may be copied of a selector
// that gives way in part: memory is short meanwhile.
const mostCopied = 4

// Reclaim evicts about so many bytes of what is kept, what is worth least first, and returns
// by how many bytes the cache has shrunk. Of selectors that a running query holds something
// of nothing is evicted, as the query keeps all their memory. What has left memory is fetched,
// or read from disk, when it is asked for again.
func (c *Cache) Reclaim(bytes int64) (freed int64) {
	c.adding.Lock() // so that nothing takes the room meanwhile
	defer c.adding.Unlock()
	before := c.Stats().Bytes
	for shed := true; shed && freed < bytes; freed = before - c.Stats().Bytes {
		shed = false
		for _, d := range c.givingWay(bytes - freed) {
			shed = c.shed(d.entry, d.spans) || shed
		}
	}
	return max(0, freed)
}

// givingWay chooses what leaves for so many bytes.
func (c *Cache) givingWay(bytes int64) []departure {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []candidate
	for e := range c.sample(maxSample) {
		if len(e.held) > 0 {
			continue
		}
		tiles := e.covered.All().Tiles(c.tile)
		perTile := float64(e.bytes()) / float64(max(1, tiles))
		for _, k := range e.used.WorthIn(e.covered.All()) {
			found = append(found, candidate{k, e, perTile, float64(tiles)})
		}
	}
	// Of a sample leaves its share; Reclaim asks for the rest again.
	out, _ := c.choose(found, min(float64(bytes), float64(max(bytes, c.limit/64))*c.sampled()))
	for i, d := range out {
		all := d.entry.covered.All()
		share := 1 - float64(d.spans.Tiles(c.tile))/float64(max(1, all.Tiles(c.tile)))
		if share*float64(d.entry.sel.PayloadBytes()) > float64(c.limit)/mostCopied {
			out[i].spans = all
		}
	}
	return out
}
