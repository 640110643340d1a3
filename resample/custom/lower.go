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
	l.text, l.seen = text, map[ast.Node]value{}
	if len(text) > MaxText {
		return value{}, l.wrong(nil, fmt.Sprintf("it has %d bytes, and can have %d", len(text), MaxText), "use let to say what repeats once")
	}
	tree, err := parser.ParseWithConfig(text, &conf.Config{MaxNodes: maxNodes})
	if err != nil {
		var at *file.Error
		if !errors.As(err, &at) {
			return value{}, l.wrong(nil, err.Error(), "")
		}
		return value{}, l.at(at.From, clip(strings.Replace(at.Message, "unexpected token EOF", "the expression ends too early", 1)), "")
	}
	v, err := l.node(tree.Node)
	if err == nil && l.full {
		err = l.wrong(nil, fmt.Sprintf("the part comes to more than %d instructions", maxInstrs), "make it shorter")
	}
	return v, err
}

// at is the error of a place in the text: so many runes in.
func (l *lowering) at(runes int, text, hint string) error {
	before := []rune(l.text)
	before = before[:min(runes, len(before))]
	line, column := 1, 1
	for _, r := range before {
		if column++; r == '\n' {
			line, column = line+1, 1
		}
	}
	return &Error{Function: l.function, Part: l.part, Line: line, Column: column, Text: text, Hint: hint}
}

// wrong is the error of a node, or of the whole text where there is none.
func (l *lowering) wrong(n ast.Node, text, hint string) error {
	if n == nil {
		return &Error{Function: l.function, Part: l.part, Text: text, Hint: hint}
	}
	if c, ok := n.(*ast.ConditionalNode); ok {
		n = c.Cond // the parser has a conditional's place behind it
	}
	return l.at(n.Location().From, text, hint)
}

// node makes code of a tree.
func (l *lowering) node(n ast.Node) (value, error) {
	if v, ok := l.seen[n]; ok {
		return v, nil
	}
	v, err := l.tree(n)
	if err == nil {
		l.seen[n] = v
	}
	return v, err
}

func (l *lowering) tree(n ast.Node) (value, error) {
	if l.depth++; l.depth > MaxDepth {
		return value{}, l.wrong(n, fmt.Sprintf("it is nested more than %d deep", MaxDepth), "use let")
	}
	defer func() { l.depth-- }()
	switch n := n.(type) {
	case *ast.IntegerNode:
		return value{l.constant(float64(n.Value), Number), Number}, nil
	case *ast.FloatNode:
		return value{l.constant(n.Value, Number), Number}, nil
	case *ast.BoolNode:
		return value{l.constant(truth(n.Value), Truth), Truth}, nil
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
		return l.conditional(n)
	case *ast.BuiltinNode:
		return l.call(n, n.Name, n.Arguments)
	case *ast.CallNode:
		if of, ok := n.Callee.(*ast.IdentifierNode); ok {
			return l.call(n, of.Value, n.Arguments)
		}
	case *ast.VariableDeclaratorNode:
		return l.let(n)
	}
	return value{}, l.wrong(n, "expressions here have no such thing", "use numbers, names, operators, functions, c ? x : y and let")
}

func (l *lowering) name(n ast.Node, name string) (value, error) {
	if v, ok := l.local[name]; ok {
		return v, nil
	}
	if in, ok := l.inputs[name]; ok {
		return value{l.add(Instr{Op: Input, Kind: in.kind, A: in.number}), in.kind}, nil
	}
	switch name {
	case "inf":
		return value{l.constant(math.Inf(1), Number), Number}, nil
	case "nan":
		return value{l.constant(math.NaN(), Number), Number}, nil
	}
	known := slices.Sorted(maps.Keys(l.inputs))
	hint := "there are " + strings.Join(known, ", ")
	switch near := aggregate.Nearest(name, append(known, slices.Sorted(maps.Keys(l.local))...)); {
	case l.inputs["a."+name] != l.inputs["b."+name]:
		hint = fmt.Sprintf("write a.%s or b.%s", name, name)
	case near != "" && len(name) > 1:
		hint = fmt.Sprintf("did you mean %q?", near)
	case len(known) == 0:
		hint = "a start value is constant"
	}
	return value{}, l.wrong(n, fmt.Sprintf("there is no %q", clip(name)), hint)
}

// operand makes code of a tree that must be of a kind.
func (l *lowering) operand(n ast.Node, kind Kind) (uint8, error) {
	v, err := l.node(n)
	if err == nil {
		err = l.must(n, v, kind)
	}
	return v.register, err
}

// must is the error of a value that is not of a kind.
func (l *lowering) must(n ast.Node, v value, kind Kind) error {
	if v.kind == kind {
		return nil
	}
	hint := "compare it, as in x > 0"
	if kind == Number {
		hint = "write c ? 1 : 0"
	}
	return l.wrong(n, fmt.Sprintf("it is %v, where %v belongs", v.kind, kind), hint)
}

func (l *lowering) unary(n *ast.UnaryNode) (value, error) {
	op, kind := Neg, Number
	if n.Operator == "!" || n.Operator == "not" {
		op, kind = Not, Truth
	}
	a, err := l.operand(n.Node, kind)
	if err != nil || n.Operator == "+" {
		return value{a, kind}, err // as it is
	}
	return value{l.add(Instr{Op: op, Kind: kind, A: a}), kind}, nil
}

func (l *lowering) binary(n *ast.BinaryNode) (value, error) {
	form, ok := binaries[n.Operator]
	if !ok {
		return value{}, l.wrong(n, fmt.Sprintf("there is no operator %q", n.Operator), otherwise[n.Operator])
	}
	left, err := l.node(n.Left)
	if err != nil {
		return value{}, err
	}
	if form.op == Equal {
		form.of = left.kind
	}
	if err := l.must(n.Left, left, form.of); err != nil {
		return value{}, err
	}
	a := left.register
	b, err := l.operand(n.Right, form.of)
	if err != nil {
		return value{}, err
	}
	if form.swap {
		a, b = b, a
	}
	r := l.add(Instr{Op: form.op, Kind: form.result, A: a, B: b})
	if form.negated {
		r = l.add(Instr{Op: Not, Kind: Truth, A: r})
	}
	return value{r, form.result}, nil
}

func (l *lowering) conditional(n *ast.ConditionalNode) (value, error) {
	c, err := l.operand(n.Cond, Truth)
	if err != nil {
		return value{}, err
	}
	x, err := l.node(n.Exp1)
	if err != nil {
		return value{}, err
	}
	y, err := l.operand(n.Exp2, x.kind)
	if err != nil {
		return value{}, err
	}
	return value{l.add(Instr{Op: Select, Kind: x.kind, A: c, B: x.register, C: y}), x.kind}, nil
}

// let makes code of let name = value; expression.
func (l *lowering) let(n *ast.VariableDeclaratorNode) (value, error) {
	_, isInput := l.inputs[n.Name]
	_, isLocal := l.local[n.Name]
	if isInput || isLocal || slices.Contains(reserved, n.Name) {
		return value{}, l.wrong(n, fmt.Sprintf("%q means something else already", clip(n.Name)), "use another name")
	}
	v, err := l.node(n.Value)
	if err != nil {
		return value{}, err
	}
	if l.local == nil {
		l.local = map[string]value{}
	}
	l.local[n.Name] = v
	defer delete(l.local, n.Name)
	return l.node(n.Expr)
}

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
