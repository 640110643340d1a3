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
	out := make(coverage, 0, len(cs)+3)
	done := s.from // before this, s has been seen to
	for _, c := range cs {
		if c.at < now-forgotten {
			continue
		}
		if done < min(c.from, s.to) {
			out = out.then(span{done, min(c.from, s.to)}, floor(now, worthStep))
			done = min(c.from, s.to)
		}
		both := span{max(c.from, s.from), min(c.to, s.to)}
		if both.empty() {
			out = out.then(c.span, c.at)
			continue
		}
		out = out.then(span{c.from, both.from}, c.at).then(both, usedAgain(c.at, now)).then(span{both.to, c.to}, c.at)
		done = both.to
	}
	return out.then(span{done, s.to}, floor(now, worthStep))
}

// worthIn cuts all, which is covered, by what it is worth.
func (cs coverage) worthIn(all spans) coverage {
	var out coverage
	for _, s := range all {
		done := s.from
		for _, c := range cs.within(s, math.MinInt64) {
			out = out.then(span{done, c.from}, math.MinInt64).then(c.span, c.at)
			done = c.to
		}
		out = out.then(span{done, s.to}, math.MinInt64)
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
