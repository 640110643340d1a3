package bucket

import "sort"

// Run is samples First to End, End excluded, of a series, which are those of a bucket.
type Run struct{ Bucket, First, End int32 }

// CountUniqs appends the runs of a series whose samples are at ts, in order. The ends of a window's run
// are looked for where they would be if the window had as many samples as the one before, and begun as
// long after it. Windows without samples have no run, and are not looked at.
func (g *Grid) CountUniqs(ts []int64, runs []Run) []Run {
	lo, hi, stride, length := 0, 0, 0, 0
	for k := 0; k < g.N(); k++ {
		before := lo
		lo = sampleAt(ts, lo, g.Starts[k], stride)
		if lo == len(ts) {
			break
		}
		if t := ts[lo]; t >= g.Ends[k] { // on to the window that has the sample, or the gap before it
			k += sort.Search(g.N()-k, func(n int) bool { return g.Ends[k+n] > t }) - 1
			continue
		}
		hi = sampleAt(ts, max(hi, lo), g.Ends[k], lo+length-max(hi, lo))
		stride, length = lo-before, hi-lo
		runs = append(runs, Run{int32(k), int32(lo), int32(hi)})
	}
	return runs
}

// sampleAt is the first sample from i on that is not before the time end. It is looked for from
// i+guess on.
func sampleAt(ts []int64, i int, end int64, guess int) int {
	j := min(i+max(guess, 0), len(ts))
	for j < len(ts) && ts[j] < end {
		j++
	}
	for j > i && ts[j-1] >= end {
		j--
	}
	return j
}
