package selection

import "sort"

// Overlapping returns the chunks of series i that overlap mint to maxt (ms, both
// included). The slice must not be changed.
func (s *Selection) Overlapping(i int, mint, maxt int64) []Chunk {
	return s.OverlappingIn(new([]Chunk), i, mint, maxt)
}

// OverlappingIn is Overlapping for who asks for one series after another: the slice may be in
// memory, which the next call writes to again.
func (s *Selection) OverlappingIn(memory *[]Chunk, i int, mint, maxt int64) []Chunk {
	cs := overlapping(s.inTable(i), mint, maxt)
	if s.behind == nil {
		return cs
	}
	return concat(memory, cs, overlapping(s.behind.of(i), mint, maxt))
}

// overlapping returns those of a series' chunks. Mostly these are all, or all but a few.
func overlapping(cs []Chunk, mint, maxt int64) []Chunk {
	if len(cs) > 0 && cs[0].MaxT < mint {
		cs = cs[sort.Search(len(cs), func(k int) bool { return cs[k].MaxT >= mint }):]
	}
	if n := len(cs); n > 0 && cs[n-1].MinT > maxt {
		cs = cs[:sort.Search(n, func(k int) bool { return cs[k].MinT > maxt })]
	}
	return cs
}

// countedSeries is of how many series SamplesAbout adds up the chunks.
const countedSeries = 8

// SamplesAbout is about how many samples the chunks that overlap mint to maxt (ms, both included)
// have: those of some series are added up.
func (s *Selection) SamplesAbout(mint, maxt int64) (n int64) {
	series := min(s.NumSeries(), countedSeries)
	for k := range series {
		for _, c := range s.Overlapping(k*s.NumSeries()/series, mint, maxt) {
			n += int64(c.Samples)
		}
	}
	return n * int64(s.NumSeries()) / int64(max(series, 1))
}
