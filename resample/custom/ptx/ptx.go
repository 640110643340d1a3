// Package ptx translates custom aggregates to PTX, NVIDIA's assembler, which GPUs' drivers compile.
//
// In go the PTX of a kernel of kernels/custom, with pseudo-instructions at the places where a program
// has something to do, and the code of a program, whose instructions it translates one to one; out
// comes PTX without pseudo-instructions.
//
//	custom.add %fd7, %rd3, …;  ──►  { // custom.add %fd7, %rd3, …
//	                                .reg .f64 %cx<4>;
//	                                mov.f64 %cx0, %fd7;
//	                                add.rn.f64 %cx2, %cx1, %cx0;
//	                                …
//	                                }
//
// What comes out has the cores' bits: each operation is rounded for itself (.rn), so that nothing is
// contracted, and Min and Max are made of comparisons. Fields are numbers in registers of the
// kernel, %cs0 and so on; truth values are predicates within a block. The host driver checks and
// interprets the same text (kernels/host/program.h).
//
// Start with Translate.
package ptx

import (
	"bytes"
	"fmt"
	"math"
	"strings"

	"github.com/promwarp/promwarp/resample/custom"
)

// Others is the number of states that a thread has besides its own, as kernels/custom/custom.h has it.
const Others = 4

// fewFields is the most fields of programs that fit into the registers which kernels are divided
// among their threads for.
const fewFields = 4

// Translate puts a program into the PTX of a kernel. It panics if the kernel merges and the program
// cannot, or where the kernel has a place that is not known.
func Translate(kernel []byte, p *custom.Portable) []byte {
	t := &translation{Portable: p}
	entry := bytes.Index(kernel, []byte("\n.visible .entry "))
	begin := entry + bytes.Index(kernel[entry:], []byte("\n{\n")) + len("\n{\n")
	for line := range bytes.Lines(kernel[:begin]) {
		if len(p.Start) <= fewFields || !bytes.HasPrefix(line, []byte(".minnctapersm")) {
			t.Write(line)
		}
	}
	t.line(".reg .f64 %%cs<%d>;", len(p.Start))
	for j := range Others {
		t.line(".reg .f64 %%co%d_<%d>;", j, len(p.Start))
	}
	for line := range bytes.Lines(kernel[begin:]) {
		text, isPlace := strings.CutPrefix(string(bytes.TrimSpace(line)), "custom.")
		if !isPlace {
			t.Write(line)
			continue
		}
		text = strings.TrimSuffix(text, ";")
		place, operands, _ := strings.Cut(text, " ")
		var of []string
		for operand := range strings.SplitSeq(operands, ",") {
			of = append(of, strings.TrimSpace(operand))
		}
		t.line("{ // custom.%s", text)
		t.place(place, of)
		t.line("}")
	}
	return t.Bytes()
}

// translation is PTX as it is written.
type translation struct {
	*custom.Portable
	bytes.Buffer
}

func (t *translation) line(format string, args ...any) {
	fmt.Fprintf(t, "\t"+format+"\n", args...)
}

// constant is a number as PTX has it.
func constant(v float64) string { return fmt.Sprintf("0d%016X", math.Float64bits(v)) }

// state and other are the registers of a field.
func state(field int) string { return fmt.Sprintf("%%cs%d", field) }

func other(number string) func(field int) string {
	return func(field int) string { return fmt.Sprintf("%%co%s_%d", number, field) }
}

// place writes what is done in a place of a kernel, which gives it some operands: see
// kernels/custom/custom.h.
func (t *translation) place(name string, of []string) {
	switch name {
	case "begin":
		t.begin(state)
	case "add":
		t.registers(&t.Add)
		t.add(state, &sample{of[0], of[1], of[2], of[3], of[4]})
	case "result":
		t.result(of)
	case "load":
		t.access("ld.f64 %[2]s, [%[1]s];", state, of)
	case "store":
		t.access("st.f64 [%[1]s], %[2]s;", state, of)
	case "fetch":
		t.access("ld.f64 %[2]s, [%[1]s];", other(of[0]), of[1:])
	case "one":
		t.registers(&t.Add)
		t.begin(other(of[0]))
		t.add(other(of[0]), &sample{v: of[1]})
	case "take":
		for f := range t.Start {
			t.line("mov.f64 %s, %s;", state(f), other(of[0])(f))
		}
	case "merge":
		t.merge(other(of[0]))
	default:
		panic("ptx: a kernel has a place that is not known: " + name)
	}
}

// begin sets fields to what they begin with.
func (t *translation) begin(field func(int) string) {
	for f, v := range t.Start {
		t.line("mov.f64 %s, %s;", field(f), constant(v))
	}
}

// access loads or stores all fields: the first is at of[0], in any memory, each of[1] bytes behind the one
// before.
func (t *translation) access(form string, field func(int) string, of []string) {
	t.line(".reg .b64 %%ca;")
	t.line("mov.b64 %%ca, %s;", of[0])
	for f := range t.Start {
		if f > 0 {
			t.line("add.s64 %%ca, %%ca, %s;", of[1])
		}
		t.line(form, "%ca", field(f))
	}
}

// sample is the registers in which a kernel gives a sample, of which those of times are integers, in
// ms. One that has v alone is a run of its own, of whose times the result does not depend.
type sample struct{ v, t, lastV, lastT, before string }

func (t *translation) add(field func(int) string, s *sample) {
	t.code(&t.Add, func(r register, number uint8) {
		alone := s.before == ""
		switch {
		case number >= custom.InputField:
			t.input(r, field(int(number-custom.InputField)))
		case number == custom.InputV || alone && number == custom.InputPrevV:
			t.line("mov.f64 %s, %s;", r, s.v)
		case alone && number == custom.InputFirst:
			t.line("mov.pred %s, -1;", r)
		case alone:
			t.line("mov.f64 %s, %s;", r, constant(0))
		case number == custom.InputT:
			t.line("cvt.rn.f64.s64 %s, %s;", r, s.t)
		case number == custom.InputFirst:
			t.line("setp.eq.u32 %s, %s, 0;", r, s.before)
		case number == custom.InputPrevV:
			t.line("setp.eq.u32 %%cq0, %s, 0;", s.before)
			t.line("selp.f64 %s, %s, %s, %%cq0;", r, s.v, s.lastV)
		case number == custom.InputPrevT:
			t.line("setp.eq.u32 %%cq0, %s, 0;", s.before)
			t.line("cvt.rn.f64.s64 %%cy, %s;", s.t)
			t.line("cvt.rn.f64.s64 %s, %s;", r, s.lastT)
			t.line("selp.f64 %s, %%cy, %s, %%cq0;", r, r)
		}
	})
	t.outputs(&t.Add, field)
}

func (t *translation) merge(o func(int) string) {
	if t.Merge == nil {
		panic("ptx: a kernel merges states, which the program does not")
	}
	t.registers(t.Merge)
	t.code(t.Merge, func(r register, number uint8) {
		if n := int(number) - len(t.Start); n >= 0 {
			t.input(r, o(n))
			return
		}
		t.input(r, state(int(number)))
	})
	t.outputs(t.Merge, state)
}

// result puts the result into of[0], of a window from of[1] to of[2].
func (t *translation) result(of []string) {
	t.registers(&t.Result)
	t.code(&t.Result, func(r register, number uint8) {
		switch number {
		case custom.ResultStart:
			t.line("cvt.rn.f64.s64 %s, %s;", r, of[1])
		case custom.ResultEnd:
			t.line("cvt.rn.f64.s64 %s, %s;", r, of[2])
		default:
			t.input(r, state(int(number-custom.ResultField)))
		}
	})
	t.outputs(&t.Result, func(int) string { return of[0] })
}

// input puts a field into a register.
func (t *translation) input(r register, field string) {
	if r.Kind == custom.Truth {
		t.line("setp.neu.f64 %s, %s, %s;", r, field, constant(0))
		return
	}
	t.line("mov.f64 %s, %s;", r, field)
}

// outputs puts what code came to into fields, all of which it has read.
func (t *translation) outputs(c *custom.Code, field func(int) string) {
	for f, r := range c.Outputs {
		from := register{r, c.Instrs[r].Kind}
		if from.Kind == custom.Truth {
			t.line("selp.f64 %s, %s, %s, %s;", field(f), constant(1), constant(0), from)
			continue
		}
		t.line("mov.f64 %s, %s;", field(f), from)
	}
}

// register is one of a code's.
type register struct {
	number uint8
	custom.Kind
}

func (r register) String() string {
	if r.Kind == custom.Truth {
		return fmt.Sprintf("%%cp%d", r.number)
	}
	return fmt.Sprintf("%%cx%d", r.number)
}

// simple are operations that are one of PTX's, of numbers.
var simple = map[custom.Op]string{
	custom.Add: "add.rn.f64", custom.Sub: "sub.rn.f64", custom.Mul: "mul.rn.f64", custom.Div: "div.rn.f64",
	custom.Neg: "neg.f64", custom.Abs: "abs.f64", custom.Sqrt: "sqrt.rn.f64",
	custom.Floor: "cvt.rmi.f64.f64", custom.Ceil: "cvt.rpi.f64.f64",
	custom.Less: "setp.lt.f64", custom.LessEqual: "setp.le.f64",
	custom.And: "and.pred", custom.Or: "or.pred", custom.Not: "not.pred",
}

// registers declares those of a block with a code, of which %cq, %cy and %cb are for what takes
// several instructions.
func (t *translation) registers(c *custom.Code) {
	t.line(".reg .f64 %%cx<%d>;", len(c.Instrs))
	t.line(".reg .pred %%cp<%d>;", len(c.Instrs))
	t.line(".reg .f64 %%cy;")
	t.line(".reg .b64 %%cb<2>;")
	t.line(".reg .pred %%cq<2>;")
}

// code writes the instructions of a code, for inputs what input writes.
func (t *translation) code(c *custom.Code, input func(r register, number uint8)) {
	for i := range c.Instrs {
		in := &c.Instrs[i]
		d := register{uint8(i), in.Kind}
		if in.Op == custom.Input {
			input(d, in.A)
			continue
		}
		t.instruction(in, d, register{in.A, c.Instrs[in.A].Kind}, register{in.B, c.Instrs[in.B].Kind}, register{in.C, c.Instrs[in.C].Kind})
	}
}

// instruction writes one that puts its result into d. Of a, b and c it has as many operands as its
// operation.
func (t *translation) instruction(in *custom.Instr, d, a, b, c register) {
	isTruth := in.Kind == custom.Truth
	switch in.Op {
	case custom.Const:
		switch {
		case !isTruth:
			t.line("mov.f64 %s, 0d%016X;", d, in.Bits)
		case in.Bits != 0:
			t.line("mov.pred %s, -1;", d)
		default:
			t.line("mov.pred %s, 0;", d)
		}
	case custom.Copy:
		t.line("mov.%s %s, %s;", map[bool]string{true: "pred", false: "f64"}[isTruth], d, a)
	case custom.Min:
		t.extreme(d, a, b, a, b, "or")
	case custom.Max:
		t.extreme(d, a, b, b, a, "and")
	case custom.Equal:
		if a.Kind == custom.Number {
			t.line("setp.eq.f64 %s, %s, %s;", d, a, b)
			return
		}
		t.line("xor.pred %%cq0, %s, %s;", a, b)
		t.line("not.pred %s, %%cq0;", d)
	case custom.Select:
		if !isTruth {
			t.line("selp.f64 %s, %s, %s, %s;", d, b, c, a)
			return
		}
		t.line("and.pred %%cq0, %s, %s;", a, b)
		t.line("not.pred %%cq1, %s;", a)
		t.line("and.pred %%cq1, %%cq1, %s;", c)
		t.line("or.pred %s, %%cq0, %%cq1;", d)
	default:
		name, ok := simple[in.Op]
		switch {
		case !ok:
			panic(fmt.Sprintf("ptx: operation %d has no translation", in.Op))
		case in.Op.Operands() == 1:
			t.line("%s %s, %s;", name, d, a)
		default:
			t.line("%s %s, %s, %s;", name, d, a, b)
		}
	}
}

// extreme writes the smaller of a and b, where low and high are these, or the larger, where they are
// b and a: a where b is NaN, b where a alone is, and of two zeros what both bits together say.
func (t *translation) extreme(d, a, b, low, high register, zeros string) {
	t.line("setp.neu.f64 %%cq0, %s, %s;", b, b)
	t.line("setp.lt.f64 %%cq1, %s, %s;", low, high)
	t.line("or.pred %%cq0, %%cq0, %%cq1;")
	t.line("setp.ltu.f64 %%cq1, %s, %s;", high, low)
	t.line("mov.b64 %%cb0, %s;", a)
	t.line("mov.b64 %%cb1, %s;", b)
	t.line("%s.b64 %%cb0, %%cb0, %%cb1;", zeros)
	t.line("mov.b64 %%cy, %%cb0;")
	t.line("selp.f64 %%cy, %s, %%cy, %%cq1;", b)
	t.line("selp.f64 %s, %s, %%cy, %%cq0;", d, a)
}
