package main

import "fmt"

// This file writes what least-squares lines are made of: distances of samples from origins, in seconds,
// sums of values and of their products with distances, and lines of these sums.

// lines writes all of it.
func (a *assembly) lines() {
	a.seconds()
	a.window("productsOf", 2)
	a.window("valuesOf", 1)
	a.integers()
	a.magnitudes()
	// The distances of each window's samples, which go to xs, their sum x, and its deviations: that of the
	// squares less x²/n.
	a.rows("timeRows", []string{"xs R12", "origins R13", "t DI", "b"}, func(g group) {
		if a.base(g, 2, 56); g == 0 {
			a.constant(ms, thousand)
			a.constant(perMs, thousandth)
			a.constant(adder, magic)
		}
	}, func(g group) {
		a.row(g, second)
		a.op("VPSUBQ", fmt.Sprintf("%d(R13)(BX*8)", a.bytes()*int(g)), second, second)
		a.float(second)
		a.divide(second)
		a.op("VMOVUPD", second, a.distances(g))
		a.nextDistances(g)
		a.raise(g.sums(0), second, false)
		a.op("VMULPD", second, second, second)
		a.raise(g.sums(1), second, true)
	}, func(g group) {
		x, squares := g.sums(0), g.sums(1)
		a.round(x, 0)
		a.round(squares, 1)
		a.op("VADDPD", squares[1], x[1], x[1])
		a.never(unequal, x[1], zero, x[0])
		a.op("VBROADCASTSD", "48(DI)", number)
		a.store(g, x[0], "0(DI)")
		a.op("VMULPD", x[0], x[0], x[0])
		a.op("VDIVPD", number, x[0], x[0])
		a.op("VSUBPD", x[0], squares[0], squares[0])
		a.store(g, squares[0], "24(DI)")
	})
	a.rows("lineRows", []string{"xs R12", "back R13", "t DI", "b", "slopes", "intercepts"}, func(g group) { a.base(g, 2, 56) }, func(g group) {
		a.row(g, value)
		a.raise(g.sums(0), value, false)
		a.op("VMULPD", a.distances(g), value, second)
		a.nextDistances(g)
		a.raise(g.sums(1), second, true)
	}, func(g group) {
		y, xy := g.sums(0), g.sums(1)
		a.round(y, 0)
		a.round(xy, 1)
		a.op("VADDPD", y[1], xy[1], xy[1])
		a.never(unequal, xy[1], zero, xy[0])
		a.solve(g, y[0], xy[0])
	})
	// The same by sums of integers; see exact.Units.
	a.begin("integerRows", "rows R8", "at R9", "samples CX", "windows", "xs R12", "back R13", "t DI", "u", "slopes", "intercepts")
	a.op("XORQ", "BX", "BX")
	a.wideWindows(2, func(g group) {
		if a.zero(g.sums(0)[0], g.sums(0)[1]); g == 0 {
			a.op("MOVQ", "u+56(FP)", "SI")
			a.op("VBROADCASTSD", "(SI)", number)
			a.op("VBROADCASTSD", "8(SI)", unit)
			a.op("VPBROADCASTQ", "16(SI)", delta)
		}
	}, func(g group) {
		sum := g.sums(0)
		a.op("VMULPD", fmt.Sprintf("%d(R10)(R11*1)", a.bytes()*int(g)), number, value)
		a.op("VMULPD", unit, value, second)
		a.addInteger(second, sum[0])
		a.op("VMULPD", a.distances(g), value, value)
		a.nextDistances(g)
		a.addInteger(value, sum[1])
	}, func(g group) {
		y, xy := g.sums(0)[0], g.sums(0)[1]
		a.op("VPADDQ", delta, xy, second)
		a.op("VPSUBQ", delta, xy, xy)
		a.op("VCVTQQ2PD", xy, xy)
		a.op("VCVTQQ2PD", second, second)
		a.op("VCVTQQ2PD", y, y)
		a.op("VCMPPD", unequal, second, xy, "K1")
		a.op("VMULPD.BCST", "24(SI)", xy, xy)
		a.op("VMULPD.BCST", "32(SI)", y, y)
		a.op("VBROADCASTSD", fmt.Sprintf("constants<>+%d(SB)", 8*noNumber), "K1", xy)
		a.solve(g, y, xy)
	})
}

// distances is where those of the next samples of four windows are; see nextDistances.
func (a *assembly) distances(g group) string { return fmt.Sprintf("%d(R12)", a.bytes()*int(g)) }

// nextDistances goes on to those of the samples that follow.
func (a *assembly) nextDistances(g group) {
	if g == 1 {
		a.op("ADDQ", fmt.Sprintf("$%d", 2*a.bytes()), "R12")
	}
}

// solve makes lines of the sum y of values, and that of their products with distances: the slope is
// (xy - x·y/n) / deviations, and the value at the origin is y/n - slope·x/n. The slope is NaN, too,
// where what is divided may be 0 but for rounding, as where all values are equal.
func (a *assembly) solve(g group, y, xy string) {
	a.op("VBROADCASTSD", "48(DI)", number)
	a.op("MOVQ", "0(DI)", "DX")
	a.op("VMOVUPD", fmt.Sprintf("%d(DX)(BX*8)", a.bytes()*int(g)), value)
	a.op("VMULPD", y, value, second)
	a.op("VDIVPD", number, second, second)
	a.op("VSUBPD", second, xy, xy)
	a.op("VBROADCASTSD", "56(DI)", second)
	a.op("VMULPD", y, second, second)
	a.op("VMULPD", second, second, second)
	a.op("VMULPD", xy, xy, free[0])
	a.never(notAbove, second, free[0], xy)
	a.op("MOVQ", "24(DI)", "DX")
	a.op("VDIVPD", fmt.Sprintf("%d(DX)(BX*8)", a.bytes()*int(g)), xy, xy)
	a.store(g, xy, "slopes+64(FP)")
	a.op("VMULPD", xy, value, second)
	a.op("VDIVPD", number, second, second)
	a.op("VDIVPD", number, y, y)
	a.op("VSUBPD", second, y, y)
	a.store(g, y, "intercepts+72(FP)")
	if g == 1 {
		a.op("SUBQ", "R13", "R12")
	}
}

// seconds writes a function that puts the distances of n times, a multiple of 8, from an origin into a
// list.
func (a *assembly) seconds() {
	a.begin("secondsVector", "ts R9", "n CX", "origin", "xs R8")
	a.op("VPBROADCASTQ", "origin+16(FP)", origin)
	a.constant(ms, thousand)
	a.constant(perMs, thousandth)
	a.constant(adder, magic)
	a.eights(func() {
		for i := range 2 {
			a.op("VMOVDQU", fmt.Sprintf("%d(R9)(AX*8)", 32*i), second)
			a.op("VPSUBQ", origin, second, second)
			a.float(second)
			a.divide(second)
			a.op("VMOVUPD", second, fmt.Sprintf("%d(R8)(AX*8)", 32*i))
		}
	})
	a.end()
}

// window writes a function that adds up the n values of a window, and with two sums their products with
// others, and puts the sums of each lane into out. They begin with bases.
func (a *assembly) window(name string, sums int) {
	lists := []string{"vs R8", "xs R9"}[:sums]
	a.begin(name, append(lists, "n CX", "b", "out")...)
	for g := range group(2) {
		a.base(g, sums, 8*sums+8)
	}
	a.eights(func() {
		for g := range group(2) {
			a.op("VMOVUPD", fmt.Sprintf("%d(R8)(AX*8)", 32*int(g)), value)
			a.raise(g.sums(0), value, false)
			if sums > 1 {
				a.op("VMULPD", fmt.Sprintf("%d(R9)(AX*8)", 32*int(g)), value, second)
				a.raise(g.sums(1), second, true)
			}
		}
	})
	a.op("MOVQ", fmt.Sprintf("out+%d(FP)", 8*sums+16), "DI")
	for i := range sums {
		sum, other := group(0).sums(i), group(1).sums(i)
		a.op("VBROADCASTSD", fmt.Sprintf("%d(SI)", 8*i), value)
		a.op("VSUBPD", value, sum[0], sum[0])
		a.op("VSUBPD", value, other[0], other[0])
		a.add(sum, other[0], false)
		a.op("VADDPD", other[1], sum[1], sum[1])
		a.op("VMOVUPD", sum[0], fmt.Sprintf("%d(DI)", 64*i))
		a.op("VMOVUPD", sum[1], fmt.Sprintf("%d(DI)", 64*i+32))
	}
	a.end()
}

// integers writes a function that adds up the n values of a window and their products with others in
// units of integers.
func (a *assembly) integers() {
	a.begin("integersOf", "vs R8", "xs R9", "n DX", "u SI", "out DI")
	a.wide = true
	a.op("VBROADCASTSD", "(SI)", number)
	a.op("VBROADCASTSD", "8(SI)", unit)
	a.op("VPXORQ", "Y0", "Y0", "Y0")
	a.op("VPXORQ", "Y1", "Y1", "Y1")
	a.op("MOVL", "$0xff", "CX")
	a.label("loop")
	a.op("KMOVB", "CX", "K1")
	a.op("CMPQ", "DX", "$8")
	a.jump("JGE", "eight")
	a.op("BZHIL", "DX", "CX", "CX")
	a.op("KMOVB", "CX", "K1")
	a.label("eight")
	a.op("VMULPD.Z", "(R8)", number, "K1", value)
	a.op("VMULPD", unit, value, second)
	a.addInteger(second, "Y0")
	a.op("VMULPD.Z", "(R9)", value, "K1", value)
	a.addInteger(value, "Y1")
	a.op("ADDQ", "$64", "R8")
	a.op("ADDQ", "$64", "R9")
	a.op("SUBQ", "$8", "DX")
	a.jump("JG", "loop")
	a.wide = false
	for i := range 2 {
		x, y, z := fmt.Sprintf("X%d", i), fmt.Sprintf("Y%d", i), fmt.Sprintf("Z%d", i)
		a.op("VEXTRACTI64X4", "$1", z, "Y8")
		a.op("VPADDQ", "Y8", y, y)
		a.op("VEXTRACTI128", "$1", y, "X8")
		a.op("VPADDQ", "X8", x, x)
		a.op("VPSHUFD", "$0xee", x, "X8")
		a.op("VPADDQ", "X8", x, x)
		a.op("VMOVQ", x, fmt.Sprintf("%d(DI)", 8*i))
	}
	a.end()
}

// addInteger adds what is left of values without fractions to sums of integers.
func (a *assembly) addInteger(v, sum string) {
	a.op("VCVTPD2QQ", v, v)
	a.op("VPADDQ", v, sum, sum)
}

// magnitudes writes a function that finds the bits of the largest magnitude of n values, a multiple of 8,
// and those of the least that is not 0, less 1, in each lane.
func (a *assembly) magnitudes() {
	const v, most, least, ones, positive = "Z0", "Z1", "Z2", "Z3", "Z4"
	a.begin("magnitudesVector", "vs R8", "n CX", "out DI")
	a.op("VPXORQ", most, most, most)
	a.op("VPTERNLOGQ", "$0xff", ones, ones, ones)
	a.op("VMOVDQU64", ones, least)
	a.op("VPSRLQ", "$1", ones, positive)
	a.eights(func() {
		a.op("VPANDQ", "(R8)(AX*8)", positive, v)
		a.op("VPMAXUQ", v, most, most)
		a.op("VPADDQ", ones, v, v)
		a.op("VPMINUQ", v, least, least)
	})
	a.op("VMOVDQU64", most, "(DI)")
	a.op("VMOVDQU64", least, "64(DI)")
	a.end()
}

// raise adds values to sums that began with a base, which is far larger, and so know what they lose:
// Dekker, A floating-point technique for extending the available precision, 1971. Aside is as in add, with
// AVX-512 alone.
func (a *assembly) raise(sum [2]string, v string, aside bool) {
	t, e := free[0], free[1]
	if aside && a.wide {
		a.op("VMOVAPD", sum[0], e)
		a.op("VFMADD231PD", v, a.single(), sum[0])
		a.op("VFMSUB231PD", a.single(), sum[0], e)
		a.op("VFNMADD213PD", v, a.single(), e)
		a.op("VFMADD231PD", e, a.single(), sum[1])
		return
	}
	a.op("VADDPD", v, sum[0], t)
	a.op("VSUBPD", sum[0], t, e)
	a.op("VSUBPD", e, v, e)
	a.op("VADDPD", e, sum[1], sum[1])
	a.op("VMOVAPD", t, sum[0])
}

// base has sums begin with the bases that an argument points to, their losses with 0; see exact.bases.
func (a *assembly) base(g group, sums, argument int) {
	a.op("MOVQ", fmt.Sprintf("b+%d(FP)", argument), "SI")
	for i := range sums {
		a.op("VBROADCASTSD", fmt.Sprintf("%d(SI)", 8*i), g.sums(i)[0])
		a.zero(g.sums(i)[1])
	}
	if a.wide && g == 0 {
		a.constant(one, a.single())
	}
}

// round makes a sum that began with base i, and what it has lost, one float, and puts 0 where that is
// certain into the latter's place.
func (a *assembly) round(sum [2]string, i int) {
	a.op("VBROADCASTSD", fmt.Sprintf("%d(SI)", 8*i), value)
	a.op("VSUBPD", value, sum[0], sum[0])
	a.op("VBROADCASTSD", fmt.Sprintf("%d(SI)", 16+8*i), value)
	a.op("VSUBPD", value, sum[1], second)
	a.op("VADDPD", value, sum[1], sum[1])
	a.op("VADDPD", second, sum[0], second)
	a.op("VADDPD", sum[1], sum[0], sum[0])
	a.op("VSUBPD", second, sum[0], sum[1])
}

// float makes integers, all between -2^51 and 2^51, floats.
func (a *assembly) float(v string) {
	if a.wide {
		a.op("VCVTQQ2PD", v, v)
		return
	}
	a.op("VPADDQ", magic, v, v)
	a.op("VSUBPD", magic, v, v)
}

// divide divides integers by 1000. The product with 1/1000 is less than a unit of its last place off,
// and so what it lacks is a float, and with a thousandth of that it is the rounded quotient: Markstein,
// Computation of elementary functions on the IBM RISC System/6000 processor, 1990.
func (a *assembly) divide(v string) {
	a.op("VMULPD", thousandth, v, free[0])
	a.op("VFNMADD231PD", thousand, free[0], v)
	a.op("VFMADD213PD", free[0], thousandth, v)
}
