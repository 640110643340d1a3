// Package custom has aggregates that operators and clients write: a state, and expressions that say
// how a sample is added to it, how two states merge, and what comes of it.
//
// A Source (texts, of the configuration or of a request) goes in; an aggregate.Definition comes
// out, of which resample requests know no difference from a built-in one.
//
//	Source ─expr's parser─► tree ─lowering: names, kinds─► Code ─┬─ columns   what depends on samples alone
//	                                                             └─ recurrence what depends on the state
//
// Code is a list of instructions over registers of numbers and truth values, without jumps: each
// writes a register of its own. So all code ends, what it takes is known before it runs, and a GPU's
// back end would translate it one to one. Cores go over it a block of samples at a time: first each
// instruction that does not read the state goes over the whole block; what is left is sums and
// extremes, each a loop of its own, and recurrences, which are interpreted sample by sample.
// The same samples give the same bits in blocks of any length, at any number of workers.
//
// The parser is that of github.com/expr-lang/expr, which depends on nothing else: it knows ?: and
// and/or/not, says where things are, and bounds what it reads. Go's own parser has no conditional,
// and expr's checker and virtual machine speak of any Go value where there are two kinds here.
//
// Start with Source.Compile, then program.Make.
package custom

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/resample/aggregate"
)

// Source is a custom aggregate as it is written. Expressions of Add and Result see fields by their
// names, those of Merge as a.field and b.field, of which b comes later in the order of series.
type Source struct {
	Name    string            `yaml:"name"`
	Aliases []string          `yaml:"aliases"`
	State   map[string]string `yaml:"state"`  // the start value of each field
	Add     map[string]string `yaml:"add"`    // each field after a sample, of all fields before it
	Merge   map[string]string `yaml:"merge"`  // each field of two states as one; may be left out
	Result  string            `yaml:"result"` // a number
}

// Error says what is wrong with a Source.
type Error struct {
	Function     string // its name
	Part         string // name, state.sum, add.sum, merge.sum, result; empty for all of it
	Line, Column int    // of the part's text, from 1 on; 0 for all of it
	Text, Hint   string // what is wrong, and what to do
}

func (e *Error) Error() string {
	text := fmt.Sprintf("aggregate %q", clip(e.Function))
	if e.Part != "" {
		text += ", " + clip(e.Part)
	}
	if e.Line > 0 {
		text += fmt.Sprintf(", line %d, column %d", e.Line, e.Column)
	}
	if text += ": " + e.Text; e.Hint != "" {
		text += "; " + e.Hint
	}
	return text
}

// clip is the beginning of a text that an error repeats.
func clip(text string) string {
	if len(text) > 80 {
		text = text[:80] + "…"
	}
	return text
}

// The bounds of a Source.
const (
	MaxFields  = 16
	MaxText    = 4096 // bytes of an expression
	MaxDepth   = 100  // levels of an expression
	maxNodes   = 2000 // of an expression
	maxName    = 64   // bytes
	maxAliases = 8
)

// reserved are names that fields cannot have, since expressions mean something else by them.
var reserved = []string{
	"v", "t", "prev_v", "prev_t", "first", "start", "end", "a", "b", "inf", "nan", "true", "false", "nil",
	"let", "if", "else", "not", "and", "or", "in", "matches", "contains", "startsWith", "endsWith",
}

var validName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// maxSource is the most bytes of a Source.
const maxSource = 64 << 10

// Read reads a Source from YAML or JSON.
func Read(text []byte) (s Source, err error) {
	if len(text) > maxSource {
		return s, fmt.Errorf("it has %d bytes, and can have %d", len(text), maxSource)
	}
	if err := yaml.UnmarshalStrict(text, &s); err != nil {
		return s, errors.New(plainYAML.Replace(err.Error()))
	}
	return s, nil
}

// plainYAML takes Go's types out of the decoder's errors.
var plainYAML = strings.NewReplacer("yaml: ", "", "unmarshal errors:\n  ", "", "\n  ", "; ", " in type custom.Source", "", " into custom.Source", "", "!!", "a ")

// AddTo returns the library with what sources define. An error is an *Error.
func AddTo(l aggregate.Library, sources []Source) (aggregate.Library, error) {
	for i := range sources {
		d, err := sources[i].Compile()
		if err != nil {
			return l, err
		}
		with, taken := l.With(d)
		if taken != "" {
			return l, &Error{Function: d.Name, Part: "name", Text: fmt.Sprintf("there is an aggregate %q already", clip(taken)), Hint: "give it another name"}
		}
		l = with
	}
	return l, nil
}

// Compile makes the definition. An error is an *Error.
func (s *Source) Compile() (*aggregate.Definition, error) {
	p, err := s.program()
	if err != nil {
		return nil, err
	}
	return p.definition(), nil
}

// checkNames checks the names, and that the parts speak of the same fields.
func (s *Source) checkNames() error {
	wrong := func(part, text, hint string) error {
		return &Error{Function: s.Name, Part: part, Text: text, Hint: hint}
	}
	for i, name := range append([]string{s.Name}, s.Aliases...) {
		switch {
		case i > maxAliases:
			return wrong("aliases", fmt.Sprintf("there can be %d", maxAliases), "")
		case !validName.MatchString(name) || len(name) > maxName:
			return wrong("name", fmt.Sprintf("%q cannot be the name of an aggregate", clip(name)), fmt.Sprintf("use at most %d letters, digits and underscores", maxName))
		}
	}
	switch {
	case len(s.State) == 0 || len(s.State) > MaxFields:
		return wrong("state", fmt.Sprintf("it has %d fields", len(s.State)), fmt.Sprintf("give 1 to %d, each with its start value", MaxFields))
	case s.Result == "":
		return wrong("result", "it is missing", "give an expression of the fields")
	}
	for _, name := range slices.Sorted(maps.Keys(s.State)) {
		if !validName.MatchString(name) || len(name) > maxName || slices.Contains(reserved, name) {
			return wrong("state", fmt.Sprintf("%q cannot be the name of a field", clip(name)), fmt.Sprintf("use at most %d letters, digits and underscores, and none of the names that expressions know", maxName))
		}
	}
	for _, part := range []struct {
		name string
		of   map[string]string
	}{{"add", s.Add}, {"merge", s.Merge}} {
		for _, name := range slices.Sorted(maps.Keys(part.of)) {
			if _, ok := s.State[name]; !ok {
				hint := aggregate.DidYouMean(name, slices.Sorted(maps.Keys(s.State)), "give it a start value in state")
				return wrong(part.name+"."+name, "the state has no such field", hint)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(s.State)) {
			if _, ok := part.of[name]; !ok && (part.name == "add" || part.of != nil) {
				return wrong(part.name+"."+name, "it is missing", fmt.Sprintf("say what becomes of the field, or that it stays: %s: %s", name, map[string]string{"add": name, "merge": "a." + name}[part.name]))
			}
		}
	}
	return nil
}
