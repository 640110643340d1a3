package custom

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"

	"github.com/promwarp/promwarp/resample/aggregate"
)

// input is what an expression may name: the input of a number, of a kind.
type input struct {
	number uint8
	kind   Kind
}

// value is what an expression came to.
type value struct {
	register uint8
	kind     Kind
}

// lowering makes code of the expressions of one part.
type lowering struct {
	builder
	function, part string
	text           string
	inputs         map[string]input
	local          map[string]value   // of let
	seen           map[ast.Node]value // the parser has x twice in 0 < x < 1
	depth          int
	err            error // the first one; what comes then is of no use
}

// binaries are the operators with two operands: of numbers, but for and and or.
var binaries = map[string]struct {
	op            Op
	of, result    Kind
	swap, negated bool // the operands change places; the result is the other truth value
}{
	"+": {op: Add}, "-": {op: Sub}, "*": {op: Mul}, "/": {op: Div},
	"<": {op: Less, result: Truth}, ">": {op: Less, result: Truth, swap: true},
	"<=": {op: LessEqual, result: Truth}, ">=": {op: LessEqual, result: Truth, swap: true},
	"==": {op: Equal, result: Truth}, "!=": {op: Equal, result: Truth, negated: true},
	"&&": {op: And, of: Truth, result: Truth}, "and": {op: And, of: Truth, result: Truth},
	"||": {op: Or, of: Truth, result: Truth}, "or": {op: Or, of: Truth, result: Truth},
}

// otherwise says what to write for what the parser knows and expressions here do not.
var otherwise = map[string]string{
	"%": "use x - y*floor(x/y)", "^": "use pow(x, y)", "**": "use pow(x, y)", "??": "use x == x ? x : y, as only NaN is not itself",
}

// expression makes code of a text. An error is an *Error.
func (l *lowering) expression(text string) (value, error) {
	l.text, l.seen, l.err = text, map[ast.Node]value{}, nil
	if len(text) > MaxText {
		l.wrong(nil, fmt.Sprintf("it has %d bytes, and can have %d", len(text), MaxText), "use let to say what repeats once")
		return value{}, l.err
	}
	tree, err := parser.ParseWithConfig(text, &conf.Config{MaxNodes: maxNodes})
	if err != nil {
		l.wrong(nil, err.Error(), "")
		if at := new(file.Error); errors.As(err, &at) {
			l.err = l.at(at.Location, clip(strings.Replace(at.Message, "unexpected token EOF", "the expression ends too early", 1)), "")
		}
		return value{}, l.err
	}
	v := l.node(tree.Node)
	if l.full {
		l.wrong(nil, fmt.Sprintf("the part comes to more than %d instructions", maxInstrs), "make it shorter")
	}
	return v, l.err
}

// at is the error of a place in the text.
func (l *lowering) at(place file.Location, text, hint string) error {
	at := (&file.Error{Location: place}).Bind(file.NewSource(l.text))
	return &Error{Function: l.function, Part: l.part, Line: at.Line, Column: at.Column + 1, Text: text, Hint: hint}
}

// wrong notes the error of a node, or of the whole text where there is none, if it is the first.
func (l *lowering) wrong(n ast.Node, text, hint string) (none value) {
	if c, ok := n.(*ast.ConditionalNode); ok {
		n = c.Cond // the parser has a conditional's place behind it
	}
	switch {
	case l.err != nil:
	case n == nil:
		l.err = &Error{Function: l.function, Part: l.part, Text: text, Hint: hint}
	default:
		l.err = l.at(n.Location(), text, hint)
	}
	return value{}
}

// made is the value that an instruction makes.
func (l *lowering) made(in Instr) value {
	if l.err != nil {
		return value{}
	}
	return value{l.add(in), in.Kind}
}

// constant is the value of a number or truth value.
func (l *lowering) constant(v float64, kind Kind) value {
	return l.made(Instr{Op: Const, Kind: kind, Bits: math.Float64bits(v)})
}

// node makes code of a tree.
func (l *lowering) node(n ast.Node) value {
	v, ok := l.seen[n]
	if !ok && l.err == nil {
		v = l.tree(n)
		l.seen[n] = v
	}
	return v
}

func (l *lowering) tree(n ast.Node) value {
	if l.depth++; l.depth > MaxDepth {
		return l.wrong(n, fmt.Sprintf("it is nested more than %d deep", MaxDepth), "use let")
	}
	defer func() { l.depth-- }()
	switch n := n.(type) {
	case *ast.IntegerNode:
		return l.constant(float64(n.Value), Number)
	case *ast.FloatNode:
		return l.constant(n.Value, Number)
	case *ast.BoolNode:
		return l.constant(truth(n.Value), Truth)
	case *ast.IdentifierNode:
		return l.name(n, n.Value)
	case *ast.MemberNode:
		of, isName := n.Node.(*ast.IdentifierNode)
		field, isText := n.Property.(*ast.StringNode)
		if isName && isText && !n.Optional {
			return l.name(n.Node, of.Value+"."+field.Value)
		}
	case *ast.UnaryNode:
		return l.unary(n)
	case *ast.BinaryNode:
		return l.binary(n)
	case *ast.ConditionalNode:
		c, x := l.operand(n.Cond, Truth), l.node(n.Exp1)
		return l.made(Instr{Op: Select, Kind: x.kind, A: c, B: x.register, C: l.operand(n.Exp2, x.kind)})
	case *ast.BuiltinNode:
		return l.call(n, n.Name, n.Arguments)
	case *ast.CallNode:
		if of, ok := n.Callee.(*ast.IdentifierNode); ok {
			return l.call(n, of.Value, n.Arguments)
		}
	case *ast.VariableDeclaratorNode:
		return l.let(n)
	}
	return l.wrong(n, "expressions here have no such thing", "use numbers, names, operators, functions, c ? x : y and let")
}

func (l *lowering) name(n ast.Node, name string) value {
	if v, ok := l.local[name]; ok {
		return v
	}
	if in, ok := l.inputs[name]; ok {
		return l.made(Instr{Op: Input, Kind: in.kind, A: in.number})
	}
	switch name {
	case "inf":
		return l.constant(math.Inf(1), Number)
	case "nan":
		return l.constant(math.NaN(), Number)
	}
	known := slices.Sorted(maps.Keys(l.inputs))
	hint := "there are " + strings.Join(known, ", ")
	near := aggregate.DidYouMean(name, append(known, slices.Sorted(maps.Keys(l.local))...), "")
	switch {
	case l.inputs["a."+name] != l.inputs["b."+name]:
		hint = fmt.Sprintf("write a.%s or b.%s", name, name)
	case near != "" && len(name) > 1:
		hint = near
	case len(known) == 0:
		hint = "a start value is constant"
	}
	return l.wrong(n, fmt.Sprintf("there is no %q", clip(name)), hint)
}

// operand makes code of a tree that must be of a kind.
func (l *lowering) operand(n ast.Node, kind Kind) uint8 {
	return l.must(n, l.node(n), kind)
}

// must is the register of a value that must be of a kind.
func (l *lowering) must(n ast.Node, v value, kind Kind) uint8 {
	if v.kind != kind {
		hint := "compare it, as in x > 0"
		if kind == Number {
			hint = "write c ? 1 : 0"
		}
		l.wrong(n, fmt.Sprintf("it is %v, where %v belongs", v.kind, kind), hint)
	}
	return v.register
}

func (l *lowering) unary(n *ast.UnaryNode) value {
	switch n.Operator {
	case "!", "not":
		return l.made(Instr{Op: Not, Kind: Truth, A: l.operand(n.Node, Truth)})
	case "+":
		return value{l.operand(n.Node, Number), Number}
	}
	return l.made(Instr{Op: Neg, A: l.operand(n.Node, Number)})
}

func (l *lowering) binary(n *ast.BinaryNode) value {
	form, ok := binaries[n.Operator]
	if !ok {
		return l.wrong(n, fmt.Sprintf("there is no operator %q", n.Operator), otherwise[n.Operator])
	}
	left := l.node(n.Left)
	if form.op == Equal {
		form.of = left.kind
	}
	a := l.must(n.Left, left, form.of)
	b := l.operand(n.Right, form.of)
	if form.swap {
		a, b = b, a
	}
	v := l.made(Instr{Op: form.op, Kind: form.result, A: a, B: b})
	if form.negated {
		v = l.made(Instr{Op: Not, Kind: Truth, A: v.register})
	}
	return v
}

// let makes code of let name = value; expression.
func (l *lowering) let(n *ast.VariableDeclaratorNode) value {
	_, isInput := l.inputs[n.Name]
	_, isLocal := l.local[n.Name]
	if isInput || isLocal || slices.Contains(reserved, n.Name) {
		return l.wrong(n, fmt.Sprintf("%q means something else already", clip(n.Name)), "use another name")
	}
	v := l.node(n.Value)
	if l.local == nil {
		l.local = map[string]value{}
	}
	l.local[n.Name] = v
	defer delete(l.local, n.Name)
	return l.node(n.Expr)
}

// functions are those of expressions. Of them min and max take two arguments or more.
var functions = map[string]Op{
	"min": Min, "max": Max, "abs": Abs, "sqrt": Sqrt, "floor": Floor, "ceil": Ceil, "exp": Exp, "log": Log, "pow": Pow,
}

// call makes code of a function's call.
func (l *lowering) call(n ast.Node, name string, arguments []ast.Node) value {
	op, ok := functions[name]
	if !ok {
		known := slices.Sorted(maps.Keys(functions))
		hint := aggregate.DidYouMean(name, known, "there are "+strings.Join(known, ", "))
		return l.wrong(n, fmt.Sprintf("there is no function %q", clip(name)), hint)
	}
	if want := op.Operands(); len(arguments) != want && !((op == Min || op == Max) && len(arguments) > want) {
		return l.wrong(n, fmt.Sprintf("%s has %d arguments", name, len(arguments)), fmt.Sprintf("give it %d", want))
	}
	first := l.operand(arguments[0], Number)
	if len(arguments) == 1 {
		return l.made(Instr{Op: op, A: first})
	}
	var all value
	for _, other := range arguments[1:] {
		all = l.made(Instr{Op: op, A: first, B: l.operand(other, Number)})
		first = all.register
	}
	return all
}
