package column

import "golang.org/x/sys/cpu"

// nearestLanes is how many moments nearestLate looks at at once.
const nearestLanes = 4

// hasNearest reports whether nearestLate fills in anything.
func hasNearest() bool { return cpu.X86.HasAVX2 }

// nearestLate is Runs.Nearest for moments that are since, since+interval and so on after the
// first sample of e is due, when at least the sample before and the two behind the one that is
// due then are e's. It returns how many it has filled in.
func nearestLate(out Nearest, late []uint16, e *EvenRun, since, interval int64) int {
	rest := since % e.Every
	if n := len(out.Count) &^ (2*nearestLanes - 1); n > 0 && interval%e.Every == 0 && rest >= e.Late {
		_, _, _ = out.Before[n-1], out.After[n-1], late[e.To-1]
		due := e.From + int32(since/e.Every)
		nearestComeAVX2(&out.Count[0], &out.Before[0], &out.After[0], &late[due], n, interval/e.Every, int64(due)+1, rest, e.Every)
		return n
	}
	n := len(out.Count) &^ (nearestLanes - 1)
	_, _, _ = out.Before[n-1], out.After[n-1], late[e.To-1]
	c := [11]int64{8: nearestLanes*interval/e.Every + 1, nearestLanes * interval % e.Every, e.Every}
	for i := range nearestLanes {
		at := since + int64(i)*interval
		c[i], c[nearestLanes+i] = int64(e.From)+at/e.Every, at%e.Every
	}
	nearestAVX2(&out.Count[0], &out.Before[0], &out.After[0], &late[0], n, &c)
	return n
}

// apartLate fills out with the seconds between samples to[k]-2 and to[k]-1, which are due
// every ms, four at a time. It returns how many it has filled in.
func apartLate(out []float64, to []int32, late []uint16, every int64) int {
	n := len(to) &^ 3
	if n == 0 || every >= 1<<30 || !cpu.X86.HasAVX2 {
		return 0
	}
	_, _ = out[n-1], late[to[0]-2:to[n-1]]
	apartAVX2(&out[0], &to[0], &late[0], n, every)
	return n
}

// nearestAVX2 is nearestLate for n moments, a positive multiple of 4. c are which samples are due
// at the first four moments, and how long they have been, ms; then by how much both grow from
// four moments to the next, one added to the former; and how far samples are due from each other.
//
//go:noescape
func nearestAVX2(count, before, after *int32, late *uint16, n int, c *[11]int64)

// apartAVX2 is apartLate for n steps, a positive multiple of 4.
//
//go:noescape
func apartAVX2(out *float64, to *int32, late *uint16, n int, every int64)

// nearestComeAVX2 is nearestLate for n moments, a positive multiple of 8, by when all samples have
// come that are due: count of them at the first moment, stride more at each further one, and the
// last of these has been due for rest ms. late is that one's, and samples are due every ms.
//
//go:noescape
func nearestComeAVX2(counts, before, after *int32, late *uint16, n int, stride, count, rest, every int64)
