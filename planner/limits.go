package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/grafana/regexp/syntax"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/strutil"

	"github.com/promwarp/promwarp/cpuexec/vector"
)

// Limits bound the text of a query before anything recursive sees it. Of a field that is 0
// the default counts; less than 0 is no limit.
type Limits struct {
	// Depth is the most levels of a query's syntax tree.
	Depth int
	// Length is the most bytes of a query.
	Length int
	// RegexpSize is the most instructions that the regular expressions of a query may
	// compile to, taken together; one takes 40 bytes.
	RegexpSize int
	// Selectors is the most selectors of a request, in a query, in lists of selectors or as
	// queries of a remote read.
	Selectors int
	// Items is the most matchers of a selector, labels of a grouping or of a matching, and
	// items of any other list of a request.
	Items int
}

// The defaults of Limits. Prometheus's own parser and engine take time that grows with the
// square of the depth: a second or two for the worst query of 2500 levels.
//
// The largest expression of the mixins and templates in engine/testdata has 8 selectors, and the
// longest list 7 labels or matchers: see TestDefaultsAreAmple in engine/.
const (
	DefaultDepth      = 2500
	DefaultLength     = 1 << 20
	DefaultRegexpSize = 1 << 19
	DefaultSelectors  = 1000
	DefaultItems      = 200
)

// LimitError is the error of a query that is beyond a limit.
type LimitError struct {
	Flag  string // the flag that sets the limit
	Limit int
	What  string // what is wrong, without the limit
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s; the most that --%s allows is %d", e.What, e.Flag, e.Limit)
}

// of is limit, or otherwise if that is 0. Without a limit it is the largest number.
func of(limit, otherwise int) int {
	switch {
	case limit == 0:
		return otherwise
	case limit < 0:
		return int(^uint(0) >> 1)
	}
	return limit
}

// Check returns a *LimitError if a query or selector is beyond a limit. It takes time that
// grows with the length alone. What does not parse may pass.
func (l Limits) Check(query string) error {
	_, err := l.measure(query)
	return err
}

// CheckSelectors returns a *LimitError if n selectors are more than a request may have.
func (l Limits) CheckSelectors(n int) error {
	if most := of(l.Selectors, DefaultSelectors); n > most {
		return &LimitError{"query.max-selectors", most, fmt.Sprintf("the request has %d selectors or more", n)}
	}
	return nil
}

// CheckItems returns a *LimitError if n items are more than a list of a request may have. What
// names the items, as "labels of a grouping".
func (l Limits) CheckItems(n int, what string) error {
	if most := of(l.Items, DefaultItems); n > most {
		return &LimitError{"query.max-items", most, fmt.Sprintf("the request has a list of %d %s or more", n, what)}
	}
	return nil
}

// CheckParameters returns a *LimitError if a form has more parameters than one whose lists are within
// the limits, whatever they are.
func (l Limits) CheckParameters(n int) error {
	if most := 2 * l.MostValues(); most > 0 && n > most {
		return &LimitError{"query.max-selectors", of(l.Selectors, DefaultSelectors), fmt.Sprintf("the request has %d parameters", n)}
	}
	return nil
}

// MostValues is the most values that a list of a request may have, whatever it lists.
func (l Limits) MostValues() int {
	return max(of(l.Selectors, DefaultSelectors), of(l.Items, DefaultItems))
}

// CheckAll checks selectors that belong to one request, whose regular expressions count
// together.
func (l Limits) CheckAll(selectors []string) error {
	if err := l.CheckSelectors(len(selectors)); err != nil {
		return err
	}
	total := 0
	for _, s := range selectors {
		m, err := l.measure(s)
		if err != nil {
			return err
		}
		if total += m.regexps; total > of(l.RegexpSize, DefaultRegexpSize) {
			return l.regexpError(total)
		}
	}
	return nil
}

// CheckRegexps checks regular expressions that belong to one request and come without a
// query around them. They count together.
func (l Limits) CheckRegexps(patterns []string) error {
	most, total := of(l.RegexpSize, DefaultRegexpSize), 0
	for _, p := range patterns {
		if total += regexpSize(p, most); total > most {
			return l.regexpError(total)
		}
	}
	return nil
}

func (l Limits) measure(query string) (measured, error) {
	if most := of(l.Length, DefaultLength); len(query) > most {
		return measured{}, &LimitError{"query.max-length", most, fmt.Sprintf("the query is %d bytes long", len(query))}
	}
	most := of(l.Depth, DefaultDepth)
	m := measure(query, l)
	switch {
	case m.depth > most:
		return m, &LimitError{"query.max-depth", most, fmt.Sprintf("the query is nested %d levels deep or more, operators in a row included", m.depth)}
	case m.regexps > of(l.RegexpSize, DefaultRegexpSize):
		return m, l.regexpError(m.regexps)
	}
	if err := l.CheckSelectors(m.selectors); err != nil {
		return m, err
	}
	return m, l.CheckItems(m.items, "matchers or labels")
}

// checkTree returns a *LimitError if a tree has too many selectors. Their tokens are not always
// told from operators: a metric may be called "or".
func (l Limits) checkTree(e parser.Expr) error {
	selectors := 0
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		if _, ok := n.(*parser.VectorSelector); ok {
			selectors++
		}
		return nil
	})
	return l.CheckSelectors(selectors)
}

// Least is the smallest of the limits on what a text lists or nests: one of fewer bytes is within all
// of them.
func (l Limits) Least() int {
	return min(of(l.Depth, DefaultDepth), of(l.RegexpSize, DefaultRegexpSize), of(l.Selectors, DefaultSelectors), of(l.Items, DefaultItems))
}

func (l Limits) regexpError(size int) error {
	return &LimitError{
		"query.max-regexp-size", of(l.RegexpSize, DefaultRegexpSize),
		fmt.Sprintf("the regular expressions of the query compile to about %d instructions or more", size),
	}
}

// Parser returns a parser that checks the limits first and whose errors are of a bounded
// length.
func (l Limits) Parser(inner parser.Parser) parser.Parser { return limited{inner, l} }

// limited checks queries and selectors, which are all that requests have.
type limited struct {
	parser.Parser
	limits Limits
}

func (p limited) ParseExpr(input string) (parser.Expr, error) {
	if err := p.limits.Check(input); err != nil {
		return nil, err
	}
	e, err := p.Parser.ParseExpr(input)
	if err != nil {
		return e, bounded(err, input)
	}
	return e, p.limits.checkTree(e)
}

func (p limited) ParseMetricSelector(input string) ([]*labels.Matcher, error) {
	if err := p.limits.Check(input); err != nil {
		return nil, err
	}
	ms, err := p.Parser.ParseMetricSelector(input)
	return ms, bounded(err, input)
}

func (p limited) ParseMetricSelectors(inputs []string) ([][]*labels.Matcher, error) {
	if err := p.limits.CheckAll(inputs); err != nil {
		return nil, err
	}
	sets, err := p.Parser.ParseMetricSelectors(inputs)
	return sets, bounded(err, strings.Join(inputs, ""))
}

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
	operators int  // of the current argument
	nested    int  // the depth of the deepest brackets in the current argument
	deepest   int  // of the arguments before
	argument  int  // the current one
	patternAt int  // the argument that is a regular expression; 0 for none
	within    bool // it is in such an argument
	lists     bool // it holds matchers or the labels of a grouping or of a matching
}

// depth is an upper bound of the depth of the tree of what is in the brackets. Each operator
// of an argument may be above what is deepest in it.
func (l *level) depth() int { return max(l.deepest, l.operators+l.nested+1) }

// isPattern reports whether strings in the current argument are regular expressions.
func (l *level) isPattern() bool {
	return l.within || l.patternAt > 0 && l.argument == l.patternAt
}

// measure reads the tokens of a query until its end, an error, or something is beyond a
// limit. The depth that it computes is an upper bound: an operator counts for all of the
// argument that it stands in, as in a + b + c and - - - a.
func measure(query string, l Limits) (m measured) {
	mostDepth, mostRegexps := of(l.Depth, DefaultDepth), of(l.RegexpSize, DefaultRegexpSize)
	mostSelectors, mostItems := of(l.Selectors, DefaultSelectors), of(l.Items, DefaultItems)
	lex := parser.Lex(query)
	levels := make([]level, 1, 16)
	var item, before parser.Item
	matches := false // whether the token before is an operator of regular expressions
	named := false   // whether the token before is a selector's metric name
	for m.regexps <= mostRegexps && m.selectors <= mostSelectors && m.items <= mostItems {
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
			in := level{
				open: typ, within: here.isPattern(),
				lists: typ == parser.LEFT_BRACE || typ == parser.LEFT_PAREN && slices.Contains(beforeLabels, before.Typ),
			}
			if typ == parser.LEFT_PAREN && before.Typ == parser.IDENTIFIER {
				in.patternAt = vector.Called(before.Val).Pattern
			}
			levels = append(levels, in)
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
		case typ == parser.COMMA: // another argument begins
			here.deepest = here.depth()
			here.operators, here.nested = 0, 0
			here.argument++
			if here.lists {
				m.items = max(m.items, here.argument+1)
			}
		case typ == parser.STRING:
			if matches || here.isPattern() {
				if pattern, err := strutil.Unquote(item.Val); err == nil { // else the parser says what is wrong
					m.regexps += regexpSize(pattern, mostRegexps)
				}
			}
		case typ.IsOperator():
			here.operators++
		}
		if len(levels)-1 > mostDepth || levels[len(levels)-1].operators > mostDepth {
			break
		}
		matches = item.Typ == parser.EQL_REGEX || item.Typ == parser.NEQ_REGEX
		before = item
	}
	m.depth = closed(levels)
	return m
}

// beforeLabels are the tokens behind which brackets hold names of labels.
var beforeLabels = []parser.ItemType{
	parser.BY, parser.WITHOUT, parser.ON, parser.IGNORING, parser.GROUP_LEFT, parser.GROUP_RIGHT,
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

const (
	// classRanges is how many instructions the largest class of characters that has a name,
	// as \pL, takes the memory of.
	classRanges = 140
	// runesPerInstruction is how many runes of a class take the memory of an instruction.
	runesPerInstruction = 10
)

// regexpSize is about how many instructions a regular expression compiles to. Only one that
// repeats something is parsed: others are not larger than their text, but for classes. One
// beyond the most that is allowed before it is parsed is not.
func regexpSize(pattern string, most int) int {
	classes := strings.Count(pattern, `\p`) + strings.Count(pattern, `\P`)
	size := 2*len(pattern) + classes*classRanges
	if size > most && classes > 0 || !strings.Contains(pattern, "{") {
		return len(pattern) + classes*classRanges
	}
	re, err := syntax.Parse("^(?s:"+pattern+")$", syntax.Perl)
	if err != nil {
		return len(pattern) // compiling it says what is wrong
	}
	return int(min(instructions(re), int64(most)+1))
}

// instructions estimates the size of what re compiles to: what is repeated is as large as
// all its repetitions. The parser bounds how deep re is.
func instructions(re *syntax.Regexp) int64 {
	var below int64
	for _, sub := range re.Sub {
		below += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		return int64(len(re.Rune))
	case syntax.OpCharClass:
		return 1 + int64(len(re.Rune)/runesPerInstruction)
	case syntax.OpCapture:
		return below + 2
	case syntax.OpAlternate:
		return below + int64(len(re.Sub))
	case syntax.OpConcat:
		return below
	case syntax.OpRepeat:
		if re.Max < 0 {
			return max(int64(re.Min), 1)*below + 1
		}
		return int64(re.Max)*below + int64(re.Max-re.Min)
	}
	return below + 1
}

// maxErrorText is the most bytes of a query that does not parse, and of what is said of a
// longer one.
const maxErrorText = 4 << 10

// boundedError is an error whose text is cut.
type boundedError struct {
	error
	text string
}

func (e boundedError) Error() string { return e.text }
func (e boundedError) Unwrap() error { return e.error }

// bounded returns err, whose text is cut if query is long: what a parser says of a query may
// repeat it.
func bounded(err error, query string) error {
	if err == nil || len(query) <= maxErrorText {
		return err
	}
	text := err.Error()
	if len(text) <= maxErrorText {
		return err
	}
	return boundedError{err, fmt.Sprintf("%s… (%d bytes more)", strings.ToValidUTF8(text[:maxErrorText], ""), len(text)-maxErrorText)}
}
