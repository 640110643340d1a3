// Build writes abreast_amd64.s and lines_amd64.s: loops over the samples of windows side by side, each
// window in a lane of a vector, from a description of what is done to one sample of each. So one addition
// waits for the one before it in the same window, and the processor does those of the others meanwhile.
// There are loops over eight windows anywhere, whose samples are loaded one by one, over many windows whose
// samples lie in rows, and over one window whose neighbouring samples are in the lanes, for sums whose order
// does not matter. And it writes maths_amd64.s: see maths.go.
//
//	go generate ./cpuexec/exact
package main

import (
	"fmt"
	"os"
)

func main() {
	for name, text := range files() {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

// files are what is written, by name.
func files() map[string]string {
	return map[string]string{"abreast_amd64.s": abreast(), "lines_amd64.s": lines(), "maths_amd64.s": maths()}
}

// abreast is the file of sums, means, variances, quantiles and extremes.
func abreast() string {
	a := newAssembly()
	a.function("sumsAbreast", []string{"starts", "n", "out"}, 1, nil, func(g group) {
		a.load(g, value)
		a.add(g.sums(0), value)
	})
	a.function("variancesAbreast", []string{"starts", "n", "out"}, 2, func() {
		a.constant(one, unit)
		a.op("VXORPD", number, number, number)
	}, func(g group) {
		a.load(g, value)
		a.welford(g, g.sums(0))
		a.add(g.sums(1), second)
	})
	a.running()
	a.rows("sumRows", []string{"n", "out"}, nil, func(g group) {
		a.row(g, value)
		a.add(g.sums(0), value)
	}, func(g group) {
		sum := g.sums(0)
		a.op("VBROADCASTSD", "n+32(FP)", number)
		a.op("VDIVPD", number, sum[0], sum[0])
		a.op("VDIVPD", number, sum[1], sum[1])
		a.op("VADDPD", sum[1], sum[0], sum[0])
		a.store(g, sum[0], "out+40(FP)")
	})
	before := [2]string{"Y4", "Y5"} // of each vector
	a.rows("resetRows", []string{"out"}, func(g group) {
		a.op("MOVQ", "-8(R9)(CX*8)", "R11")
		a.row(g, g.sums(0)[0])
		a.op("VMOVUPD", fmt.Sprintf("%d(R10)", a.bytes()*int(g)), before[g])
		a.op("VSUBPD", before[g], g.sums(0)[0], g.sums(0)[0])
	}, func(g group) {
		sum := g.sums(0)[0]
		if a.row(g, value); a.wide {
			a.op("VCMPPD", "$0x11", before[g], value, "K1")
			a.op("VADDPD", before[g], sum, "K1", sum)
		} else {
			a.op("VCMPPD", "$0x11", before[g], value, free[0])
			a.op("VANDPD", free[0], before[g], free[0])
			a.op("VADDPD", free[0], sum, sum)
		}
		a.op("VMOVAPD", value, before[g])
	}, func(g group) { a.store(g, g.sums(0)[0], "out+32(FP)") })
	for _, of := range []struct{ name, op, other string }{{"largest", "VMAXPD", "VMINPD"}, {"smallest", "VMINPD", "VMAXPD"}} {
		name, op := of.name, of.op
		a.rows(name+"Rows", []string{"out"}, func(g group) {
			a.op("VMOVUPD", fmt.Sprintf("%d(R10)", a.bytes()*int(g)), g.sums(0)[0])
		}, func(g group) {
			a.row(g, value)
			a.op(op, g.sums(0)[0], value, g.sums(0)[0])
		}, func(g group) { a.store(g, g.sums(0)[0], "out+32(FP)") })
		a.extreme(name+"Vector", op)
		// The furthest values of two vectors of windows lie in memory, in order; each sample is compared
		// with one after the other, and what is less far goes on.
		a.rows(name+"FewRows", []string{"few", "n", "furthest", "before"}, func(g group) {
			a.op("MOVQ", "few+32(FP)", "SI")
			a.op("MOVQ", "n+40(FP)", "DI")
			if g == 0 {
				a.constant(map[string]int{"largest": lowest, "smallest": highest}[name], unit)
				return
			}
			a.label("begin")
			a.op("VMOVUPD", unit, "(SI)")
			a.op("VMOVUPD", unit, fmt.Sprintf("%d(SI)", a.bytes()))
			a.op("ADDQ", fmt.Sprintf("$%d", 2*a.bytes()), "SI")
			a.op("DECQ", "DI")
			a.jump("JNZ", "begin")
		}, func(g group) {
			v := []string{value, second}
			if a.row(g, v[g]); g == 0 {
				return
			}
			a.op("MOVQ", "few+32(FP)", "SI")
			a.op("MOVQ", "n+40(FP)", "DI")
			a.label("compare")
			for g := range v {
				at, has, better := fmt.Sprintf("%d(SI)", a.bytes()*g), fmt.Sprintf("Y%d", g), free[g]
				a.op("VMOVUPD", at, has)
				a.op(of.op, has, v[g], better)
				a.op(of.other, has, v[g], v[g])
				a.op("VMOVUPD", better, at)
			}
			a.op("ADDQ", fmt.Sprintf("$%d", 2*a.bytes()), "SI")
			a.op("DECQ", "DI")
			a.jump("JNZ", "compare")
		}, func(g group) {
			for i, list := range []string{"furthest+48(FP)", "before+56(FP)"} {
				a.op("VMOVUPD", fmt.Sprintf("%d(SI)", a.bytes()*(int(g)-2*(i+1))), value)
				a.store(g, value, list)
			}
		})
	}
	a.rows("varianceRows", []string{"out"}, func(g group) {
		if g == 0 {
			a.constant(one, unit)
			a.op("VXORPD", number, number, number)
		}
	}, func(g group) {
		a.row(g, value)
		a.welford(g, g.sums(0))
		a.add(g.sums(1), second)
	}, func(g group) {
		squares := g.sums(1)
		a.op("VADDPD", squares[1], squares[0], value)
		a.op("VDIVPD", number, value, value)
		a.store(g, value, "out+32(FP)")
	})
	return a.String()
}
