package custom

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/promwarp/promwarp/resample/aggregate"
)

// The inputs of add: the sample, the one before it in the run (itself at the first), and whether it
// is the first. Fields follow.
const (
	InputV uint8 = iota
	InputT
	InputPrevV
	InputPrevT
	InputFirst
	InputField
)

// The inputs of result. Fields follow.
const (
	ResultStart uint8 = iota
	ResultEnd
	ResultField
)

// program is a compiled Source. A state is its fields in the order of their names, then the start
// and the end of the window in ms if result reads them.
type program struct {
	Portable
	source *Source
	fields []string
	kinds  []Kind
	window bool      // result reads the window
	times  bool      // add or result reads times
	plan   plan      // of add
	pool   sync.Pool // of *machine
}

// program compiles all parts.
func (s *Source) program() (*program, error) {
	if err := s.checkNames(); err != nil {
		return nil, err
	}
	p := &program{source: s, fields: slices.Sorted(maps.Keys(s.State))}
	for _, name := range p.fields {
		l := p.lowering("state."+name, nil)
		v, err := l.expression(s.State[name])
		if err != nil {
			return nil, err
		}
		p.kinds = append(p.kinds, v.kind)
		p.Start = append(p.Start, l.code.Instrs[v.register].number())
	}
	adds := map[string]input{"v": {InputV, Number}, "t": {InputT, Number}, "prev_v": {InputPrevV, Number}, "prev_t": {InputPrevT, Number}, "first": {InputFirst, Truth}}
	results := map[string]input{"start": {ResultStart, Number}, "end": {ResultEnd, Number}}
	merges := map[string]input{}
	for i, name := range p.fields {
		adds[name] = input{InputField + uint8(i), p.kinds[i]}
		results[name] = input{ResultField + uint8(i), p.kinds[i]}
		merges["a."+name] = input{uint8(i), p.kinds[i]}
		merges["b."+name] = input{uint8(len(p.fields) + i), p.kinds[i]}
	}
	var err error
	if p.Add, err = p.compile("add", s.Add, adds); err != nil {
		return nil, err
	}
	if s.Merge != nil {
		c, err := p.compile("merge", s.Merge, merges)
		if err != nil {
			return nil, err
		}
		p.Portable.Merge = &c
	}
	l := p.lowering("result", results)
	v, err := l.expression(s.Result)
	if err == nil {
		l.must(nil, v, Number)
	}
	if l.err != nil {
		return nil, l.err
	}
	p.Result = l.finish([]uint8{v.register})
	p.window = p.Result.input(ResultStart) || p.Result.input(ResultEnd)
	p.times = p.window || p.Add.input(InputT) || p.Add.input(InputPrevT)
	p.plan = newPlan(&p.Add, len(p.fields))
	p.pool.New = func() any { return p.newMachine() }
	return p, nil
}

func (p *program) lowering(part string, inputs map[string]input) *lowering {
	return &lowering{builder: builder{made: map[Instr]uint8{}}, function: p.source.Name, part: part, inputs: inputs}
}

// compile makes the code of a part with an expression for each field.
func (p *program) compile(part string, texts map[string]string, inputs map[string]input) (Code, error) {
	l := p.lowering("", inputs)
	var outputs []uint8
	for i, name := range p.fields {
		l.part = part + "." + name
		v, err := l.expression(texts[name])
		if err == nil && v.kind != p.kinds[i] {
			l.wrong(nil, fmt.Sprintf("it is %v, and the field begins as %v", v.kind, p.kinds[i]), "")
		}
		if l.err != nil {
			return Code{}, l.err
		}
		own, ofState := inputs[name]
		if in := l.code.Instrs[v.register]; ofState && in.Op == Input && in.A >= InputField && in.A != own.number {
			// A register of its own, so that fields may become what others were one after another.
			v.register = l.add(Instr{Op: Copy, Kind: v.kind, A: v.register})
		}
		outputs = append(outputs, v.register)
	}
	c := l.finish(outputs)
	if c.work(libraryCost) > maxCost {
		l.part = part
		l.wrong(nil, fmt.Sprintf("it comes to more than %d instructions, of which exp, log and pow count as %d", maxCost, libraryCost), "make it shorter")
	}
	return c, l.err
}

// maxCost bounds what a part may take for a sample, and so for how long it is not checked whether its
// request has ended.
const (
	maxCost     = 256
	libraryCost = 16 // of exp, log and pow, in other instructions
)

// work is the number of instructions that compute something, of which one of a library counts as
// library instructions.
func (c *Code) work(library int) (n int) {
	for _, in := range c.Instrs {
		switch {
		case in.Op.library():
			n += library
		case in.Op.Operands() > 0:
			n++
		}
	}
	return n
}

// input reports whether the code reads an input.
func (c *Code) input(number uint8) bool {
	return slices.ContainsFunc(c.Instrs, func(in Instr) bool { return in.Op == Input && in.A == number })
}

// definition makes the definition that resample requests know. Without merge, runs of several series
// are held and become one run in the order of time.
func (p *program) definition() *aggregate.Definition {
	d := &aggregate.Definition{
		Name: p.source.Name, Aliases: p.source.Aliases, Own: p, Results: p.results, Note: p.note(), Reaggregates: !p.times,
	}
	if p.Portable.Merge == nil {
		h := held{p}
		d.Grouped = &aggregate.Definition{
			Name: d.Name, Aliases: d.Aliases, Reads: aggregate.Times, Own: h, Results: h.results, Reaggregates: d.Reaggregates,
			Note: d.Note + "; without merge, the samples of a group are held and put in the order of time, by cores",
		}
	}
	return d
}

// note says what the program takes.
func (p *program) note() string {
	text := fmt.Sprintf("custom: %d instructions a sample", p.Add.work(1))
	if library := p.library(); len(library) > 0 {
		text += ", on cores alone: " + otherBits(library)
	}
	return text
}

// library are the functions that the program calls whose last bits depend on who computes them.
func (p *program) library() []string {
	codes := []*Code{&p.Add, &p.Result}
	if p.Portable.Merge != nil {
		codes = append(codes, p.Portable.Merge)
	}
	library := map[string]bool{}
	for _, c := range codes {
		for _, in := range c.Instrs {
			if in.Op.library() {
				library[[...]string{"exp", "log", "pow"}[in.Op-Exp]] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(library))
}

// Portable is a custom aggregate for executors that translate it: its code, and nothing of how cores
// go over that.
type Portable struct {
	Start  []float64 // values of the fields before the first sample; a truth value is 1 or 0
	Add    Code      // of the inputs from InputV on; an output for each field
	Merge  *Code     // of the fields of a, then those of b; an output for each field. Nil for none.
	Result Code      // of the inputs from ResultStart on; one output
}

// PortableOf returns the code of a definition that is custom, or why cores alone compute it. Of a
// built-in definition it returns neither.
func PortableOf(d *aggregate.Definition) (p *Portable, reason string) {
	switch own := d.Own.(type) {
	case *program:
		if library := own.library(); len(library) > 0 {
			return nil, otherBits(library)
		}
		return &own.Portable, ""
	case held:
		return nil, "without merge, the samples of a group are put in the order of time, which the cores do"
	}
	return nil, ""
}

// otherBits says why functions run on cores alone.
func otherBits(library []string) string {
	return strings.Join(library, " and ") + " would have other bits on a GPU"
}

// Hash is another for another program.
func (p *Portable) Hash() [sha256.Size]byte {
	merge := Code{}
	if p.Merge != nil {
		merge = *p.Merge
	}
	return sha256.Sum256(fmt.Append(nil, p.Start, p.Add, merge, p.Merge == nil, p.Result))
}

// Work is the number of instructions that a sample takes.
func (p *Portable) Work() int { return p.Add.work(1) }
