package custom

import (
	"math"
	"unsafe"

	"github.com/promwarp/promwarp/resample/aggregate"
	"github.com/promwarp/promwarp/resample/bucket"
)

// machine is the memory of a goroutine that runs a program.
type machine struct {
	add    columns
	inputs [InputField][]float64 // columns of add's inputs; nil where it does not read one
	regs   [maxInstrs]float64    // of add's recurrence
	merge  columns
	result columns
}

func (p *program) newMachine() *machine {
	m := &machine{add: newColumns(&p.Add, p.plan.columns)}
	for r, in := range p.Add.Instrs {
		switch {
		case in.Op == Const:
			m.regs[r] = in.number()
		case in.Op == Input && in.A < InputField:
			m.inputs[in.A] = m.add.of[r]
		}
	}
	m.result = allColumns(&p.Result)
	if p.Portable.Merge != nil {
		m.merge = allColumns(p.Portable.Merge)
	}
	return m
}

// allColumns are all registers as columns.
func allColumns(c *Code) columns {
	var all []uint8
	for r, in := range c.Instrs {
		if in.Op != Const {
			all = append(all, uint8(r))
		}
	}
	return newColumns(c, all)
}

// Size implements aggregate.Own.
func (p *program) Size() int {
	if p.window {
		return len(p.fields) + 2
	}
	return len(p.fields)
}

// Bytes implements aggregate.Own.
func (p *program) Bytes() int64 {
	n := len(p.Add.Instrs) + len(p.Result.Instrs)
	if p.Portable.Merge != nil {
		n += len(p.Portable.Merge.Instrs)
	}
	return int64(unsafe.Sizeof(machine{})) + 8*block*int64(n)
}

// Make implements aggregate.Own. Runs that follow one another are computed together, up to a block.
func (p *program) Make(states *aggregate.States, in *aggregate.Runs) {
	m := p.pool.Get().(*machine)
	defer p.pool.Put(m)
	for k := 0; k < len(in.Runs); {
		lo, hi, end := in.Runs[k].First, in.Runs[k].End, k+1
		for end < len(in.Runs) && in.Runs[end].First == hi && in.Runs[end].End-lo <= block {
			hi = in.Runs[end].End
			end++
		}
		for at := k; at < end; at++ {
			for f, start := range p.Start {
				states.Own[f][at] = start
			}
			if p.window {
				setWindow(states.Own[len(p.fields):], at, in)
			}
		}
		for at := lo; at < hi; at += block {
			to := min(at+block, hi)
			m.fill(in, in.Runs[k:end], int(at), int(to))
			m.add.compute(int(to - at))
			for j := k; j < end; j++ {
				if run := in.Runs[j]; run.First < to && at < run.End {
					p.advance(m, states.Own, j, int(max(run.First, at)-at), int(min(run.End, to)-at))
				}
			}
		}
		k = end
	}
}

// setWindow puts the start and the end of the window of run k into own.
func setWindow(own [][]float64, k int, in *aggregate.Runs) {
	at := in.Runs[k].Bucket
	own[0][k], own[1][k] = float64(in.Grid.Opens(at)), float64(in.Grid.Closes(at))
}

// fill puts samples lo to hi, hi excluded, of runs that follow one another into the inputs.
func (m *machine) fill(in *aggregate.Runs, runs []bucket.Run, lo, hi int) {
	if to := m.inputs[InputV]; to != nil {
		copy(to, in.Values[lo:hi])
	}
	if to := m.inputs[InputT]; to != nil {
		for i, t := range in.Times[lo:hi] {
			to[i] = float64(t)
		}
	}
	if to := m.inputs[InputPrevV]; to != nil {
		to[0] = in.Values[max(lo-1, 0)]
		copy(to[1:], in.Values[lo:hi-1])
	}
	if to := m.inputs[InputPrevT]; to != nil {
		to[0] = float64(in.Times[max(lo-1, 0)])
		for i, t := range in.Times[lo : hi-1] {
			to[1+i] = float64(t)
		}
	}
	if to := m.inputs[InputFirst]; to != nil {
		clear(to[:hi-lo])
	}
	for i := range runs {
		m.first(in, int(runs[i].First), lo)
	}
}

// first has the sample at be the first of its run, where the block begins at lo.
func (m *machine) first(in *aggregate.Runs, at, lo int) {
	if at < lo {
		return
	}
	if to := m.inputs[InputPrevV]; to != nil {
		to[at-lo] = in.Values[at]
	}
	if to := m.inputs[InputPrevT]; to != nil {
		to[at-lo] = float64(in.Times[at])
	}
	if to := m.inputs[InputFirst]; to != nil {
		to[at-lo] = 1
	}
}

// advance adds samples lo to hi, hi excluded, of the block to the fields of state k.
func (p *program) advance(m *machine, own [][]float64, k, lo, hi int) {
	for _, r := range p.plan.reductions {
		own[r.field][k] = reduce(r.op, own[r.field][k], m.add.of[r.with][lo:hi])
	}
	rec := &p.plan.recurrence
	if len(rec.fields) == 0 {
		return
	}
	for _, f := range rec.fields {
		m.regs[f.before] = own[f.field][k]
	}
	rec.interpret(&m.regs, m.add.of, lo, hi)
	for _, f := range rec.fields {
		own[f.field][k] = m.regs[f.before]
	}
}

// reduce adds a column to a field.
func reduce(op Op, s float64, column []float64) float64 {
	switch op {
	case Const:
		return column[len(column)-1]
	case Add:
		for _, x := range column {
			s += x
		}
	case Min:
		for _, x := range column {
			s = least(s, x)
		}
	case Max:
		for _, x := range column {
			s = greatest(s, x)
		}
	default:
		for _, x := range column {
			s = operations[op].of(s, x, 0)
		}
	}
	return s
}

// Merge implements aggregate.Own.
func (p *program) Merge(s *aggregate.States, k int, o *aggregate.States, from, n int) {
	m := p.pool.Get().(*machine)
	defer p.pool.Put(m)
	for end := k + n; k < end; k, from = k+n, from+n {
		n = min(block, end-k)
		m.merge.computeOf(n, func(input uint8, column []float64) {
			if f := int(input) - len(p.fields); f >= 0 {
				copy(column, o.Own[f][from:])
			} else {
				copy(column, s.Own[input][k:])
			}
		})
		for f, out := range m.merge.code.Outputs {
			copy(s.Own[f][k:k+n], m.merge.of[out])
		}
	}
}

// results implements aggregate.Definition's Results.
func (p *program) results(in *aggregate.States, which []int32, _ float64, out []float64) {
	m := p.pool.Get().(*machine)
	defer p.pool.Put(m)
	for len(which) > 0 {
		n := min(block, len(which))
		m.result.computeOf(n, func(input uint8, column []float64) {
			at := int(input) - int(ResultField)
			if at < 0 {
				at = len(p.fields) + int(input)
			}
			for i, k := range which[:n] {
				column[i] = in.Own[at][k]
			}
		})
		copy(out, m.result.of[p.Result.Outputs[0]][:n])
		which, out = which[n:], out[n:]
	}
}

// held makes states of a program that has no merge: the samples are held, and the own numbers are
// the window alone.
type held struct{ p *program }

// Size implements aggregate.Own.
func (h held) Size() int { return h.p.Size() - len(h.p.fields) }

// Make implements aggregate.Own.
func (h held) Make(states *aggregate.States, in *aggregate.Runs) {
	if h.p.window {
		for k := range in.Runs {
			setWindow(states.Own, k, in)
		}
	}
}

// Bytes implements aggregate.Own: the program runs when results are made.
func (h held) Bytes() int64 { return h.p.Bytes() }

// Merge implements aggregate.Own: both have the same window.
func (h held) Merge(*aggregate.States, int, *aggregate.States, int, int) {}

// results runs the program over the samples that each state holds.
func (h held) results(in *aggregate.States, which []int32, _ float64, out []float64) {
	run := aggregate.Runs{Runs: make([]bucket.Run, 1), Grid: &bucket.Grid{Starts: make([]int64, 1), Ends: make([]int64, 1)}}
	contents, state := aggregate.Contents{Own: h.p}, aggregate.States{}
	for i, k := range which {
		in.InTime(k)
		run.Times, run.Values, run.Runs[0].End = in.Times[k], in.Values[k], int32(len(in.Times[k]))
		if h.p.window {
			run.Grid.Starts[0], run.Grid.Ends[0] = int64(in.Own[0][k]), int64(in.Own[1][k])
		}
		contents.Make(&state, &run)
		h.p.results(&state, []int32{0}, 0, out[i:])
	}
}

// block is the number of samples, or states, that an instruction goes over at once.
const block = 128

// columns are registers that are vectors: those of some instructions, and of all constants.
type columns struct {
	code *Code
	run  []uint8     // registers that are computed, in order
	of   [][]float64 // by register, block long; nil for what is no column
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

// computeOf is compute of n inputs, which fill puts into their columns.
func (cs *columns) computeOf(n int, fill func(input uint8, column []float64)) {
	for r, in := range cs.code.Instrs {
		if in.Op == Input {
			fill(in.A, cs.of[r][:n])
		}
	}
	cs.compute(n)
}

// compute computes the first n elements of all columns but the inputs, which are there.
func (cs *columns) compute(n int) {
	for _, r := range cs.run {
		in := &cs.code.Instrs[r]
		a := cs.of[in.A]
		b, c := a, a
		switch in.Op.Operands() {
		case 3:
			c = cs.of[in.C]
			fallthrough
		case 2:
			b = cs.of[in.B]
		}
		column(in.Op, cs.of[r][:n], a, b, c)
	}
}

// column computes a column: the operation of each element. Where that has less than two operands, b is a.
func column(op Op, d, a, b, c []float64) {
	switch op {
	case Add:
		each(d, a, b, func(x, y float64) float64 { return x + y })
	case Sub:
		each(d, a, b, func(x, y float64) float64 { return x - y })
	case Mul:
		each(d, a, b, func(x, y float64) float64 { return x * y })
	case Div:
		each(d, a, b, func(x, y float64) float64 { return x / y })
	case Less:
		each(d, a, b, func(x, y float64) float64 { return truth(x < y) })
	case LessEqual:
		each(d, a, b, func(x, y float64) float64 { return truth(x <= y) })
	case Equal:
		each(d, a, b, func(x, y float64) float64 { return truth(x == y) })
	case Select:
		c = c[:len(d)]
		for i := range d {
			d[i] = choose(a[i], b[i], c[i])
		}
	case Not:
		each(d, a, b, func(x, _ float64) float64 { return 1 - x })
	case And:
		each(d, a, b, func(x, y float64) float64 { return math.Float64frombits(math.Float64bits(x) & math.Float64bits(y)) })
	case Or:
		each(d, a, b, func(x, y float64) float64 { return math.Float64frombits(math.Float64bits(x) | math.Float64bits(y)) })
	case Min:
		each(d, a, b, least)
	case Max:
		each(d, a, b, greatest)
	default:
		each(d, a, b, func(x, y float64) float64 { return operations[op].of(x, y, 0) })
	}
}

// each is a loop of its own for each f that it is called with, since the compiler puts both into place.
func each(d, a, b []float64, f func(x, y float64) float64) {
	a, b = a[:len(d)], b[:len(d)]
	for i := range d {
		d[i] = f(a[i], b[i])
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
			regs[s.d] = operations[s.op].of(regs[s.a], regs[s.b], regs[s.c])
		}
		for _, f := range rec.fields {
			regs[f.before] = regs[f.after]
		}
	}
}
