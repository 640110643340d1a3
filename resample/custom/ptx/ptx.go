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
		t.access("ld.global.f64 %[2]s, [%[1]s];", state, of)
	case "store":
		t.access("st.global.f64 [%[1]s], %[2]s;", state, of)
	case "fetch":
		t.access("ld.global.f64 %[2]s, [%[1]s];", other(of[0]), of[1:])
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

// access loads or stores all fields: the first is at of[0], each of[1] bytes behind the one before.
func (t *translation) access(form string, field func(int) string, of []string) {
	t.line(".reg .b64 %%ca;")
	t.line("cvta.to.global.u64 %%ca, %s;", of[0])
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
