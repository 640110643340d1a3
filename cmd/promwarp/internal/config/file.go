package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	commonconfig "github.com/prometheus/common/config"
	"go.yaml.in/yaml/v2"
	yamlnode "go.yaml.in/yaml/v3"
)

// readSettings reads a configuration file over the defaults. Relative paths in it are relative to the
// file's directory.
func readSettings(file string) (Settings, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Settings{}, Usagef("reading the configuration: %w", err)
	}
	s := Default()
	if err := yaml.UnmarshalStrict(b, &s); err != nil {
		text := strings.Join(faults(b, err), "\n"+file+": ")
		return Settings{}, Usagef("%s: %s", file, text)
	}
	var first, second yamlnode.Node
	if d := yamlnode.NewDecoder(bytes.NewReader(b)); d.Decode(&first) == nil && d.Decode(&second) == nil {
		return Settings{}, Usagef("%s: line %d: a second document begins, of which nothing would be read: put its settings into the first", file, second.Line)
	}
	dir := filepath.Dir(file)
	for i, r := range s.RemoteRead {
		if r == nil {
			return Settings{}, Usagef("%s: remote_read entry %d is empty", file, i+1)
		}
		r.SetDirectory(dir)
	}
	s.Tracing.SetDirectory(dir)
	for _, row := range table {
		if row.isPath() {
			_ = row.set(&s, commonconfig.JoinDir(dir, row.text(&s))) // any text is a path
		}
	}
	return s, nil
}

// mostFaults is the most errors that are said of one file.
const mostFaults = 50

// fault is what is wrong with one value.
type fault struct {
	value
	reason string
}

// faults says why text is no configuration, each value that does not parse by its line and its setting.
// The YAML decoder alone ends at the first such value, and often says no line. A value is at fault if a
// file that has nothing else is no configuration, and nothing inside the value is at fault.
func faults(text []byte, err error) []string {
	var document yamlnode.Node
	var all []fault
	if yamlnode.Unmarshal(text, &document) == nil && len(document.Content) > 0 {
		root := value{node: document.Content[0], at: document.Content[0]}
		all = root.faults(func(n *yamlnode.Node) *yamlnode.Node { return n })
	}
	if len(all) == 0 {
		return []string{syntaxFault(text, err)}
	}
	slices.SortStableFunc(all, func(a, b fault) int {
		return cmp.Or(cmp.Compare(a.at.Line, b.at.Line), cmp.Compare(a.at.Column, b.at.Column))
	})
	var lines []string
	for _, f := range all[:min(len(all), mostFaults)] {
		line := fmt.Sprintf("line %d: ", max(f.at.Line, 1))
		if f.name != "" {
			line += f.name + ": "
		}
		if instead, is := gone[f.name]; is {
			f.reason = "there is no such setting any more: " + instead
		}
		line += f.reason
		for _, e := range expected {
			if e.wrong.MatchString(f.reason) {
				line += "; " + e.text
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// value is a value in a file.
type value struct {
	name     string         // of the setting, or the entry of a list; empty for the whole file
	key      *yamlnode.Node // nil in a list
	node, at *yamlnode.Node // itself, and where it begins
}

// values are those of a mapping or a list.
func (v value) values() (all []value) {
	switch v.node.Kind {
	case yamlnode.MappingNode:
		for i := 0; i+1 < len(v.node.Content); i += 2 {
			key := v.node.Content[i]
			name := strings.TrimPrefix(v.name+"."+key.Value, ".")
			if strings.Contains(v.name, ": entry ") {
				name = v.name + ": " + key.Value
			}
			all = append(all, value{name, key, v.node.Content[i+1], key})
		}
	case yamlnode.SequenceNode:
		for i, n := range v.node.Content {
			all = append(all, value{strings.TrimPrefix(fmt.Sprintf("%s: entry %d", v.name, i+1), ": "), nil, n, n})
		}
	}
	return all
}

// entryOfRemoteRead is the name of one.
var entryOfRemoteRead = regexp.MustCompile(`^remote_read: entry \d+$`)

// alone returns v's node with nothing but the value within, of the given node, and what v must have.
func (v value) alone(within value, n *yamlnode.Node) *yamlnode.Node {
	if within.key == nil {
		return &yamlnode.Node{Kind: v.node.Kind, Content: []*yamlnode.Node{n}}
	}
	content := []*yamlnode.Node{within.key, n}
	need := func(key, text string) {
		if within.key.Value != key {
			content = append(content, &yamlnode.Node{Kind: yamlnode.ScalarNode, Value: key}, &yamlnode.Node{Kind: yamlnode.ScalarNode, Value: text})
		}
	}
	if v.name == "tracing" {
		need("endpoint", "localhost")
	} else if entryOfRemoteRead.MatchString(v.name) {
		need("url", "http://localhost")
	}
	return &yamlnode.Node{Kind: v.node.Kind, Content: content}
}

// faults returns those in v. File returns a file that has nothing but a node in v's place.
func (v value) faults(file func(*yamlnode.Node) *yamlnode.Node) (all []fault) {
	reasons := reasonsOf(file(v.node))
	if len(reasons) == 0 {
		return nil
	}
	inside := v.values()
	if slices.ContainsFunc(reasonsOf(file(&yamlnode.Node{Kind: v.node.Kind})), func(r string) bool { return slices.Contains(reasons, r) }) {
		inside = nil // whatever is in it
	}
	first := map[string]int{}
	for _, within := range inside {
		all = append(all, within.faults(func(n *yamlnode.Node) *yamlnode.Node { return file(v.alone(within, n)) })...)
		if within.key == nil || within.key.Kind != yamlnode.ScalarNode {
			continue
		}
		if line, twice := first[within.key.Value]; twice {
			all = append(all, fault{value{name: v.name, at: within.key}, fmt.Sprintf("key %q is given twice, first in line %d", within.key.Value, line)})
			continue
		}
		first[within.key.Value] = within.key.Line
	}
	if len(all) == 0 {
		for _, reason := range reasons {
			all = append(all, fault{v, reason})
		}
	}
	return all
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
	// Of what stands alone the anchor is elsewhere.
	return slices.DeleteFunc(slices.Compact(reasons), func(r string) bool { return strings.HasPrefix(r, "unknown anchor ") })
}

// Locate puts before each line of err, of settings that Load returned, the file and the line of the
// setting with which it begins. Of settings that flags give as well nothing is said.
func (f *Flags) Locate(err error) error {
	text, _ := os.ReadFile(f.File)
	var document yamlnode.Node
	if err == nil || len(f.given) > 0 || yamlnode.Unmarshal(text, &document) != nil || len(document.Content) == 0 || strings.HasPrefix(err.Error(), f.File) {
		return err
	}
	lines := strings.Split(err.Error(), "\n")
	for i, l := range lines {
		v := value{node: document.Content[0]}
		for deeper := true; deeper; {
			deeper = false
			for _, within := range v.values() {
				if strings.HasPrefix(l, within.name) && (!deeper || len(within.name) > len(v.name)) {
					v, deeper = within, true
				}
			}
		}
		if v.name != "" {
			l = fmt.Sprintf("line %d: %s", v.node.Line, l)
		}
		lines[i] = f.File + ": " + l
	}
	located := errors.New(strings.Join(lines, "\n"))
	if errors.As(err, new(UsageError)) {
		return Usage(located)
	}
	return located
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

// mostLines is up to which line syntaxFault looks.
const mostLines = 1000

// saysLine matches an error that says its line.
var saysLine = regexp.MustCompile(`^line \d+: `)

// syntaxFault says why text is no YAML, and the line with which it begins to be none.
func syntaxFault(text []byte, err error) string {
	reason := strings.Join(reasonsIn(err), "; ")
	if saysLine.MatchString(reason) {
		return reason
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
			return fmt.Sprintf("line %d: %s", line, reason)
		}
	}
	return reason
}

var (
	unknownKey = regexp.MustCompile(`(?s)field (.*?) not found in type \S+`)
	twiceKey   = regexp.MustCompile(`(?s)field (.*?) already set in type \S+`)
	wrongType  = regexp.MustCompile("(?s)cannot unmarshal !.*? (`.*`) into (\\S+)$|cannot unmarshal (!.*) into (\\S+)$")
)

// reasonsIn are the errors of the YAML decoder in words without Go types. Those of types say no line.
func reasonsIn(err error) (all []string) {
	var many *yaml.TypeError
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &many):
		return []string{strings.TrimPrefix(err.Error(), "yaml: ")}
	}
	for _, l := range many.Errors {
		l = saysLine.ReplaceAllString(l, "")
		l = unknownKey.ReplaceAllString(l, `unknown key "$1"`)
		l = twiceKey.ReplaceAllString(l, `key "$1" is given twice`)
		l = wrongType.ReplaceAllStringFunc(l, func(m string) string {
			p := wrongType.FindStringSubmatch(m)
			if p[1] != "" {
				return fmt.Sprintf("%s does not fit here, where a value of type %s belongs", p[1], plainType(p[2]))
			}
			return fmt.Sprintf("a %s does not fit here, where a value of type %s belongs", plainKind(p[3]), plainType(p[4]))
		})
		all = append(all, l)
	}
	return all
}

// plainKind names a tag of YAML for people.
func plainKind(tag string) string {
	switch tag = strings.TrimLeft(tag, "!"); tag {
	case "seq":
		return "list"
	case "map":
		return "mapping"
	}
	return tag
}

// plainType names a Go type for people.
func plainType(t string) string {
	switch {
	case strings.HasSuffix(t, "Settings"), strings.HasPrefix(t, "map["), t == "custom.Source":
		return "mapping"
	case strings.HasPrefix(t, "[]"):
		return "list"
	case t == "int", strings.HasPrefix(t, "uint"):
		return "whole number"
	case t == "bool":
		return "true or false"
	case t == "string":
		return "text"
	case strings.HasPrefix(t, "float"), strings.HasSuffix(t, "fraction"):
		return "number"
	case strings.HasSuffix(t, "Duration"):
		return "duration, such as 5m,"
	case strings.HasSuffix(t, "ByteSize"):
		return "size, such as 4GiB,"
	}
	t = strings.TrimPrefix(t, "config.")
	return strings.ToLower(t[:1]) + t[1:]
}
