package cpuexec

import "github.com/promwarp/promwarp/cpuexec/column"

// alike returns how many steps from k on have windows like its: with as many samples,
// as far from the window's ends and from each other. Runs that end before are dropped
// from e, of the samples of b; steps are interval ms apart.
func (b *bounds) alike(k int, e *column.EvenRuns, interval int64) int {
	lo, hi := b.lo[k], b.hi[k]
	for len(*e) > 0 && (*e)[0].To <= lo {
		*e = (*e)[1:]
	}
	if len(*e) == 0 {
		return 1
	}
	r := &(*e)[0]
	if lo <= r.From || hi > r.To || interval%r.Every != 0 {
		return 1 // windows begin before the run, or end behind it
	}
	stride := int32(interval / r.Every)
	n := min(int((r.To-hi)/stride)+1, b.to-k)
	if n > 1 && b.hi[k+n-1]-hi != int32(n-1)*stride {
		n-- // the next run begins within that window
	}
	return n
}
