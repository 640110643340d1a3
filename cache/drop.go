package cache

import (
	"context"
	"errors"
	"math"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/promwarp/promwarp/cache/disk"
)

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
	var d Dropped
	if mint > maxt {
		return d, nil
	}
	s := span{max(mint, minTime), min(maxt, maxTime) + 1}.widen(c.tile)
	c.files.Lock()
	defer c.files.Unlock()
	for _, e := range c.affected(s, selectors) {
		n, err := c.dropFrom(e, s)
		if err != nil {
			// It cannot be cut, so all of it goes.
			c.discard(e)
		}
		if n > 0 {
			d.Selectors++
			d.Tiles += n
		}
	}
	c.metrics.dropped.add(d.Tiles)
	return d, c.dropFiles(s, selectors)
}

// dropFiles removes the files that have something of s of what any of the
// selectors may match. What of them is still kept in memory is written again.
func (c *Cache) dropFiles(s span, selectors [][]*labels.Matcher) error {
	if c.disk == nil {
		return nil
	}
	var gone []error
	for _, key := range c.disk.Keys() {
		ms, bad := matchersOf(key)
		if bad == nil && !meetAny(ms, selectors) {
			continue
		}
		has := slices.ContainsFunc(c.disk.Files(key), func(f disk.File) bool {
			return len(coverageOf(f.Covered).within(s, math.MinInt64)) > 0
		})
		if !has {
			continue
		}
		gone = append(gone, c.disk.Drop(key))
		c.mu.Lock()
		if e := c.entries[key]; e != nil {
			c.saver.save(e)
		}
		c.mu.Unlock()
	}
	if len(gone) == 0 {
		return c.disk.Tidy() // for what could not be removed before may have something of s
	}
	return errors.Join(gone...)
}

// affected lists the entries that may hold something of what the selectors
// match, and sees to it that nothing of s that is being fetched for them will be
// kept or given to later queries.
func (c *Cache) affected(s span, selectors [][]*labels.Matcher) []*entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []*entry
	for _, e := range c.entries {
		if !meetAny(e.matchers, selectors) {
			continue
		}
		out = append(out, e)
		for _, f := range slices.Clone(e.flights) {
			if f.whole.from < s.to && s.from < f.whole.to {
				f.void = true
				f.leaveEntry()
			}
		}
	}
	return out
}

// dropFrom drops s from what is kept of e and returns the number of tiles that
// this took.
func (c *Cache) dropFrom(e *entry, s span) (int64, error) {
	e.merging.Lock()
	defer e.merging.Unlock()
	c.mu.Lock()
	sel, had := e.sel, e.covered
	c.mu.Unlock()
	left := had.without(s)
	n := had.all().tiles(c.tile) - left.all().tiles(c.tile)
	if sel == nil || slices.Equal(had, left) {
		return 0, nil
	}
	if len(left) > 0 {
		rest, err := restrict(context.Background(), sel, had.all(), left.all())
		if err != nil {
			return n, err
		}
		sel = rest.Compact(wellUsed).Remember(left.until(c.tile))
		// What was cut takes room, too.
		if kept, err := c.put(e, sel, left, left.all(), math.MaxInt64); kept || err != nil {
			return n, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.removed {
		return n, nil
	}
	c.set(e, nil, nil)
	c.tidy(e)
	return n, nil
}

// meetAny reports whether some series may be matched by ms and one of the
// selectors; no selector stands for one that matches everything.
func meetAny(ms []*labels.Matcher, selectors [][]*labels.Matcher) bool {
	return len(selectors) == 0 || slices.ContainsFunc(selectors, func(s []*labels.Matcher) bool { return mayMeet(ms, s) })
}

// mayMeet reports whether some series may be matched by both a and b. It is
// false only where that is certain: both name the same label and one of them
// fixes it to a value that the other refuses.
func mayMeet(a, b []*labels.Matcher) bool {
	for _, x := range a {
		for _, y := range b {
			if x.Name != y.Name {
				continue
			}
			if x.Type == labels.MatchEqual && !y.Matches(x.Value) || y.Type == labels.MatchEqual && !x.Matches(y.Value) {
				return false
			}
		}
	}
	return true
}
