package cache

import (
	"errors"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/matching"
	"github.com/promwarp/promwarp/cache/tile"
)

// Clear forgets everything that is kept, as Drop does.
func (c *Cache) Clear() { _, _ = c.drop(tile.MinTime, tile.MaxTime, nil) } // says in the log what is wrong

// Dropped says what Drop dropped.
type Dropped struct {
	Selectors int   `json:"selectors"` // cached selectors that lost something
	Tiles     int64 `json:"tiles"`
}

// Drop forgets what is kept from mint to maxt (ms, both included) of all that
// any of the selectors may match; no selector stands for everything. Whole tiles
// are dropped, also those whose fetch is under way. A query that begins after
// Drop has returned sees of them what the upstream then has.
func (c *Cache) Drop(mint, maxt int64, selectors ...[]*labels.Matcher) (Dropped, error) {
	d, err := c.drop(mint, maxt, selectors)
	c.metrics.dropped.Add(float64(d.Tiles))
	return d, err
}

func (c *Cache) drop(mint, maxt int64, selectors [][]*labels.Matcher) (d Dropped, err error) {
	if mint > maxt {
		return d, nil
	}
	s := between(mint, maxt).Widen(c.tile)
	c.files.Lock()
	defer c.files.Unlock()
	for _, e := range c.affected(s, selectors) {
		c.changing.Lock()
		n := c.lose(e, tile.Coverage(nil).With(s, 0))
		c.changing.Unlock()
		if n > 0 {
			d.Selectors++
			d.Tiles += n
		}
	}
	return d, c.dropFiles(s, selectors)
}

// dropFiles removes the files that have something of s of what any of the
// selectors may match. What of them is still kept in memory is written again.
func (c *Cache) dropFiles(s tile.Span, selectors [][]*labels.Matcher) error {
	if c.disk == nil {
		return nil
	}
	var gone []error
	for _, key := range c.disk.Keys() {
		ms, bad := matching.Parse(key)
		if bad == nil && !matching.MeetAny(ms, selectors) {
			continue
		}
		if !slices.ContainsFunc(c.disk.Files(key), func(f *disk.File) bool {
			return len(f.Covered.Within(s)) > 0
		}) {
			continue
		}
		gone = append(gone, c.disk.Drop(key))
		c.saver.Save(key)
	}
	if len(gone) == 0 {
		return c.disk.Tidy() // for what could not be removed before may have something of s
	}
	return errors.Join(gone...)
}

// affected lists the entries that may hold something of what the selectors
// match, and sees to it that nothing that is being fetched for them will be kept, nor what of it has
// something of s be given to later queries.
func (c *Cache) affected(s tile.Span, selectors [][]*labels.Matcher) []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*entry
	for _, e := range c.entries {
		if !matching.MeetAny(e.matchers, selectors) {
			continue
		}
		out = append(out, e)
		e.drops++
		for _, f := range slices.Clone(e.flights) {
			if !f.And(s).Empty() {
				c.retire(f)
			}
		}
	}
	return out
}
