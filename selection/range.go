package selection

import "sort"

// Overlapping returns the chunks of series i that overlap mint to maxt (ms, both
// included). The slice must not be changed.
func (s *Selection) Overlapping(i int, mint, maxt int64) []Chunk {
	cs := overlapping(s.inTable(i), mint, maxt)
	if s.behind == nil {
		return cs
	}
	return concat(cs, overlapping(s.behind.of(i), mint, maxt))
}

func overlapping(cs []Chunk, mint, maxt int64) []Chunk {
	lo := sort.Search(len(cs), func(k int) bool { return cs[k].MaxT >= mint })
	hi := lo
	for hi < len(cs) && cs[hi].MinT <= maxt {
		hi++
	}
	return cs[lo:hi]
}
