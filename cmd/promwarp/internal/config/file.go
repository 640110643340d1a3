package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"

	commonconfig "github.com/prometheus/common/config"
	"go.yaml.in/yaml/v2"
	yamlnode "go.yaml.in/yaml/v3"

	"github.com/promwarp/promwarp/resample/aggregate"
)

// Load reads the configuration file, if any, and applies the command line over it. A source on the
// command line replaces the file's as a whole, remote_read included. Relative paths are the current
// directory's on the command line and the file's directory's in the file.
func (f *Flags) Load() (Settings, error) {
	s := Default()
	if f.File != "" {
		var err error
		if s, err = readSettings(f.File); err != nil {
			return s, err
		}
	}
	if f.Quiet {
		s.Log.Level = quietLevel // the file's is the server's
	}
	if flags := f.alone(); flags.Upstream.URL != "" || flags.TSDB.Path != "" {
		if s.Upstream.URL != "" || s.TSDB.Path != "" || len(s.RemoteRead)+len(s.Stores) > 0 {
			s.Replaced = "what the command line says to read from counts, and not upstream.url, tsdb.path, remote_read and stores of " + f.File
		}
		s.Upstream.URL, s.TSDB.Path, s.RemoteRead, s.Stores = "", "", nil, nil
	}
	for _, apply := range f.given {
		apply(&s)
	}
	s.Divide()
	return s, nil
}

// readSettings reads a configuration file over the defaults. Relative paths in it are relative to the
// file's directory.
func readSettings(file string) (Settings, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Settings{}, Usagef("reading the configuration: %w", err)
	}
	s := Default()
	if err := yaml.UnmarshalStrict(b, &s); err != nil {
		return Settings{}, Usagef("%s: %s", file, strings.Join(faults(b, err), "\n"+file+": "))
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
	for i, one := range s.Stores {
		if one == nil {
			return Settings{}, Usagef("%s: stores entry %d is empty", file, i+1)
		}
		if one.TLSConfig != nil {
			one.TLSConfig.SetDirectory(dir)
		}
	}
	s.Tracing.SetDirectory(dir)
	for _, row := range table {
		if row.isPath() {
			_ = row.set(&s, commonconfig.JoinDir(dir, row.text(&s))) // any text is a path
		}
	}
	return s, nil
}

// expected says what belongs where a value is, of errors of others that say only that it is wrong.
var expected = []struct {
	wrong *regexp.Regexp
	text  string
}{
	{regexp.MustCompile(`(not a valid duration string: |unknown unit .* in duration|empty duration string$)`), "write one such as 30s, 5m or 1d"},
	{regexp.MustCompile(`unknown TLS version: `), "write TLS10, TLS11, TLS12 or TLS13"},
	{regexp.MustCompile(`parse ".*": |invalid URL escape|missing protocol scheme`), "write a URL such as http://prometheus:9090"},
}

// mostLines is how many lines a text has at most in which faults looks for a line.
const mostLines = 1000

// saysLine matches an error that says its line.
var saysLine = regexp.MustCompile(`^line \d+: `)

// faults says why text is no configuration, with lines. The YAML decoder lists values of the wrong kind
// with theirs, and otherwise ends at the first error, of which it often says no line: that is the one
// without which, and without all behind it, the error is another.
func faults(text []byte, err error) (all []string) {
	if many, ok := errors.AsType[*yaml.TypeError](err); ok {
		for _, l := range many.Errors {
			all = append(all, plain(l))
		}
		return all
	}
	reason := plain(strings.TrimPrefix(err.Error(), "yaml: "))
	lines := bytes.SplitAfter(bytes.TrimRight(text, "\n"), []byte("\n"))
	if saysLine.MatchString(reason) || len(lines) > mostLines {
		return []string{reason}
	}
	n := len(lines)
	for ; n > 1; n-- {
		s := Default()
		without := yaml.UnmarshalStrict(bytes.Join(lines[:n-1], nil), &s)
		if without == nil || without.Error() != err.Error() {
			break
		}
	}
	return []string{fmt.Sprintf("line %d: %s", n, reason)}
}

var (
	unknownKey = regexp.MustCompile(`(?s)field (.*?) not found in type (\S+)`)
	twiceKey   = regexp.MustCompile(`(?s)field (.*?) already set in type \S+`)
	wrongType  = regexp.MustCompile("(?s)cannot unmarshal !.*? (`.*`) into (\\S+)$|cannot unmarshal (!.*) into (\\S+)$")
)

// tags names tags of YAML for people.
var tags = strings.NewReplacer("seq", "list", "map", "mapping")

// plain is an error of the YAML decoder in words without Go types, and with what to do.
func plain(l string) string {
	if m := unknownKey.FindStringSubmatch(l); m != nil {
		keys := keysOf(reflect.TypeFor[Settings](), m[2])
		if len(keys) == 0 { // it is a type without a name of its own
			keys = keysOf(reflect.TypeFor[Settings](), "")
		}
		hint := aggregate.DidYouMean(m[1], keys, "")
		l = strings.TrimSuffix(unknownKey.ReplaceAllString(l, `unknown key "$1"; `)+hint, "; ")
	}
	l = twiceKey.ReplaceAllString(l, `key "$1" is given twice`)
	l = wrongType.ReplaceAllStringFunc(l, func(m string) string {
		p := wrongType.FindStringSubmatch(m)
		if p[1] != "" {
			return fmt.Sprintf("%s does not fit here, where a value of type %s belongs", p[1], plainType(p[2]))
		}
		return fmt.Sprintf("a %s does not fit here, where a value of type %s belongs", tags.Replace(strings.TrimLeft(p[3], "!")), plainType(p[4]))
	})
	for _, e := range expected {
		if e.wrong.MatchString(l) {
			l += "; " + e.text
		}
	}
	return l
}

// keysOf lists the keys of the types of a name in a type, of all types without a name.
func keysOf(in reflect.Type, name string) (keys []string) {
	for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
		in = in.Elem()
	}
	if in.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(in) {
		key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if key != "" && key != "-" && (name == "" || name == in.String() || name == "config.entry" && strings.Contains(in.String(), "RemoteRead")) {
			keys = append(keys, key)
		}
		if f.Anonymous || f.Tag.Get("yaml") != "" {
			keys = append(keys, keysOf(f.Type, name)...)
		}
	}
	return keys
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
