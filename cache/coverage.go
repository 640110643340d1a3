package cache

import "math"

// stretch is a span of tiles, the newest of which may still grow, that were fetched
// at one time (ms).
type stretch struct {
	span
	at       int64
	revision uint64 // of the samples; 0 where that does not matter. See selection.Settled
	young    bool   // whether it was fetched before it was old enough to be settled
}

// coverage is what an entry covers: stretches in time order, none overlapping
// another, and those that touch of different times, revisions or ages. The methods leave it
// unchanged, so it may be shared.
type coverage []stretch

// with returns cs with s fetched at the given time (ms).
func (cs coverage) with(s span, at int64) coverage {
	return cs.having(stretch{span: s, at: at})
}

// on is s with another span.
func (s stretch) on(other span) stretch {
	s.span = other
	return s
}

// having returns cs with s.
func (cs coverage) having(s stretch) coverage {
	if s.empty() {
		return cs
	}
	out := make(coverage, 0, len(cs)+2)
	placed := false
	for _, c := range cs.without(s.span) {
		if !placed && c.from >= s.to {
			out = out.append(s)
			placed = true
		}
		out = out.append(c)
	}
	if !placed {
		out = out.append(s)
	}
	return out
}

// then appends s, fetched at the given time (ms), to cs, which ends before it. It
// may change cs.
func (cs coverage) then(s span, at int64) coverage {
	return cs.append(stretch{span: s, at: at})
}

// append appends s to cs, which ends before it. It may change cs.
func (cs coverage) append(s stretch) coverage {
	if s.empty() {
		return cs
	}
	if k := len(cs) - 1; k >= 0 && cs[k].to == s.from && cs[k].on(s.span) == s {
		cs[k].to = s.to
		return cs
	}
	return append(cs, s)
}

// without returns what is in cs but not in s.
func (cs coverage) without(s span) coverage {
	if s.empty() {
		return cs
	}
	var out coverage
	for _, c := range cs {
		for _, rest := range (spans{c.span}).without(s) {
			out = append(out, c.on(rest))
		}
	}
	return out
}

// since returns what was fetched at the given time (ms) or later.
func (cs coverage) since(at int64) spans {
	var out spans
	for _, c := range cs {
		switch k := len(out) - 1; {
		case c.at < at:
		case k >= 0 && out[k].to == c.from:
			out[k].to = c.to
		default:
			out = append(out, c.span)
		}
	}
	return out
}

// all returns all that is covered.
func (cs coverage) all() spans { return cs.since(math.MinInt64) }

// within returns what is in cs and in s and was fetched at the given time (ms)
// or later.
func (cs coverage) within(s span, at int64) coverage {
	var out coverage
	for _, c := range cs {
		if both := (span{max(c.from, s.from), min(c.to, s.to)}); c.at >= at && !both.empty() {
			out = append(out, c.on(both))
		}
	}
	return out
}

// whole returns what is in cs of whole tiles, and of the tile that begins at
// growing from its start on.
func (cs coverage) whole(tile, growing int64) coverage {
	var out coverage
	for _, s := range cs.all() {
		s.from = floor(s.from+tile-1, tile)
		if end := floor(s.to, tile); end != growing {
			s.to = end
		}
		out = append(out, cs.within(s, math.MinInt64)...)
	}
	return out
}

// old returns what of cs was old enough to be settled when it was fetched.
func (cs coverage) old() coverage { return cs.of(false) }

// young returns the rest of cs.
func (cs coverage) young() coverage { return cs.of(true) }

func (cs coverage) of(young bool) coverage {
	var out coverage
	for _, c := range cs {
		if c.young == young {
			out = append(out, c)
		}
	}
	return out
}

// usable returns what of cs may answer at m. The newest tile is kept piece by piece;
// once it has grown to its end, and there was time to prefetch it, the pieces are of no
// use any more, so that it is fetched again as a whole.
func (cs coverage) usable(m moment) coverage {
	out := cs.old().within(m.settled, m.oldest).whole(m.tile, m.growing)
	for _, s := range cs.young().within(span{m.growing, maxTime}, m.recent) {
		out = out.having(s)
	}
	return out
}

// until is the end of the whole tiles of cs that are old.
func (cs coverage) until(tile int64) int64 {
	old := cs.old()
	if len(old) == 0 {
		return math.MinInt64
	}
	return floor(old[len(old)-1].to, tile)
}
