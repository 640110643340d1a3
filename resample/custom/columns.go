package custom

import "math"

// block is the number of samples, or states, that an instruction goes over at once.
const block = 128

// columns are registers that are vectors: those of some instructions, and of all constants.
type columns struct {
	code *Code
	run  []uint8     // registers that are computed, in order
	of   [][]float64 // by register, block long; nil for those that are none
}

func newColumns(c *Code, registers []uint8) columns {
	cs := columns{code: c, of: make([][]float64, len(c.Instrs))}
	for r, in := range c.Instrs {
		if in.Op == Const {
			cs.of[r] = make([]float64, block)
			for i := range cs.of[r] {
				cs.of[r][i] = in.number()
			}
		}
	}
	for _, r := range registers {
		cs.of[r] = make([]float64, block)
		if c.Instrs[r].Op.Operands() > 0 {
			cs.run = append(cs.run, r)
		}
	}
	return cs
}

// compute computes the first n elements of all columns but the inputs, which are there.
func (cs *columns) compute(n int) {
	for _, r := range cs.run {
		in := &cs.code.Instrs[r]
		d, a, b, c := cs.of[r][:n], cs.of[in.A], []float64(nil), []float64(nil)
		switch in.Op.Operands() {
		case 3:
			c = cs.of[in.C]
			fallthrough
		case 2:
			b = cs.of[in.B]
		}
		column(in.Op, d, a, b, c)
	}
}

// column computes a column: apply for each element.
func column(op Op, d, a, b, c []float64) {
	a = a[:len(d)]
	if op.Operands() > 1 {
		b = b[:len(d)]
	}
	switch op {
	case Add:
		for i := range d {
			d[i] = a[i] + b[i]
		}
	case Sub:
		for i := range d {
			d[i] = a[i] - b[i]
		}
	case Mul:
		for i := range d {
			d[i] = a[i] * b[i]
		}
	case Div:
		for i := range d {
			d[i] = a[i] / b[i]
		}
	case Less:
		for i := range d {
			d[i] = truth(a[i] < b[i])
		}
	case LessEqual:
		for i := range d {
			d[i] = truth(a[i] <= b[i])
		}
	case Equal:
		for i := range d {
			d[i] = truth(a[i] == b[i])
		}
	case Select:
		c = c[:len(d)]
		for i := range d {
			d[i] = choose(a[i], b[i], c[i])
		}
	case Not:
		for i := range d {
			d[i] = 1 - a[i]
		}
	case And:
		for i := range d {
			d[i] = math.Float64frombits(math.Float64bits(a[i]) & math.Float64bits(b[i]))
		}
	case Or:
		for i := range d {
			d[i] = math.Float64frombits(math.Float64bits(a[i]) | math.Float64bits(b[i]))
		}
	case Min:
		for i := range d {
			d[i] = least(a[i], b[i])
		}
	case Max:
		for i := range d {
			d[i] = greatest(a[i], b[i])
		}
	case Exp:
		for i := range d {
			d[i] = math.Exp(a[i])
		}
	case Log:
		for i := range d {
			d[i] = math.Log(a[i])
		}
	default:
		for i := range d {
			var y float64
			if b != nil {
				y = b[i]
			}
			d[i] = apply(op, a[i], y, 0)
		}
	}
}

// interpret computes the steps of a recurrence for the samples from lo to hi, hi excluded. The
// registers have constants and the fields before, and then the fields after.
func (rec *recurrence) interpret(regs *[maxInstrs]float64, of [][]float64, lo, hi int) {
	for i := lo; i < hi; i++ {
		for _, r := range rec.loads {
			regs[r] = of[r][i]
		}
		for k := range rec.instrs {
			s := &rec.instrs[k]
			a, b := regs[s.a], regs[s.b]
			var d float64
			switch s.op {
			case Add:
				d = a + b
			case Sub:
				d = a - b
			case Mul:
				d = a * b
			case Div:
				d = a / b
			case Less:
				d = truth(a < b)
			case Select:
				d = choose(a, b, regs[s.c])
			case Min:
				d = least(a, b)
			case Max:
				d = greatest(a, b)
			default:
				d = apply(s.op, a, b, 0)
			}
			regs[s.d] = d
		}
		for _, f := range rec.fields {
			regs[f.before] = regs[f.after]
		}
	}
}
