package config

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	commonconfig "github.com/prometheus/common/config"
	"go.yaml.in/yaml/v2"
	yamlnode "go.yaml.in/yaml/v3"
)

// readSettings reads a configuration file over the defaults. Relative paths in
// it are relative to the file's directory.
func readSettings(file string) (Settings, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return Settings{}, Usagef("reading the configuration: %w", err)
	}
	s := Default()
	if err := yaml.UnmarshalStrict(b, &s); err != nil {
		return Settings{}, Usagef("%w", inFile(file, faults(b, err)))
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
	s.Cache.Path = commonconfig.JoinDir(dir, s.Cache.Path)
	s.TSDB.Path = commonconfig.JoinDir(dir, s.TSDB.Path)
	s.Tracing.SetDirectory(dir)
	s.Web.ConfigFile = commonconfig.JoinDir(dir, s.Web.ConfigFile)
	if s.GPU.Constants != defaultGPU().Constants {
		s.GPU.Constants = commonconfig.JoinDir(dir, s.GPU.Constants)
	}
	return s, nil
}

var (
	unknownKey = regexp.MustCompile(`(?s)field (.*?) not found in type \S+`)
	twiceKey   = regexp.MustCompile(`(?s)field (.*?) already set in type \S+`)
	wrongType  = regexp.MustCompile("(?s)cannot unmarshal !.*? (`.*`) into (\\S+)$|cannot unmarshal (!.*) into (\\S+)$")
)

// inFile puts the name of a file before each error.
func inFile(file string, err error) error {
	return errors.New(file + ": " + strings.ReplaceAll(err.Error(), "\n", "\n"+file+": "))
}

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
