package tile

import (
	"math"
	"time"
)

// What a tile is worth is a time: that of the one use that would be worth as
// much. It is computed as by LRFU (Lee et al., IEEE Transactions on Computers
// 50(12), 2001): each use counts, half as much after each HalfLife. A tile that
// was asked for once is worth the time of that, one that a dashboard asks for
// every minute some hours more. So one number orders what was used lately and
// what is used often.

const (
	// HalfLife is after how long a use counts half as much.
	HalfLife = int64(time.Hour / time.Millisecond) // ms
	// worthStep is what worths are rounded down to, so that there are few
	// different ones. What is asked for all the time gains no more once another
	// use adds less: at 4.5 half-lives ahead.
	worthStep = HalfLife / 16
	// forgotten is for how long uses are remembered.
	forgotten = 7 * 24 * HalfLife
)

// UsedAgain is the worth of what was worth that much and is used now (ms).
func UsedAgain(worth, now int64) int64 {
	most, least := max(worth, now), min(worth, now)
	apart := float64(most) - float64(least)
	gain := math.Log2(1 + math.Exp2(-apart/float64(HalfLife)))
	return Floor(most+int64(gain*float64(HalfLife)), worthStep)
}

// Used returns the worths of stretches after s has been used now (ms). The time
// of a stretch in cs is its worth.
func (cs Coverage) Used(s Span, now int64) Coverage {
	cs = cs.Since(now - forgotten)
	out := cs.With(s, Floor(now, worthStep))
	for _, c := range cs.Within(s) {
		out = out.With(c.Span, UsedAgain(c.At, now))
	}
	return out
}

// WorthIn cuts all, which is covered, by what it is worth.
func (cs Coverage) WorthIn(all Coverage) (out Coverage) {
	for _, s := range all.All() {
		for _, c := range cs.Within(s.Span) {
			out = out.append(Stretch{Span: Span{s.From, c.From}, At: math.MinInt64}).append(c)
			s.From = c.To
		}
		out = out.append(Stretch{Span: s.Span, At: math.MinInt64})
	}
	return out
}

// WorthOf is the worth of the best of s.
func (cs Coverage) WorthOf(s Span) int64 {
	worth := int64(math.MinInt64)
	for _, c := range cs.Within(s) {
		worth = max(worth, c.At)
	}
	return worth
}

// Gives reports whether something of a worth makes room for a newcomer. Of what
// was used once the latest stays. What is used again and again stays until
// something is clearly worth more: when more of it is asked for than fits, a part
// stays instead of all being fetched in turn.
func Gives(worth, newcomer, now int64) bool {
	if newcomer <= now {
		return worth <= newcomer
	}
	return worth < newcomer-HalfLife/2
}
