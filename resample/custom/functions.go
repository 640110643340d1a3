package custom

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"

	"github.com/promwarp/promwarp/resample/aggregate"
)

// function is a function of expressions.
type function struct {
	op   Op
	many bool // of two arguments or more
}

var functions = map[string]function{
	"min": {Min, true}, "max": {Max, true}, "abs": {op: Abs}, "sqrt": {op: Sqrt}, "floor": {op: Floor}, "ceil": {op: Ceil},
	"exp": {op: Exp}, "log": {op: Log}, "pow": {op: Pow},
}

// call makes code of a function's call.
func (l *lowering) call(n ast.Node, name string, arguments []ast.Node) (value, error) {
	f, ok := functions[name]
	if !ok {
		known := slices.Sorted(maps.Keys(functions))
		hint := "there are " + strings.Join(known, ", ")
		if near := aggregate.Nearest(name, known); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return value{}, l.wrong(n, fmt.Sprintf("there is no function %q", clip(name)), hint)
	}
	if want := f.op.Operands(); len(arguments) != want && !(f.many && len(arguments) > want) {
		return value{}, l.wrong(n, fmt.Sprintf("%s has %d arguments", name, len(arguments)), fmt.Sprintf("give it %d", want))
	}
	first, err := l.operand(arguments[0], Number)
	if err != nil {
		return value{}, err
	}
	if len(arguments) == 1 {
		return value{l.add(Instr{Op: f.op, A: first}), Number}, nil
	}
	for _, other := range arguments[1:] {
		b, err := l.operand(other, Number)
		if err != nil {
			return value{}, err
		}
		first = l.add(Instr{Op: f.op, A: first, B: b})
	}
	return value{first, Number}, nil
}
