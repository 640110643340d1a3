package main

import (
	"fmt"
	"strings"
)

// Registers: Y0 to Y7 are sums.
const (
	value, second = "Y8", "Y9" // of one sample of four windows: its value, its time, or what is made of both
	number, unit  = "Y13", "Y14"
	delta         = "Y15"
	magic         = "Y15" // of what turns integers into floats
	// What ms are divided by, and 1 over that.
	thousand, thousandth = "Y14", "Y13"
	// Indices of constants.
	one, ms, adder, lowest, highest, perMs, noNumber, belowZero = 0, 1, 2, 3, 4, 5, 6, 7
	zero, origin                                                = "Y11", "Y12"
	// What VCMPPD asks.
	notAbove, unordered, unequal = "$2", "$3", "$4"
)

var (
	free = []string{"Y10", "Y11", "Y12"}
	// Pointers to the first samples of the windows.
	starts = []string{"R8", "R9", "R10", "R11", "R12", "R13", "SI", "DI"}
	// 1; 1000; what, added to the bits of an integer below 2^51, makes them those of a float that
	// is so much more than itself; what is infinite; a thousandth; NaN; the zero below zero.
	constants = []string{"$1.0", "$1000.0", "$0x4338000000000000", "$0xfff0000000000000", "$0x7ff0000000000000", "$0.001", "$0x7ff8000000000001", "$0x8000000000000000"}
)

// group is a vector of the windows.
type group int

// sums are the registers of a sum of these windows and of what it has lost.
func (g group) sums(i int) [2]string {
	first := 4*i + int(2*(g%2)) + int(g/2)*16
	return [2]string{fmt.Sprintf("Y%d", first), fmt.Sprintf("Y%d", first+1)}
}

type assembly struct {
	strings.Builder
	wide   bool  // vectors are of AVX-512
	alone  bool  // additions are all that is done
	groups group // that go through the loops of rows side by side
}

// bytes are those of a vector.
func (a *assembly) bytes() int {
	if a.wide {
		return 64
	}
	return 32
}

func (a *assembly) op(name string, operands ...string) {
	all := strings.Join(operands, ", ")
	if a.wide {
		all = strings.ReplaceAll(all, "Y", "Z")
	}
	fmt.Fprintf(a, "\t%s %s\n", name, all)
}

// begin begins a function with arguments, and loads those into registers that have one.
func (a *assembly) begin(name string, args ...string) {
	var loads []string
	for i, arg := range args {
		if argument, register, ok := strings.Cut(arg, " "); ok {
			loads = append(loads, fmt.Sprintf("\tMOVQ %s+%d(FP), %s\n", argument, 8*i, register))
			args[i] = argument
		}
	}
	fmt.Fprintf(a, "\n// func %s(%s)\nTEXT ·%s(SB), NOSPLIT, $0-%d\n", name, strings.Join(args, ", "), name, 8*len(args))
	a.WriteString(strings.Join(loads, ""))
}

// end returns.
func (a *assembly) end() {
	a.op("VZEROUPPER")
	a.op("RET")
}

// eights writes a loop over CX of something, a multiple of 8, eight at a time from AX on.
func (a *assembly) eights(step func()) {
	a.op("XORQ", "AX", "AX")
	a.label("loop")
	step()
	a.op("ADDQ", "$8", "AX")
	a.op("CMPQ", "AX", "CX")
	a.jump("JL", "loop")
}

// function writes a function that begins each window with a number of sums of zero, does step to each
// of n samples, and puts the sums into out. Where the windows follow each other, those that come then
// are fetched meanwhile, in the order of memory: eight streams at once are more than processors foresee.
func (a *assembly) function(name string, args []string, sums int, begin func(), step func(g group)) {
	a.begin(name, args...)
	a.op("MOVQ", "starts+0(FP)", "DX")
	for i, start := range starts {
		a.op("MOVQ", fmt.Sprintf("%d(DX)", 8*i), start)
	}
	for i := range 4 * sums {
		a.op("VXORPD", fmt.Sprintf("Y%[1]d, Y%[1]d, Y%[1]d", i))
	}
	if begin != nil {
		begin()
	}
	a.op("MOVQ", "n+8(FP)", "CX")
	a.op("LEAQ", "(DI)(CX*8)", "BX")
	a.op("MOVQ", "CX", "AX")
	a.op("SHLQ", "$6", "AX")
	a.op("MOVQ", "DI", "DX")
	a.op("SUBQ", "R8", "DX")
	a.op("CMPQ", "DX", "AX")
	a.op("SBBQ", "DX", "DX")
	a.op("ANDQ", "$64", "DX")
	a.op("XORQ", "AX", "AX")
	a.WriteString("\nloop:\n")
	for g := range group(2) {
		step(g)
	}
	a.op("PREFETCHT1", "(BX)")
	a.op("ADDQ", "DX", "BX")
	a.op("INCQ", "AX")
	a.op("CMPQ", "AX", "CX")
	a.op("JL", "loop")
	a.op("MOVQ", "out+16(FP)", "DX")
	for i := range 4 * sums {
		a.op("VMOVUPD", fmt.Sprintf("Y%d", i), fmt.Sprintf("%d(DX)", 32*i))
	}
	a.end()
}

// welford adds a value to means, and puts what is to be added to sums of squares into second: the
// product of what the value is off the mean before it and after it.
func (a *assembly) welford(g group, mean [2]string) {
	if a.wide {
		a.wideWelford(g, mean)
		return
	}
	if g == 0 {
		a.op("VADDPD", unit, number, number)
	}
	a.op("VADDPD", mean[1], mean[0], free[0])
	a.op("VSUBPD", free[0], value, delta)
	a.op("VDIVPD", number, delta, second)
	a.add(mean, second, false)
	a.op("VADDPD", mean[1], mean[0], free[0])
	a.op("VSUBPD", free[0], value, value)
	a.op("VMULPD", value, delta, second)
}

// wideWelford is welford with AVX-512, by the reciprocals r of the numbers k of values, which R12 points
// to. The compensated mean is retained from one value to the next. d/k is made of these in three operations:
//
//	q = d·r    rest = d - k·q    q + rest·r
//
// The first q is off d/k by 2^-52 of it at most, or little more, as r and the product are rounded. So the
// rest is a multiple of q's last bit, and about 2k of these at most, which is a float. The sum is off d/k by
// 2^-104 of it before it is rounded. d/k is no middle between two floats: k times a middle has more bits
// than d. So d/k is the k-th part of half a last bit away from a middle, or more, which for every k below
// 2^49 is further than 2^-104 of it, and the sum is rounded as d/k is. (Markstein, see divide, has the same
// of all divisors.) Below the least normal number d/k may be a middle: windows with such a quotient, and
// some beside these, are NaN.
func (a *assembly) wideWelford(g group, mean [2]string) {
	at := retained(g)
	if g == 0 {
		a.op("VADDPD.BCST", fmt.Sprintf("constants<>+%d(SB)", 8*one), number, number)
		a.op("VBROADCASTSD", "(R12)(AX*8)", unit)
	}
	a.op("VSUBPD", at, value, delta)
	a.op("VMULPD", unit, delta, second)
	a.op("VMOVAPD", delta, free[0])
	a.op("VFNMADD231PD", second, number, free[0])
	a.op("VFMADD231PD", free[0], unit, second)
	a.op("VFPCLASSPDZ", "$0x20", second, "K1")
	a.op("KORB", "K1", tiny, tiny)
	a.add(mean, second, false)
	a.op("VADDPD", mean[1], mean[0], at)
	a.op("VSUBPD", at, value, value)
	a.op("VMULPD", value, delta, second)
}

// Where it is noted that a quotient was no normal number, in whatever vector, and which roots are made.
const tiny, rooted = "K2", "K3"

// retained is where a compensated mean is.
func retained(g group) string { return fmt.Sprintf("Y%d", 24+int(g)) }

// rows writes a function over windows whose samples lie in rows, two vectors of them at a time; see
// exact.Rows. It does begin, then step to each sample, and end after the last.
// Where there are too few windows for the last time, it makes some of those before anew. Vectors are
// of AVX-512 where the processor has these.
func (a *assembly) rows(name string, args []string, begin, step, end func(g group)) {
	a.begin(name, append([]string{"rows R8", "at R9", "samples CX", "windows"}, args...)...)
	a.op("XORQ", "BX", "BX")
	a.op("CMPB", "·hasWide(SB)", "$1")
	a.op("JEQ", "windowsWide")
	a.allWindows(begin, step, end)
	a.wideWindows(2, begin, step, end)
}

// wideWindows is allWindows with AVX-512, a number of vectors at a time.
func (a *assembly) wideWindows(groups group, begin, step, end func(g group)) {
	a.wide, a.groups = true, groups
	a.allWindows(begin, step, end)
	a.wide, a.groups = false, 2
}

// allWindows writes the loop of rows, and returns.
func (a *assembly) allWindows(begin, step, end func(g group)) {
	a.label("windows")
	a.op("LEAQ", "(R8)(BX*8)", "R10")
	for g := range a.groups {
		begin(g)
	}
	a.op("XORQ", "AX", "AX")
	a.label("loop")
	a.op("MOVQ", "(R9)(AX*8)", "R11")
	for g := range a.groups {
		step(g)
	}
	a.op("INCQ", "AX")
	a.op("CMPQ", "AX", "CX")
	a.jump("JL", "loop")
	for g := range a.groups {
		end(g)
	}
	a.op("MOVQ", "windows+24(FP)", "DX")
	a.op("ADDQ", fmt.Sprintf("$%d", a.bytes()/8*int(a.groups)), "BX")
	a.op("CMPQ", "BX", "DX")
	a.jump("JGE", "done")
	a.op("SUBQ", fmt.Sprintf("$%d", a.bytes()/8*int(a.groups)), "DX")
	a.op("CMPQ", "BX", "DX")
	a.op("CMOVQGT", "DX", "BX")
	a.jump("JMP", "windows")
	a.label("done")
	a.end()
}

// zero makes registers 0.
func (a *assembly) zero(registers ...string) {
	for _, register := range registers {
		a.op("VXORPD", register, register, register)
	}
}

// label writes a label, which there may be with either kind of vectors.
func (a *assembly) label(name string) { fmt.Fprintf(a, "\n%s:\n", a.labelled(name)) }

// jump writes a jump to it.
func (a *assembly) jump(op, label string) { fmt.Fprintf(a, "\t%s %s\n", op, a.labelled(label)) }

func (a *assembly) labelled(name string) string {
	if a.wide {
		return name + "Wide"
	}
	return name
}

// extreme writes a function that returns the first of n samples, a positive multiple of 16, or what is
// left of it and of all others by an operation that takes what is on the right where that is NaN.
func (a *assembly) extreme(name, op string) {
	fmt.Fprintf(a, "\n// func %s(vs *float64, n int) float64\nTEXT ·%s(SB), NOSPLIT, $0-24\n", name, name)
	a.op("MOVQ", "vs+0(FP)", "SI")
	a.op("MOVQ", "n+8(FP)", "CX")
	for i := range 4 {
		a.op("VBROADCASTSD", "(SI)", fmt.Sprintf("Y%d", i))
	}
	a.WriteString("\nloop:\n")
	for i := range 4 {
		a.op("VMOVUPD", fmt.Sprintf("%d(SI)", 32*i), value)
		a.op(op, fmt.Sprintf("Y%[1]d, %[2]s, Y%[1]d", i, value))
	}
	a.op("ADDQ", "$128", "SI")
	a.op("SUBQ", "$16", "CX")
	a.op("JNZ", "loop")
	a.op(op, "Y1", "Y0", "Y0")
	a.op(op, "Y3", "Y2", "Y2")
	a.op(op, "Y2", "Y0", "Y0")
	a.op("VEXTRACTF128", "$1", "Y0", "X1")
	a.op(op, "X1", "X0", "X0")
	a.op("VPERMILPD", "$1", "X0", "X1")
	a.op(op, "X1", "X0", "X0")
	a.op("VMOVSD", "X0", "ret+16(FP)")
	a.end()
}

// row loads the next sample of four windows that lie in rows.
func (a *assembly) row(g group, to string) {
	a.op("VMOVUPD", fmt.Sprintf("%d(R10)(R11*1)", a.bytes()*int(g)), to)
}

// store stores what four windows come to into a list that an argument points to.
func (a *assembly) store(g group, from, list string) {
	a.op("MOVQ", list, "DX")
	a.op("VMOVUPD", from, fmt.Sprintf("%d(DX)(BX*8)", a.bytes()*int(g)))
}

// load loads the next sample of four windows.
func (a *assembly) load(g group, to string) {
	x, y := strings.Replace(to, "Y", "X", 1), strings.Replace(free[0], "Y", "X", 1)
	at := func(i int) string { return fmt.Sprintf("(%s)(AX*8)", starts[4*int(g)+i]) }
	a.op("VMOVSD", at(0), x)
	a.op("VMOVHPD", at(1), x, x)
	a.op("VMOVSD", at(2), y)
	a.op("VMOVHPD", at(3), y, y)
	a.op("VINSERTF128", "$1", y, to, to)
}

// add adds values to sums and their rounding errors to what these have lost: see twoSum. Where nothing
// waits for that, some of it is aside: left to what multiplies in a processor, by a register that must be 1,
// see single. It takes longer, and has nothing else to do. With AVX-512 the larger magnitude is the first,
// as Dekker has it, and four additions do; of these alone, the first is best left to what adds.
func (a *assembly) add(sum [2]string, v string, aside bool) {
	t, b, d := free[0], free[1], free[2]
	if a.wide {
		a.op("VRANGEPD", "$7", v, sum[0], b)
		a.op("VRANGEPD", "$6", v, sum[0], d)
	}
	switch {
	case a.wide && aside:
		if a.alone {
			a.op("VADDPD", v, sum[0], sum[0])
		} else {
			a.op("VFMADD231PD", v, a.single(), sum[0])
		}
		a.op("VFNMADD213PD", sum[0], a.single(), b)
		a.op("VFNMADD231PD", b, a.single(), d)
		a.op("VFMADD231PD", d, a.single(), sum[1])
		return
	case a.wide:
		a.op("VADDPD", v, sum[0], sum[0])
		a.op("VSUBPD", b, sum[0], b)
		a.op("VSUBPD", b, d, d)
		a.op("VADDPD", d, sum[1], sum[1])
		return
	}
	a.op("VADDPD", v, sum[0], t)
	a.op("VSUBPD", sum[0], t, b)
	a.op("VSUBPD", b, t, d)
	if aside {
		a.op("VFNMADD213PD", sum[0], a.single(), d)
		a.op("VFNMADD213PD", v, a.single(), b)
		a.op("VFMADD213PD", b, a.single(), d)
	} else {
		a.op("VSUBPD", d, sum[0], d)
		a.op("VSUBPD", b, v, b)
		a.op("VADDPD", b, d, d)
	}
	a.op("VADDPD", d, sum[1], sum[1])
	a.op("VMOVAPD", t, sum[0])
}

// single is where 1 is, for add.
func (a *assembly) single() string {
	if a.wide {
		return "Y28"
	}
	return unit
}

// never makes those values NaN for which two others compare so.
func (a *assembly) never(compare, x, y, v string) {
	if y == zero {
		a.op("VXORPD", zero, zero, zero)
	}
	if a.wide {
		a.op("VCMPPD", compare, x, y, "K1")
		a.op("VBROADCASTSD", fmt.Sprintf("constants<>+%d(SB)", 8*noNumber), "K1", v)
		return
	}
	a.op("VCMPPD", compare, x, y, free[0])
	a.op("VORPD", free[0], v, v)
}

func (a *assembly) constant(i int, to string) {
	a.op("VBROADCASTSD", fmt.Sprintf("constants<>+%d(SB)", 8*i), to)
}

// differ writes a function that tells by a bitmap which of n values, a multiple of 8, differ from those
// before them, of which the first is the value before, and puts 0 where none of all is NaN into nan.
func (a *assembly) differ() {
	a.begin("differVector", "befores SI", "n CX", "out DI", "nan DX")
	a.op("KXORW", "K2", "K2", "K2")
	a.op("XORQ", "AX", "AX")
	a.label("loop")
	a.op("VMOVUPD", "(SI)(AX*8)", "Z0")
	a.op("VCMPPD", unequal, "8(SI)(AX*8)", "Z0", "K1")
	a.op("KMOVB", "K1", "(DI)")
	a.op("VCMPPD", unordered, "8(SI)(AX*8)", "Z0", "K1")
	a.op("KORW", "K1", "K2", "K2")
	a.op("INCQ", "DI")
	a.op("ADDQ", "$8", "AX")
	a.op("CMPQ", "AX", "CX")
	a.jump("JL", "loop")
	a.op("KMOVB", "K2", "(DX)")
	a.end()
}
