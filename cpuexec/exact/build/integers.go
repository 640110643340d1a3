package main

import "fmt"

// This file writes what adds up integers with AVX-512: multiples of a unit that floats are.

// running writes a function that puts the sums of n values, a multiple of 8, up to each into a list, in
// units, each 1 over scale. In out are, of each lane, 0 where all values are multiples of the
// unit, and the largest magnitude.
func (a *assembly) running() {
	const sum, odd, most, none, factor, last = "Z0", "Z1", "Z2", "Z5", "Z6", "Z7"
	const v, x, t = "Z8", "Z9", "Z10"
	a.begin("runningVector", "vs R8", "n CX", "scale", "unit", "sums R9", "out DI")
	a.op("VBROADCASTSD", "scale+16(FP)", factor)
	a.op("VBROADCASTSD", "unit+24(FP)", "Z11")
	a.op("MOVQ", "$7", "AX")
	a.op("VPBROADCASTQ", "AX", last)
	for _, to := range []string{sum, odd, most, none} {
		a.op("VPXORQ", to, to, to)
	}
	a.eights(func() {
		a.op("VMOVUPD", "(R8)(AX*8)", v)
		a.op("VMULPD", v, factor, x)
		a.op("VCVTPD2QQ", x, x)
		a.op("VCVTQQ2PD", x, t)
		a.op("VMULPD", t, "Z11", t)
		a.op("VPTERNLOGQ", "$0xf6", t, v, odd)
		a.op("VPABSQ", x, t)
		a.op("VPMAXUQ", t, most, most)
		for _, lanes := range []string{"$7", "$6", "$4"} {
			a.op("VALIGNQ", lanes, none, x, t)
			a.op("VPADDQ", t, x, x)
		}
		a.op("VPERMQ", x, last, t)
		a.op("VPADDQ", sum, x, x)
		a.op("VPADDQ", t, sum, sum)
		a.op("VMOVDQU64", x, "(R9)(AX*8)")
	})
	for i, from := range []string{odd, most} {
		a.op("VMOVDQU64", from, fmt.Sprintf("%d(DI)", 64*i))
	}
	a.end()
}
