package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v2"
	yamlnode "go.yaml.in/yaml/v3"
)

// mostFaults is the most errors that are looked for in one file.
const mostFaults = 50

// faults says why text is no configuration, each value that does not parse by its line and its
// setting. The YAML decoder alone ends at the first such value, and often says no line.
//
// A value is at fault for a reason if a file with it alone fails for that reason. It is taken out,
// and what is left is decoded again.
func faults(text []byte, err error) error {
	var document yamlnode.Node
	if yamlnode.Unmarshal(text, &document) != nil || len(document.Content) == 0 {
		return syntaxFault(text, err)
	}
	d := &dissection{root: document.Content[0], names: map[*yamlnode.Node]string{}}
	d.name(d.root, "")
	d.duplicates(d.root)
	for len(d.found) < mostFaults {
		reasons := reasonsOf(d.root)
		if len(reasons) == 0 || !d.blame(reasons) {
			break
		}
	}
	if len(d.found) == 0 {
		return syntaxFault(text, err)
	}
	slices.SortStableFunc(d.found, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column))
	})
	var all []error
	for _, f := range d.found {
		all = append(all, errors.New(f.String()))
	}
	return errors.Join(all...)
}

// Locate puts before each line of err, of settings that Load returned, the file and the line of the
// setting with which it begins. Of settings that flags give as well nothing is said.
func (f *Flags) Locate(err error) error {
	text, _ := os.ReadFile(f.File)
	var document yamlnode.Node
	if err == nil || len(f.given) > 0 || yamlnode.Unmarshal(text, &document) != nil || len(document.Content) == 0 || strings.HasPrefix(err.Error(), f.File) {
		return err
	}
	d := &dissection{names: map[*yamlnode.Node]string{}}
	d.name(document.Content[0], "")
	lines := strings.Split(err.Error(), "\n")
	for i, l := range lines {
		line, setting := "", ""
		for n, name := range d.names {
			if strings.HasPrefix(l, name) && len(name) > len(setting) {
				line, setting = fmt.Sprintf("line %d: ", n.Line), name
			}
		}
		lines[i] = f.File + ": " + line + l
	}
	located := errors.New(strings.Join(lines, "\n"))
	if errors.As(err, new(UsageError)) {
		return Usage(located)
	}
	return located
}

// fault is what is wrong with one value.
type fault struct {
	at     *yamlnode.Node // where it is
	name   string         // of the setting, or the entry of a list; empty for the whole file
	reason string
}

func (f *fault) String() string {
	text := fmt.Sprintf("line %d: ", max(f.at.Line, 1))
	if f.name != "" {
		text += f.name + ": "
	}
	text += f.reason
	for _, e := range expected {
		if e.wrong.MatchString(f.reason) {
			text += "; " + e.text
		}
	}
	return text
}

// dissection is a file while its faults are looked for and taken out.
type dissection struct {
	root  *yamlnode.Node
	names map[*yamlnode.Node]string // of values
	found []fault
}

// step leads from a mapping or a list to one of its values.
type step struct {
	parent, key, value *yamlnode.Node // key is nil in a list
}

// at is the node with which it begins.
func (s step) at() *yamlnode.Node { return cmp.Or(s.key, s.value) }

// steps are those to the values of a node.
func steps(n *yamlnode.Node) (all []step) {
	switch n.Kind {
	case yamlnode.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			all = append(all, step{n, n.Content[i], n.Content[i+1]})
		}
	case yamlnode.SequenceNode:
		for _, v := range n.Content {
			all = append(all, step{n, nil, v})
		}
	}
	return all
}

// name notes what values are called, before any of them is taken out.
func (d *dissection) name(n *yamlnode.Node, name string) {
	d.names[n] = name
	for i, s := range steps(n) {
		switch {
		case s.key == nil:
			d.name(s.value, strings.TrimPrefix(fmt.Sprintf("%s: entry %d", name, i+1), ": "))
		case strings.Contains(name, ": entry "):
			d.name(s.value, name+": "+s.key.Value)
		default:
			d.name(s.value, strings.TrimPrefix(name+"."+s.key.Value, "."))
		}
	}
}

// duplicates takes out keys that are given twice.
func (d *dissection) duplicates(n *yamlnode.Node) {
	first := map[string]int{}
	for _, s := range steps(n) {
		d.duplicates(s.value)
		if s.key == nil || s.key.Kind != yamlnode.ScalarNode {
			continue
		}
		if line, twice := first[s.key.Value]; twice {
			d.found = append(d.found, fault{s.at(), d.names[n], fmt.Sprintf("key %q is given twice, first in line %d", s.key.Value, line)})
			s.remove()
			continue
		}
		first[s.key.Value] = s.key.Line
	}
}

// blame finds and takes out the values that are at fault for reasons, and reports whether something
// is left to look at.
func (d *dissection) blame(reasons []string) bool {
	for _, reason := range reasons {
		for _, path := range locate(d.root, nil, reason) {
			if len(path) == 0 {
				d.found = append(d.found, fault{d.root, "", reason})
				return false
			}
			last := path[len(path)-1]
			d.found = append(d.found, fault{last.at(), d.names[last.value], reason})
			last.remove()
		}
	}
	return true
}

// locate returns the ways to the innermost values that fail for a reason even if they stand alone.
func locate(n *yamlnode.Node, path []step, reason string) (all [][]step) {
	empty := &yamlnode.Node{Kind: n.Kind}
	if len(n.Content) > 0 && !fails(path, empty, reason) {
		for _, s := range steps(n) {
			if path := append(slices.Clip(path), s); fails(path, s.value, reason) {
				all = append(all, locate(s.value, path, reason)...)
			}
		}
	}
	if len(all) == 0 {
		return [][]step{path}
	}
	return all
}

// fails reports whether a file that has nothing but n, at the end of path, fails for a reason.
func fails(path []step, n *yamlnode.Node, reason string) bool {
	for _, s := range slices.Backward(path) {
		alone := []*yamlnode.Node{n}
		if s.key != nil {
			alone = []*yamlnode.Node{s.key, n}
		}
		n = &yamlnode.Node{Kind: s.parent.Kind, Content: alone}
	}
	return slices.Contains(reasonsOf(n), reason)
}

// needed are keys without which what they are in fails for another reason, and values that will do.
var needed = map[string]string{"url": "http://localhost", "endpoint": "localhost"}

// remove takes the value out.
func (s step) remove() {
	if s.key == nil {
		s.parent.Content = slices.DeleteFunc(s.parent.Content, func(n *yamlnode.Node) bool { return n == s.value })
		return
	}
	if text := needed[s.key.Value]; text != "" && s.value.Value != text {
		*s.value = yamlnode.Node{Kind: yamlnode.ScalarNode, Value: text}
		return
	}
	i := slices.Index(s.parent.Content, s.key)
	s.parent.Content = slices.Delete(s.parent.Content, i, i+2)
}

// reasonsOf are the reasons why a document is no configuration, each once.
func reasonsOf(n *yamlnode.Node) []string {
	text, err := yamlnode.Marshal(n)
	if err != nil {
		return nil
	}
	s := Default()
	reasons := reasonsIn(yaml.UnmarshalStrict(text, &s))
	slices.Sort(reasons)
	return slices.Compact(reasons)
}

// expected says what belongs where a value is, of errors of others that say only that it is wrong.
var expected = []struct {
	wrong *regexp.Regexp
	text  string
}{
	{regexp.MustCompile(`^(not a valid duration string: |unknown unit .* in duration|empty duration string$)`), "write one such as 30s, 5m or 1d"},
	{regexp.MustCompile(`^unknown TLS version: `), "write TLS10, TLS11, TLS12 or TLS13"},
	{regexp.MustCompile(`^parse ".*": |invalid URL escape|missing protocol scheme`), "write a URL such as http://prometheus:9090"},
}

// syntaxFault says why text is no YAML, and the line with which it begins to be none.
func syntaxFault(text []byte, err error) error {
	reason := strings.Join(reasonsIn(err), "; ")
	if saysLine.MatchString(reason) {
		return errors.New(reason)
	}
	end := 0
	for line := 1; line <= mostLines && end < len(text); line++ {
		if n := bytes.IndexByte(text[end:], '\n'); n >= 0 {
			end += n + 1
		} else {
			end = len(text)
		}
		s := Default()
		if slices.Contains(reasonsIn(yaml.UnmarshalStrict(text[:end], &s)), reason) {
			return fmt.Errorf("line %d: %s", line, reason)
		}
	}
	return errors.New(reason)
}

// mostLines is up to which line syntaxFault looks.
const mostLines = 1000

// saysLine matches an error that says its line.
var saysLine = regexp.MustCompile(`^line \d+: `)
