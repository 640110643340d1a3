package cache

// Times are clamped to these (ms), so that sums of them do not overflow.
const (
	minTime = -1 << 61
	maxTime = 1<<61 - 1
)

// span is a stretch of time in ms, from included, to not.
type span struct{ from, to int64 }

func (s span) empty() bool { return s.from >= s.to }

// split cuts s in two at t; either part may be empty.
func (s span) split(t int64) (before, after span) {
	return span{s.from, min(s.to, t)}, span{max(s.from, t), s.to}
}

// widen moves the ends of s outward to multiples of tile.
func (s span) widen(tile int64) span {
	if s.empty() {
		return span{}
	}
	return span{floor(s.from, tile), floor(s.to+tile-1, tile)}
}

// floor is the greatest multiple of tile that is not above t.
func floor(t, tile int64) int64 {
	m := t % tile
	if m < 0 {
		m += tile
	}
	return t - m
}

// spans is a set of moments: spans in time order, neither empty nor touching.
// The methods leave it unchanged, so it may be shared.
type spans []span

// with returns ss and s together.
func (ss spans) with(s span) spans {
	if s.empty() {
		return ss
	}
	out := make(spans, 0, len(ss)+1)
	i := 0
	for ; i < len(ss) && ss[i].to < s.from; i++ {
		out = append(out, ss[i])
	}
	for ; i < len(ss) && ss[i].from <= s.to; i++ {
		s = span{min(s.from, ss[i].from), max(s.to, ss[i].to)}
	}
	out = append(out, s)
	return append(out, ss[i:]...)
}

// without returns what is in ss but not in s.
func (ss spans) without(s span) spans {
	var out spans
	for _, a := range ss {
		before, _ := a.split(s.from)
		_, after := a.split(s.to)
		switch {
		case s.empty():
			out = append(out, a)
		default:
			if !before.empty() {
				out = append(out, before)
			}
			if !after.empty() {
				out = append(out, after)
			}
		}
	}
	return out
}

// missing returns what is in s but not in ss.
func (ss spans) missing(s span) spans {
	if s.empty() {
		return nil
	}
	out := spans{s}
	for _, a := range ss {
		out = out.without(a)
	}
	return out
}

// tiles is the number of tiles in ss, of which one may be a part. A span without
// an end in sight counts as at most a million, so that one such query does not bury
// all others in a counter.
func (ss spans) tiles(tile int64) (n int64) {
	for _, s := range ss {
		n += min(max(0, (s.to-s.from+tile-1)/tile), 1e6)
	}
	return n
}
