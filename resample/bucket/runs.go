package bucket

import "sort"

// Run is samples First to End, End excluded, of a series, which are those of a bucket.
type Run struct{ Bucket, First, End int32 }

// RoundTimestamp is the bucket that a time is rounded down to: an integer floor, or a search in
// the table of the calendar. The time must not be before the first bucket. A time behind the last
// bucket has a number of N or more, or the last one's; a time in a gap between windows has that of
// the window before.
func (g *Grid) RoundTimestamp(t int64) int {
	if g.every > 0 {
		return int((t - g.Starts[0]) / g.every)
	}
	return sort.Search(len(g.Starts), func(k int) bool { return g.Starts[k] > t }) - 1
}

// CountUniqs appends the runs of a series whose samples are at ts, in order: it finds where the
// rounded timestamp changes. As rounding keeps the order, the next change is at the first sample
// that is not within the bucket, so at most one sample a run is rounded, and none where it is in
// the next bucket. The end of the run is looked for where it would be if the bucket had as many
// samples as the one before. Buckets without samples have no run.
func (g *Grid) CountUniqs(ts []int64, runs []Run) []Run {
	if g.N() == 0 {
		return runs
	}
	i := sort.Search(len(ts), func(i int) bool { return ts[i] >= g.Starts[0] })
	if !g.apart {
		return g.countOverlapping(ts, i, runs)
	}
	length, k := 0, -1
	for i < len(ts) {
		t := ts[i]
		if k++; k >= g.N() || t < g.Starts[k] || t >= g.Ends[k] { // not in the next bucket
			k = g.RoundTimestamp(t)
		}
		if k >= g.N() {
			break
		}
		if t >= g.Ends[k] { // in a gap
			if k++; k == g.N() {
				break
			}
			i = sampleAt(ts, i, g.Starts[k], length)
			continue
		}
		end := sampleAt(ts, i, g.Ends[k], length)
		runs = append(runs, Run{int32(k), int32(i), int32(end)})
		length = end - i
		i = end
	}
	return runs
}

// sampleAt is the first sample from i on that is not before the time end. It is looked for from
// i+guess on.
func sampleAt(ts []int64, i int, end int64, guess int) int {
	j := min(i+guess, len(ts))
	for j < len(ts) && ts[j] < end {
		j++
	}
	for j > i && ts[j-1] >= end {
		j--
	}
	return j
}

// countOverlapping is CountUniqs where windows overlap, from sample lo on.
func (g *Grid) countOverlapping(ts []int64, lo int, runs []Run) []Run {
	hi, k := lo, 0
	for lo < len(ts) {
		// Windows that end before the sample are skipped at once.
		t := ts[lo]
		k += sort.Search(g.N()-k, func(n int) bool { return g.Ends[k+n] > t })
		if k == g.N() {
			break
		}
		for lo < len(ts) && ts[lo] < g.Starts[k] {
			lo++
		}
		hi = max(hi, lo)
		for hi < len(ts) && ts[hi] < g.Ends[k] {
			hi++
		}
		if lo < hi {
			runs = append(runs, Run{int32(k), int32(lo), int32(hi)})
			k++
		}
		if k == g.N() {
			break
		}
	}
	return runs
}
