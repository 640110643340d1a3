package exact

import "golang.org/x/sys/cpu"

// rangeOfSome returns the least and the largest of the first n of the units, n a multiple of 8.
func rangeOfSome(units []uint32) (low, high uint32, n int) {
	if n = len(units) &^ 7; n == 0 || !cpu.X86.HasAVX2 {
		return 1<<32 - 1, 0, 0
	}
	low, high = rangeAVX2(&units[0], n)
	return low, high, n
}

//go:noescape
func rangeAVX2(units *uint32, n int) (low, high uint32)
