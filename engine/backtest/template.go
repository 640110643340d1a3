package backtest

import (
	"fmt"
	"slices"
	"strings"
	"text/template/parse"

	"github.com/prometheus/prometheus/model/labels"
)

// templateFunctions are what templates of labels may call: their results are no longer than what they are
// given, or short.
var templateFunctions = []string{
	"eq", "ne", "lt", "le", "gt", "ge", "and", "or", "not", "match", "title", "toLower", "toUpper", "stripPort", "stripDomain",
	"humanize", "humanize1024", "humanizeDuration", "humanizePercentage",
}

// longestTemplate is the most bytes of a label's template.
const longestTemplate = 4096

// unexpanded is the value of a label whose template is not expanded.
const unexpanded = "<template>"

// safeLabels returns a rule's labels that may be expanded for whoever asks, and a note on each of the others:
// a template can ask for queries, and for any amount of time and memory. Fixed says that all depend on
// nothing but a series' labels.
func safeLabels(all labels.Labels) (safe labels.Labels, fixed bool, notes []string) {
	var b labels.ScratchBuilder // an empty label removes a series' label: it stays
	fixed = true
	all.Range(func(l labels.Label) {
		if !strings.Contains(l.Value, "{{") {
			b.Add(l.Name, l.Value)
			return
		}
		t := parse.New(l.Name)
		t.Mode = parse.SkipFuncCheck
		trees := map[string]*parse.Tree{}
		// The variables are those that Prometheus declares.
		_, err := t.Parse("{{$labels := .}}{{$value := .}}"+l.Value, "", "", trees)
		c := checker{}
		switch {
		case err != nil || len(trees) > 1 || len(l.Value) > longestTemplate:
			c.refused = "more than conditions on labels and values"
		default:
			for _, n := range t.Root.Nodes[2:] {
				c.check(n)
			}
		}
		fixed = fixed && !c.value
		if c.refused != "" {
			l.Value = unexpanded
			notes = append(notes, fmt.Sprintf("the template of label %s has %s, and is not expanded", l.Name, c.refused))
		}
		b.Add(l.Name, l.Value)
	})
	return b.Labels(), fixed, notes
}

// checker reads a template.
type checker struct {
	refused string // what is not allowed
	value   bool   // it depends on a value
}

// check reads a node and what is below it.
func (c *checker) check(node parse.Node) {
	switch n := node.(type) {
	case *parse.ListNode:
		for i := 0; n != nil && i < len(n.Nodes); i++ {
			c.check(n.Nodes[i])
		}
	case *parse.ActionNode:
		c.check(n.Pipe)
	case *parse.IfNode:
		c.check(n.Pipe)
		c.check(n.List)
		c.check(n.ElseList)
	case *parse.PipeNode:
		if len(n.Decl) > 0 {
			c.refused = "variables"
		}
		for _, command := range n.Cmds {
			for _, of := range command.Args {
				c.check(of)
			}
		}
	case *parse.IdentifierNode:
		if !slices.Contains(templateFunctions, n.Ident) {
			c.refused = "the function " + n.Ident
		}
	case *parse.VariableNode:
		c.value = c.value || len(n.Ident) != 2 || n.Ident[0] != "$labels"
	case *parse.FieldNode:
		c.value = c.value || len(n.Ident) != 2 || n.Ident[0] != "Labels"
	case *parse.TextNode, *parse.CommentNode, *parse.StringNode, *parse.NumberNode, *parse.BoolNode:
	default:
		c.refused = "more than conditions on labels and values"
	}
}
