package cache

import "math"

// stretch is a span of whole tiles that were fetched at one time (ms).
type stretch struct {
	span
	at       int64
	revision uint64 // of the samples; 0 where that does not matter. See selection.Settled
}

// coverage is what an entry covers: stretches in time order, none overlapping
// another, and those that touch of different times or revisions. The methods leave it
// unchanged, so it may be shared.
type coverage []stretch

// with returns cs with s fetched at the given time (ms).
func (cs coverage) with(s span, at int64) coverage {
	return cs.having(stretch{span: s, at: at})
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
	if k := len(cs) - 1; k >= 0 && cs[k].to == s.from && cs[k].at == s.at && cs[k].revision == s.revision {
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
			out = append(out, stretch{rest, c.at, c.revision})
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
			out = append(out, stretch{both, c.at, c.revision})
		}
	}
	return out
}
