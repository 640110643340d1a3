package custom

import "slices"

// plan says how cores go over the code of add.
type plan struct {
	columns    []uint8 // registers that depend on samples alone, in order; constants are left out
	reductions []reduction
	recurrence recurrence
}

// reduction is a field that becomes itself and a column's value: a loop of its own.
type reduction struct {
	op    Op // Add, Min, Max, And, Or; Const if the field becomes the column's last value
	field int
	with  uint8 // register of the column
}

// recurrence is what is left: instructions for each sample.
type recurrence struct {
	loads  []uint8 // registers of columns that it reads
	instrs []step
	fields []fieldMove
}

// step is an instruction with the register of its result.
type step struct {
	op         Op
	d, a, b, c uint8
}

// fieldMove says where the recurrence has a field: in one register before a sample, in another after.
type fieldMove struct {
	field         int
	before, after uint8
}

// newPlan divides the code of add; fields is the number of fields of its state.
func newPlan(c *Code, fields int) plan {
	var p plan
	n := len(c.Instrs)
	stateful := make([]bool, n)
	before := make([]int, fields) // register of a field's value before the sample, or -1
	for f := range before {
		before[f] = -1
	}
	for r := range c.Instrs {
		in := &c.Instrs[r]
		if in.Op == Input && in.A >= InputField {
			stateful[r] = true
			before[in.A-InputField] = r
		}
		in.reads(func(a uint8) { stateful[r] = stateful[r] || stateful[a] })
	}
	for r, in := range c.Instrs {
		if !stateful[r] && in.Op != Const {
			p.columns = append(p.columns, uint8(r))
		}
	}
	readers := make([]int, n) // instructions and outputs that read a register
	for _, in := range c.Instrs {
		in.reads(func(a uint8) { readers[a]++ })
	}
	for _, out := range c.Outputs {
		readers[out]++
	}
	var rest []int
	for f, out := range c.Outputs {
		if int(out) == before[f] {
			if readers[out] > 1 {
				rest = append(rest, f) // others read the field, which stays
			}
			continue
		}
		if r, ok := reductionOf(c, f, before[f], stateful, readers); ok {
			p.reductions = append(p.reductions, r)
			continue
		}
		rest = append(rest, f)
	}
	p.recurrence = recurrenceOf(c, rest, before, stateful)
	return p
}

// reductionOf is how a field is reduced, if nothing but its own reduction reads it.
func reductionOf(c *Code, f, before int, stateful []bool, readers []int) (reduction, bool) {
	out := c.Outputs[f]
	if !stateful[out] {
		return reduction{Const, f, out}, before < 0
	}
	in := c.Instrs[out]
	if before < 0 || readers[before] != 1 || readers[out] != 1 || !slices.Contains([]Op{Add, Min, Max, And, Or}, in.Op) {
		return reduction{}, false
	}
	with := in.A
	if int(with) == before {
		with = in.B
	}
	if stateful[with] {
		return reduction{}, false
	}
	return reduction{in.Op, f, with}, int(in.A) == before || int(in.B) == before
}

// recurrenceOf is the instructions that some fields need.
func recurrenceOf(c *Code, fields, before []int, stateful []bool) (rec recurrence) {
	needed := make([]bool, len(c.Instrs))
	for _, f := range fields {
		needed[c.Outputs[f]] = true
		if before[f] >= 0 {
			needed[before[f]] = true
		}
	}
	for r := len(needed) - 1; r >= 0; r-- {
		if in := &c.Instrs[r]; needed[r] && stateful[r] {
			in.reads(func(a uint8) { needed[a] = true })
		}
	}
	for r, in := range c.Instrs {
		switch {
		case !needed[r] || in.Op == Const:
		case !stateful[r]:
			rec.loads = append(rec.loads, uint8(r))
		case in.Op != Input:
			rec.instrs = append(rec.instrs, step{in.Op, uint8(r), in.A, in.B, in.C})
		}
	}
	for _, f := range fields {
		m := fieldMove{f, c.Outputs[f], c.Outputs[f]}
		if before[f] >= 0 {
			m.before = uint8(before[f])
		}
		rec.fields = append(rec.fields, m)
	}
	return rec
}
