package window

import "golang.org/x/sys/cpu"

// spread returns the least and the most samples of the first n windows, and how many samples are
// in all of them.
func spread(lo, hi []int32) (least, most int32, total int64, n int) {
	if n = len(hi) &^ 7; n == 0 || !cpu.X86.HasAVX2 {
		return 1<<31 - 1, 0, 0, 0
	}
	_ = lo[n-1]
	least, most, total = spreadAVX2(&lo[0], &hi[0], n)
	return least, most, total, n
}

// addSamples adds used times the samples of each window to all, and used times those behind
// seen[k] to fresh, four windows at a time. It returns how many windows' it has added.
func addSamples(all, fresh []int64, lo, hi, seen []int32, used int64) int {
	n := len(hi) &^ 3
	if n == 0 || used >= 1<<31 || !cpu.X86.HasAVX2 {
		return 0
	}
	_, _, _, _ = all[n-1], fresh[n-1], lo[n-1], seen[n-1]
	countAVX2(&all[0], &fresh[0], &lo[0], &hi[0], &seen[0], n, used)
	return n
}

//go:noescape
func spreadAVX2(lo, hi *int32, n int) (least, most int32, total int64)

//go:noescape
func countAVX2(all, fresh *int64, lo, hi, seen *int32, n int, used int64)
