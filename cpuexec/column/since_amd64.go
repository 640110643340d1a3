package column

import "golang.org/x/sys/cpu"

// sinceLate fills out with since - k*interval + to[k]*every + late[to[k]-before], four at a time,
// as long as a float64 holds all of these. It returns how many it has filled in.
func sinceLate(out []float64, to []int32, before int32, late []uint16, every, since, interval int64) int {
	const most = 1 << 52
	n := len(to) &^ 3
	if n == 0 || !cpu.X86.HasAVX2 || max(since, -since, since+int64(to[n-1])*every, int64(n)*interval) > most {
		return 0
	}
	_, _, _ = out[n-1], late[to[0]-before], late[to[n-1]-before]
	c := [6]float64{float64(every), float64(4 * interval)}
	for i := range int64(4) {
		c[2+i] = float64(since - i*interval)
	}
	sinceAVX2(&out[0], &to[0], &late[0], n, int64(before), &c)
	return n
}

// sinceAVX2 is sinceLate for n steps, a positive multiple of 4. c are every, 4*interval, and since
// less 0 to 3 intervals.
//
//go:noescape
func sinceAVX2(out *float64, to *int32, late *uint16, n int, before int64, c *[6]float64)
