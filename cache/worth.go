package cache

import (
	"math"
	"time"
)

// What a tile is worth is a time: that of the one use that would be worth as
// much. It is computed as by LRFU (Lee et al., IEEE Transactions on Computers
// 50(12), 2001): each use counts, half as much after each halfLife. A tile that
// was asked for once is worth the time of that, one that a dashboard asks for
// every minute some hours more. So one number orders what was used lately and
// what is used often.

const (
	halfLife = int64(time.Hour / time.Millisecond) // ms
	// worthStep is what worths are rounded down to, so that there are few
	// different ones. What is asked for all the time gains no more once another
	// use adds less: at 4.5 half-lives ahead.
	worthStep = halfLife / 16
	// forgotten is for how long uses are remembered.
	forgotten = 7 * 24 * halfLife
)

// usedAgain is the worth of what was worth that much and is used now (ms).
func usedAgain(worth, now int64) int64 {
	most, least := max(worth, now), min(worth, now)
	apart := float64(most) - float64(least)
	gain := math.Log2(1 + math.Exp2(-apart/float64(halfLife)))
	return floor(most+int64(gain*float64(halfLife)), worthStep)
}

// used returns the worths of stretches after s has been used now (ms). The time
// of a stretch in cs is its worth.
func (cs coverage) used(s span, now int64) coverage {
	var out coverage
	for _, c := range cs {
		if c.at >= now-forgotten {
			out = out.with(c.span, c.at)
		}
	}
	known := out.within(s, math.MinInt64)
	for _, c := range known {
		out = out.with(c.span, usedAgain(c.at, now))
	}
	for _, m := range known.all().missing(s) {
		out = out.with(m, floor(now, worthStep))
	}
	return out
}

// worthOf is the worth of the best of s.
func (cs coverage) worthOf(s span) int64 {
	worth := int64(math.MinInt64)
	for _, c := range cs.within(s, math.MinInt64) {
		worth = max(worth, c.at)
	}
	return worth
}

// gives reports whether something of a worth makes room for a newcomer. Of what
// was used once the latest stays. What is used again and again stays until
// something is clearly worth more: when more of it is asked for than fits, a part
// stays instead of all being fetched in turn.
func gives(worth, newcomer, now int64) bool {
	if newcomer <= now {
		return worth <= newcomer
	}
	return worth < newcomer-halfLife/2
}
