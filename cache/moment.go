package cache

import (
	"math"

	"github.com/promwarp/promwarp/cache/tile"
)

// moment is the present one.
func (c *Cache) moment() tile.Moment {
	now := c.now().UnixMilli()
	m := tile.Moment{Now: now, Settled: c.settled(now), Oldest: math.MinInt64, Recent: math.MaxInt64}
	if c.maxAge > 0 {
		m.Oldest = now - c.maxAge
	}
	if c.recheck > 0 {
		m.Recent = now - c.recheck
	}
	return m
}

// settled is the stretch of time whose tiles are kept at the given time (ms).
func (c *Cache) settled(now int64) tile.Span {
	to := c.horizon(now)
	from := int64(2 * tile.MinTime) // before all that is asked for
	if c.retention > 0 {
		from = min(to, tile.Floor(now-c.retention+c.tile-1, c.tile))
	}
	return tile.Span{From: from, To: to}
}

// horizon is the end of the newest tile that is kept at the given time, both in ms.
func (c *Cache) horizon(now int64) int64 {
	if c.limit == 0 {
		return tile.MinTime
	}
	return tile.Floor(now-c.fresh, c.tile)
}

// fetchedAt is the time of a fetch that begins now, in ms. It is rounded down to
// a 64th of the greatest age, so that tiles fetched one after another make few
// stretches. Where there is no greatest age it does not matter.
func (c *Cache) fetchedAt() int64 {
	if c.maxAge == 0 {
		return 0
	}
	return tile.Floor(c.now().UnixMilli(), max(c.maxAge/64, 1))
}
