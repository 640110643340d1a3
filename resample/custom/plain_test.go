package custom

import (
	"math"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"
)

// The plain form: each expression is evaluated on its tree, sample by sample.

// plainTree evaluates a tree. Truth values are 1 and 0.
func plainTree(n ast.Node, names map[string]float64) float64 {
	eval := func(n ast.Node) float64 { return plainTree(n, names) }
	is := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	switch n := n.(type) {
	case *ast.IntegerNode:
		return float64(n.Value)
	case *ast.FloatNode:
		return n.Value
	case *ast.BoolNode:
		return is(n.Value)
	case *ast.IdentifierNode:
		switch n.Value {
		case "inf":
			return math.Inf(1)
		case "nan":
			return math.NaN()
		}
		return names[n.Value]
	case *ast.MemberNode:
		return names[n.Node.(*ast.IdentifierNode).Value+"."+n.Property.(*ast.StringNode).Value]
	case *ast.UnaryNode:
		x := eval(n.Node)
		switch n.Operator {
		case "-":
			return -x
		case "+":
			return x
		}
		return 1 - x
	case *ast.BinaryNode:
		x, y := eval(n.Left), eval(n.Right)
		switch n.Operator {
		case "+":
			return x + y
		case "-":
			return x - y
		case "*":
			return x * y
		case "/":
			return x / y
		case "<":
			return is(x < y)
		case ">":
			return is(x > y)
		case "<=":
			return is(x <= y)
		case ">=":
			return is(x >= y)
		case "==":
			return is(x == y)
		case "!=":
			return is(x != y)
		case "&&", "and":
			return x * y
		case "||", "or":
			return max(x, y)
		}
	case *ast.ConditionalNode:
		if eval(n.Cond) == 1 {
			return eval(n.Exp1)
		}
		return eval(n.Exp2)
	case *ast.BuiltinNode:
		return plainCall(n.Name, n.Arguments, eval)
	case *ast.CallNode:
		return plainCall(n.Callee.(*ast.IdentifierNode).Value, n.Arguments, eval)
	case *ast.VariableDeclaratorNode:
		names[n.Name] = eval(n.Value)
		defer delete(names, n.Name)
		return eval(n.Expr)
	}
	panic("an unknown node")
}

func plainCall(name string, arguments []ast.Node, eval func(ast.Node) float64) float64 {
	x := eval(arguments[0])
	switch name {
	case "abs":
		return math.Abs(x)
	case "sqrt":
		return math.Sqrt(x)
	case "floor":
		return math.Floor(x)
	case "ceil":
		return math.Ceil(x)
	case "exp":
		return math.Exp(x)
	case "log":
		return math.Log(x)
	case "pow":
		return math.Pow(x, eval(arguments[1]))
	}
	for _, a := range arguments[1:] {
		y := eval(a)
		switch {
		case math.IsNaN(x):
			x = y
		case math.IsNaN(y):
		case name == "min":
			x = math.Min(x, y)
		default:
			x = math.Max(x, y)
		}
	}
	return x
}

// plainEach evaluates an expression for each field.
func plainEach(texts map[string]string, names map[string]float64) map[string]float64 {
	out := map[string]float64{}
	for field, text := range texts {
		out[field] = plainText(text, names)
	}
	return out
}

var trees = map[string]ast.Node{}

func plainText(text string, names map[string]float64) float64 {
	if trees[text] == nil {
		tree, err := parser.Parse(text)
		if err != nil {
			panic(err)
		}
		trees[text] = tree.Node
	}
	return plainTree(trees[text], names)
}

// plainState is the state of a run.
func plainState(s *Source, ts []int64, vs []float64) map[string]float64 {
	state := plainEach(s.State, map[string]float64{})
	for i := range ts {
		before := max(i-1, 0)
		names := map[string]float64{"v": vs[i], "t": float64(ts[i]), "prev_v": vs[before], "prev_t": float64(ts[before]), "first": truth(i == 0)}
		for field, v := range state {
			names[field] = v
		}
		state = plainEach(s.Add, names)
	}
	return state
}

// plainMerge merges two states.
func plainMerge(s *Source, a, b map[string]float64) map[string]float64 {
	names := map[string]float64{}
	for field := range a {
		names["a."+field], names["b."+field] = a[field], b[field]
	}
	return plainEach(s.Merge, names)
}

// plainResult is the result of a state.
func plainResult(s *Source, state map[string]float64, start, end int64) float64 {
	names := map[string]float64{"start": float64(start), "end": float64(end)}
	for field, v := range state {
		names[field] = v
	}
	return plainText(s.Result, names)
}
