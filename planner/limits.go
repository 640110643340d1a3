package planner

import (
	"fmt"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
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
	// A level, a selector and an item each take a byte at least.
	if len(query) < l.Least() && !repeats(query) {
		if !strings.Contains(query, "~") {
			return measured{}, nil
		}
		return measured{regexps: len(query)}, nil
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

// repeats reports whether a regular expression in a query may compile to more than a few
// instructions a byte: it has a number in braces, or something escaped.
func repeats(query string) bool {
	for i := range len(query) {
		switch query[i] {
		case '\\':
			return true
		case '{':
			if i+1 < len(query) && query[i+1] >= '0' && query[i+1] <= '9' {
				return true
			}
		}
	}
	return false
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

func (p limited) ParseMetric(input string) (labels.Labels, error) {
	if err := p.limits.Check(input); err != nil {
		return labels.EmptyLabels(), err
	}
	m, err := p.Parser.ParseMetric(input)
	return m, bounded(err, input)
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
	var sets [][]*labels.Matcher
	for _, s := range inputs {
		ms, err := p.Parser.ParseMetricSelector(s)
		if err != nil {
			return nil, bounded(err, s)
		}
		sets = append(sets, ms)
	}
	return sets, nil
}

func (p limited) ParseSeriesDesc(input string) (labels.Labels, []parser.SequenceValue, error) {
	if err := p.limits.Check(input); err != nil {
		return labels.EmptyLabels(), nil, err
	}
	ls, values, err := p.Parser.ParseSeriesDesc(input)
	return ls, values, bounded(err, input)
}
