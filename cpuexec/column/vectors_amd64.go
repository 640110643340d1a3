package column

import "golang.org/x/sys/cpu"

// hasVectors says whether what works on several values an instruction can be called.
var hasVectors = cpu.X86.HasAVX2

// sinceVector is sinceLate for n steps, a positive multiple of 4. c are every, 4*interval, and since
// less 0 to 3 intervals.
//
//go:noescape
func sinceVector(out *float64, to *int32, late *uint16, n int, before int64, c *[6]float64)

// apartVector is apartLate for n steps, a positive multiple of 4.
//
//go:noescape
func apartVector(out *float64, to *int32, late *uint16, n int, every int64)

// sinceLate fills out with since - k*interval + to[k]*every + late[to[k]-before], four at a time,
// as long as a float64 holds all of these. It returns how many it has filled in.
func sinceLate(out []float64, to []int32, before int32, late []uint16, every, since, interval int64) int {
	const most = 1 << 52
	n := len(to) &^ 3
	if n == 0 || !hasVectors || max(since, -since, since+int64(to[n-1])*every, int64(n)*interval) > most {
		return 0
	}
	_, _, _ = out[n-1], late[to[0]-before], late[to[n-1]-before]
	c := [6]float64{float64(every), float64(4 * interval)}
	for i := range int64(4) {
		c[2+i] = float64(since - i*interval)
	}
	sinceVector(&out[0], &to[0], &late[0], n, int64(before), &c)
	return n
}

// apartLate fills out with the seconds between samples to[k]-2 and to[k]-1, which are due
// every ms, four at a time. It returns how many it has filled in.
func apartLate(out []float64, to []int32, late []uint16, every int64) int {
	n := len(to) &^ 3
	if n == 0 || every >= 1<<30 || !hasVectors {
		return 0
	}
	_, _ = out[n-1], late[to[0]-2:to[n-1]]
	apartVector(&out[0], &to[0], &late[0], n, every)
	return n
}
