package planner

import (
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"
)

// measured is what a query's tokens say of it.
type measured struct {
	depth     int // an upper bound of the levels of its syntax tree
	regexps   int // about how many instructions its regular expressions compile to
	selectors int
	items     int // of its longest list of matchers or labels
}

// level is what is between two brackets.
type level struct {
	open      parser.ItemType
	operators int // of the current argument
	nested    int // the depth of the deepest brackets in the current argument
	deepest   int // of the arguments before
	argument  int // the current one
	replaces  bool
	pattern   bool // strings in the current argument are regular expressions
	lists     bool // it holds matchers or the labels of a grouping or of a matching
}

// depth is an upper bound of the depth of the tree of what is in the brackets. Each operator
// of an argument may be above what is deepest in it.
func (l *level) depth() int { return max(l.deepest, l.operators+l.nested+1) }

// next begins another argument.
func (l *level) next() {
	l.deepest = l.depth()
	l.operators, l.nested = 0, 0
	l.argument++
}

// patternArgument is the argument of label_replace that is a regular expression.
const patternArgument = 4

// measure reads the tokens of a query until its end, an error, or something is beyond a
// limit. The depth that it computes is an upper bound: an operator counts for all of the
// argument that it stands in, as in a + b + c and - - - a.
func measure(query string, l Limits) (m measured) {
	mostDepth, mostRegexps := of(l.Depth, DefaultDepth), of(l.RegexpSize, DefaultRegexpSize)
	mostSelectors, mostItems := of(l.Selectors, DefaultSelectors), of(l.Items, DefaultItems)
	lex := parser.Lex(query)
	levels := make([]level, 1, 16)
	var before parser.Item
	replaces, matches := false, false // of the token before
	named := false                    // whether the token before is a selector's metric name
	for m.regexps <= mostRegexps && m.selectors <= mostSelectors && m.items <= mostItems {
		var item parser.Item
		lex.NextItem(&item)
		if item.Typ == parser.COMMENT {
			continue
		}
		here := &levels[len(levels)-1]
		switch {
		case named && item.Typ == parser.LEFT_PAREN:
			m.selectors-- // it was a function's name
		case !named && item.Typ == parser.LEFT_BRACE:
			m.selectors++
		}
		named = !here.lists && (item.Typ == parser.IDENTIFIER || item.Typ == parser.METRIC_IDENTIFIER)
		if named {
			m.selectors++
		}
		switch typ := item.Typ; {
		case typ == parser.EOF || typ == parser.ERROR:
			m.depth = closed(levels)
			return m
		case typ == parser.LEFT_PAREN || typ == parser.LEFT_BRACE || typ == parser.LEFT_BRACKET:
			levels = append(levels, level{
				open: typ, replaces: typ == parser.LEFT_PAREN && replaces,
				pattern: here.pattern || here.replaces && here.argument == patternArgument,
				lists:   typ == parser.LEFT_BRACE || typ == parser.LEFT_PAREN && beforeLabels(before.Typ),
			})
		case typ == parser.RIGHT_PAREN || typ == parser.RIGHT_BRACE || typ == parser.RIGHT_BRACKET:
			if len(levels) == 1 {
				m.depth = closed(levels)
				return m // the parser says what is wrong
			}
			above := &levels[len(levels)-2]
			switch here.open {
			case parser.LEFT_PAREN:
				above.nested = max(above.nested, here.depth())
			case parser.LEFT_BRACKET: // a range or a subquery of what stands before
				above.nested = max(above.nested, here.depth()-1)
				above.operators++
			}
			levels = levels[:len(levels)-1]
		case typ == parser.COMMA:
			here.next()
			if here.lists {
				m.items = max(m.items, here.argument+1)
			}
		case typ == parser.STRING:
			if matches || here.pattern || here.replaces && here.argument == patternArgument {
				m.regexps += sizeOf(item.Val, mostRegexps)
			}
		case typ.IsOperator():
			here.operators++
		}
		if len(levels)-1 > mostDepth || levels[len(levels)-1].operators > mostDepth {
			break
		}
		replaces = item.Typ == parser.IDENTIFIER && item.Val == "label_replace"
		matches = item.Typ == parser.EQL_REGEX || item.Typ == parser.NEQ_REGEX
		before = item
	}
	m.depth = closed(levels)
	return m
}

// beforeLabels reports whether brackets that follow a token hold names of labels.
func beforeLabels(typ parser.ItemType) bool {
	switch typ {
	case parser.BY, parser.WITHOUT, parser.ON, parser.IGNORING, parser.GROUP_LEFT, parser.GROUP_RIGHT:
		return true
	}
	return false
}

// closed is the depth of what levels are open, if all of them ended here.
func closed(levels []level) int {
	depth := 0
	for i := len(levels) - 1; i >= 0; i-- {
		levels[i].nested = max(levels[i].nested, depth)
		depth = levels[i].depth()
	}
	return depth
}

// sizeOf is about how many instructions a quoted regular expression compiles to.
func sizeOf(quoted string, most int) int {
	pattern, err := strutil.Unquote(quoted)
	if err != nil {
		return 0 // the parser says what is wrong
	}
	return regexpSize(pattern, most)
}
