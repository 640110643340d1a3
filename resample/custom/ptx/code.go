package ptx

import (
	"fmt"

	"github.com/promwarp/promwarp/resample/custom"
)

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
