package cache

import "math"

// moment is what answers at one moment of what is kept.
type moment struct {
	now     int64 // ms
	settled span  // the stretch of time whose tiles are kept
	oldest  int64 // the earliest time of fetching (ms) of what still answers
	recent  int64 // the same of what was not old enough to be settled then
	growing int64 // the start of the tile whose pieces still answer (ms)
	tile    int64 // ms
}

// moment is the present one.
func (c *Cache) moment() moment {
	now := c.now().UnixMilli()
	m := moment{now: now, settled: c.settled(now), oldest: math.MinInt64, recent: math.MaxInt64, tile: c.tile}
	if c.maxAge > 0 {
		m.oldest = now - c.maxAge
	}
	if c.recheck > 0 {
		m.recent = now - c.recheck
	}
	m.growing = floor(m.settled.to-c.grace, c.tile)
	return m
}

// complete is m when pieces answer no more as soon as their tile is complete.
func (m moment) complete() moment {
	m.growing = floor(m.settled.to, m.tile)
	return m
}

// settled is the stretch of time whose tiles are kept at the given time (ms).
func (c *Cache) settled(now int64) span {
	to := c.horizon(now)
	from := int64(2 * minTime) // before all that is asked for
	if c.retention > 0 {
		from = min(to, floor(now-c.retention+c.tile-1, c.tile))
	}
	return span{from, to}
}

// horizon is the end of what is kept, in ms: that of a tile as long as what is
// younger is no longer than one, as an upstream sends whole chunks best, and
// otherwise that of a step. The time is now (ms).
func (c *Cache) horizon(now int64) int64 {
	if c.limit == 0 {
		return minTime
	}
	if whole := floor(now-c.fresh, c.tile); now-whole <= c.tile {
		return whole
	}
	return floor(now-c.fresh, c.step)
}

// fetchedAt is the time of a fetch that begins now, in ms. It is rounded down to
// a 64th of the greatest age, so that tiles fetched one after another make few
// stretches. Where there is no greatest age it does not matter.
func (c *Cache) fetchedAt() int64 {
	if c.maxAge == 0 {
		return 0
	}
	return floor(c.now().UnixMilli(), max(c.maxAge/64, 1))
}
