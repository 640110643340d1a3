package custom

import "math"

// Kind is what a register holds.
type Kind uint8

// The kinds. A Truth is 1 or 0 as a float64, so that all registers are alike on cores.
const (
	Number Kind = iota
	Truth
)

func (k Kind) String() string { return [...]string{"a number", "a truth value"}[k] }

// Op is what an instruction does with registers A, B and C.
type Op uint8

// The operations. All but Exp, Log and Pow are exact or rounded as IEEE 754 says, so they have the
// same bits on any executor.
const (
	Input Op = iota // the input of number A
	Const           // Bits as a float64
	Copy
	Add
	Sub
	Mul
	Div
	Neg
	Abs
	Sqrt
	Floor
	Ceil
	Min // the other operand where one is NaN; -0 is below 0
	Max
	Exp
	Log
	Pow
	Less
	LessEqual
	Equal
	And
	Or
	Not
	Select // B where A is true, else C
)

// Instr is an instruction. The one of number i puts its result into register i.
type Instr struct {
	Op      Op
	Kind    Kind // of the result
	A, B, C uint8
	Bits    uint64 // of a Const
}

// Code is instructions in order: each reads registers of those before it alone, and none is
// written twice. Nothing jumps, so what code takes is known before it runs.
type Code struct {
	Instrs  []Instr
	Outputs []uint8 // registers
}

// maxInstrs is the most instructions of a code: what a byte counts.
const maxInstrs = 256

// operations are what operations are: of how many registers, and what they compute. Those of none are
// no more than where a number comes from.
var operations = [...]struct {
	operands int
	of       func(a, b, c float64) float64
}{
	Input:     {},
	Const:     {},
	Copy:      {1, func(a, _, _ float64) float64 { return a }},
	Add:       {2, func(a, b, _ float64) float64 { return a + b }},
	Sub:       {2, func(a, b, _ float64) float64 { return a - b }},
	Mul:       {2, func(a, b, _ float64) float64 { return a * b }},
	Div:       {2, func(a, b, _ float64) float64 { return a / b }},
	Neg:       {1, func(a, _, _ float64) float64 { return -a }},
	Abs:       {1, func(a, _, _ float64) float64 { return math.Abs(a) }},
	Sqrt:      {1, func(a, _, _ float64) float64 { return math.Sqrt(a) }},
	Floor:     {1, func(a, _, _ float64) float64 { return math.Floor(a) }},
	Ceil:      {1, func(a, _, _ float64) float64 { return math.Ceil(a) }},
	Min:       {2, func(a, b, _ float64) float64 { return least(a, b) }},
	Max:       {2, func(a, b, _ float64) float64 { return greatest(a, b) }},
	Exp:       {1, func(a, _, _ float64) float64 { return math.Exp(a) }},
	Log:       {1, func(a, _, _ float64) float64 { return math.Log(a) }},
	Pow:       {2, func(a, b, _ float64) float64 { return math.Pow(a, b) }},
	Less:      {2, func(a, b, _ float64) float64 { return truth(a < b) }},
	LessEqual: {2, func(a, b, _ float64) float64 { return truth(a <= b) }},
	Equal:     {2, func(a, b, _ float64) float64 { return truth(a == b) }},
	And:       {2, func(a, b, _ float64) float64 { return truth(a != 0 && b != 0) }},
	Or:        {2, func(a, b, _ float64) float64 { return truth(a != 0 || b != 0) }},
	Not:       {1, func(a, _, _ float64) float64 { return truth(a == 0) }},
	Select:    {3, choose},
}

// Operands is how many registers an operation reads.
func (op Op) Operands() int { return operations[op].operands }

// reads calls f with the registers that an instruction reads.
func (in *Instr) reads(f func(r uint8)) {
	for i := range in.Op.Operands() {
		f([]uint8{in.A, in.B, in.C}[i])
	}
}

// library reports whether the operation's last bits depend on who computes it.
func (op Op) library() bool { return op == Exp || op == Log || op == Pow }

// builder makes code. What it has made already it does not make again, and what is constant it
// computes at once.
type builder struct {
	code Code
	made map[Instr]uint8
	full bool // there were more than maxInstrs
}

// add returns the register of an instruction.
func (b *builder) add(in Instr) uint8 {
	if in.Op == Select {
		if c := b.code.Instrs[in.A]; c.Op == Const {
			if c.Bits != 0 {
				return in.B
			}
			return in.C
		}
	}
	if folded, ok := b.fold(in); ok {
		in = folded
	}
	if r, ok := b.made[in]; ok {
		return r
	}
	if len(b.code.Instrs) == maxInstrs {
		b.full = true
		return 0
	}
	r := uint8(len(b.code.Instrs))
	b.code.Instrs = append(b.code.Instrs, in)
	b.made[in] = r
	return r
}

// fold computes an instruction whose operands are constant.
func (b *builder) fold(in Instr) (Instr, bool) {
	if in.Op.Operands() == 0 {
		return in, false
	}
	var x [3]float64
	constant, i := true, 0
	in.reads(func(r uint8) {
		of := b.code.Instrs[r]
		constant = constant && of.Op == Const
		x[i] = of.number()
		i++
	})
	return Instr{Op: Const, Kind: in.Kind, Bits: math.Float64bits(operations[in.Op].of(x[0], x[1], x[2]))}, constant
}

// finish returns the code with the instructions that its outputs need alone.
func (b *builder) finish(outputs []uint8) Code {
	needed := make([]bool, len(b.code.Instrs))
	for _, r := range outputs {
		needed[r] = true
	}
	for i := len(needed) - 1; i >= 0; i-- {
		if needed[i] {
			b.code.Instrs[i].reads(func(r uint8) { needed[r] = true })
		}
	}
	var c Code
	at := make([]uint8, len(needed))
	for i, in := range b.code.Instrs {
		if !needed[i] {
			continue
		}
		at[i] = uint8(len(c.Instrs))
		if in.Op != Input {
			in.A, in.B, in.C = at[in.A], at[in.B], at[in.C]
		}
		c.Instrs = append(c.Instrs, in)
	}
	for _, r := range outputs {
		c.Outputs = append(c.Outputs, at[r])
	}
	return c
}

// truth is 1 or 0, by bits: of integers the compiler makes no branch, which may not be foreseen.
func truth(is bool) float64 {
	var bits uint64
	if is {
		bits = one
	}
	return math.Float64frombits(bits)
}

// one is the bits of 1.
const one = 0x3ff << 52

// choose is b where a is 1, c where it is 0, by bits, too.
func choose(a, b, c float64) float64 {
	mask := -(math.Float64bits(a) >> 61 & 1)
	return math.Float64frombits(math.Float64bits(b)&mask | math.Float64bits(c)&^mask)
}

// least is the smaller of two numbers, or the one that is not NaN.
func least(a, b float64) float64 {
	switch {
	case a < b || b != b:
		return a
	case b < a || a != a:
		return b
	}
	return min(a, b) // two zeros
}

// greatest is the larger of two numbers, or the one that is not NaN.
func greatest(a, b float64) float64 { return -least(-a, -b) }

// number is the value of a Const.
func (in *Instr) number() float64 { return math.Float64frombits(in.Bits) }
