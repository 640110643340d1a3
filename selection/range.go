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
