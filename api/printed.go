package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/planner"
)

// printedDepth is the most levels of a query whose form is asked for. Each level is
// indented by the one above it, so the answer grows with the square of the depth, and
// Prometheus's printer takes longer still: 10 s for 2000 levels.
const printedDepth = 500

// printed answers with what print makes of the request's query, unless that is too deep to be printed.
func (a *API) printed(print func(parser.Expr) any) said {
	return func(r *http.Request) (any, annotations.Annotations, error) {
		limits, query := a.o.Limits, r.FormValue("query")
		limits.Depth = printedDepth
		if errors.As(limits.Check(query), new(*planner.LimitError)) && a.o.Limits.Check(query) == nil {
			return nil, nil, promapi.WrongParameter("query", fmt.Errorf("it nests deeper than the %d levels that this door prints", printedDepth))
		}
		expr, err := a.o.Parser.ParseExpr(query)
		if err != nil {
			return nil, nil, promapi.WrongParameter("query", err)
		}
		return print(expr), nil, nil
	}
}

// node is a node of a tree of an expression.
type node map[string]any

// tree is an expression as Prometheus's API gives it to browsers; nil is none.
func tree(e parser.Expr) any {
	switch e := e.(type) {
	case *parser.AggregateExpr:
		return node{"type": "aggregation", "op": e.Op.String(), "expr": tree(e.Expr), "param": tree(e.Param), "grouping": list(e.Grouping), "without": e.Without}
	case *parser.BinaryExpr:
		n := node{"type": "binaryExpr", "op": e.Op.String(), "lhs": tree(e.LHS), "rhs": tree(e.RHS), "matching": nil, "bool": e.ReturnBool}
		if m := e.VectorMatching; m != nil {
			n["matching"] = node{
				"card": m.Card.String(), "labels": list(m.MatchingLabels), "on": m.On, "include": list(m.Include),
				"fillValues": map[string]*float64{"lhs": m.FillValues.LHS, "rhs": m.FillValues.RHS},
			}
		}
		return n
	case *parser.Call:
		args := []any{}
		for _, arg := range e.Args {
			args = append(args, tree(arg))
		}
		f := node{"name": e.Func.Name, "argTypes": e.Func.ArgTypes, "variadic": e.Func.Variadic, "returnType": e.Func.ReturnType}
		return node{"type": "call", "func": f, "args": args}
	case *parser.VectorSelector:
		return selector(e, "vectorSelector")
	case *parser.MatrixSelector:
		n := selector(e.VectorSelector.(*parser.VectorSelector), "matrixSelector")
		n["range"], n["rangeExpr"] = e.Range.Milliseconds(), duration(e.RangeExpr)
		return n
	case *parser.SubqueryExpr:
		return node{
			"type": "subquery", "expr": tree(e.Expr), "timestamp": e.Timestamp, "startOrEnd": startOrEnd(e.StartOrEnd),
			"range": e.Range.Milliseconds(), "rangeExpr": duration(e.RangeExpr),
			"offset": e.OriginalOffset.Milliseconds(), "offsetExpr": duration(e.OriginalOffsetExpr),
			"step": e.Step.Milliseconds(), "stepExpr": duration(e.StepExpr),
		}
	case *parser.NumberLiteral:
		return node{"type": "numberLiteral", "val": strconv.FormatFloat(e.Val, 'f', -1, 64)}
	case *parser.StringLiteral:
		return node{"type": "stringLiteral", "val": e.Val}
	case *parser.ParenExpr:
		return node{"type": "parenExpr", "expr": tree(e.Expr)}
	case *parser.UnaryExpr:
		return node{"type": "unaryExpr", "op": e.Op.String(), "expr": tree(e.Expr)}
	case *parser.DurationExpr:
		return duration(e)
	}
	return nil
}

// selector is the node of a selector, of the type given.
func selector(e *parser.VectorSelector, kind string) node {
	matchers := []node{}
	for _, m := range e.LabelMatchers {
		matchers = append(matchers, node{"name": m.Name, "value": m.Value, "type": m.Type.String()})
	}
	return node{
		"type": kind, "name": e.Name, "offset": e.OriginalOffset.Milliseconds(), "offsetExpr": duration(e.OriginalOffsetExpr),
		"matchers": matchers, "timestamp": e.Timestamp, "startOrEnd": startOrEnd(e.StartOrEnd), "anchored": e.Anchored, "smoothed": e.Smoothed,
	}
}

// duration is the tree of a duration that is computed; nil is none.
func duration(e parser.Expr) any {
	switch e := e.(type) {
	case *parser.DurationExpr:
		if e == nil {
			return nil
		}
		return node{"type": "durationExpr", "op": e.Op.String(), "lhs": duration(e.LHS), "rhs": duration(e.RHS), "wrapped": e.Wrapped}
	case *parser.NumberLiteral:
		if e == nil {
			return nil
		}
		return node{"type": "numberLiteral", "val": strconv.FormatFloat(e.Val, 'f', -1, 64), "duration": e.Duration}
	}
	return tree(e)
}

// startOrEnd is what follows an @ that is no time; nil is a time, or no @.
func startOrEnd(item parser.ItemType) any {
	if item == 0 {
		return nil
	}
	return item.String()
}

// list is a list that is never null.
func list(names []string) []string {
	if names == nil {
		return []string{}
	}
	return names
}
