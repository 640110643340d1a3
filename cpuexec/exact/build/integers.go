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

// means writes what exact.Rows.Means calls. One function adds up the samples of each column as integers,
// the other those of each window as floats, and subtracts that from the integers of its columns.
func (a *assembly) means() {
	sums := []string{"Y16", "Y17"}
	a.wide = true
	a.begin("columnSums", "rows R8", "at R9", "every CX", "windows", "scale", "out")
	a.op("VBROADCASTSD", "scale+32(FP)", number)
	a.op("XORQ", "BX", "BX")
	a.wideWindows(2, func(g group) { a.zero(sums[g]) }, func(g group) {
		a.op("VMULPD", fmt.Sprintf("%d(R10)(R11*1)", a.bytes()*int(g)), number, value)
		a.addInteger(value, sums[g])
	}, func(g group) { a.store(g, sums[g], "out+40(FP)") })
	a.wide = true
	a.begin("meanRows", "rows R8", "at R9", "samples CX", "windows", "sums R12", "columns R13", "scale", "n", "out")
	a.op("VBROADCASTSD", "scale+48(FP)", unit)
	a.op("VBROADCASTSD", "n+56(FP)", number)
	a.op("VMULPD", unit, number, delta)
	a.op("XORQ", "BX", "BX")
	a.wideWindows(2, func(g group) { a.zero(g.sums(0)[0]) }, func(g group) {
		sum := g.sums(0)[0]
		a.op("VADDPD", fmt.Sprintf("%d(R10)(R11*1)", a.bytes()*int(g)), sum, sum)
	}, func(g group) {
		if g == 0 {
			a.zero(sums...)
			a.op("LEAQ", "(R12)(BX*8)", "DX")
			a.op("MOVQ", "R13", "AX")
			a.label("columns")
			a.op("VPADDQ", "(DX)", sums[0], sums[0])
			a.op("VPADDQ", "64(DX)", sums[1], sums[1])
			a.op("ADDQ", "$8", "DX")
			a.op("DECQ", "AX")
			a.jump("JNZ", "columns")
		}
		sum := g.sums(0)[0]
		a.op("VMULPD", unit, sum, value)
		a.op("VCVTPD2QQ", value, value)
		a.op("VPSUBQ", value, sums[g], value)
		a.op("VCVTQQ2PD", value, value)
		a.op("VDIVPD", delta, value, value)
		a.op("VDIVPD", number, sum, sum)
		a.op("VADDPD", value, sum, sum)
		a.store(g, sum, "out+64(FP)")
	})
}
