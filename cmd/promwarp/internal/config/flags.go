package config

import (
	"cmp"
	"fmt"
	"reflect"
	"strings"

	"github.com/alecthomas/kingpin/v2"
)

// Flags are the flags of the command line that are also settings of the configuration file.
type Flags struct {
	File string
	// Quiet has the log hold warnings alone unless the user says otherwise.
	Quiet bool
	given []func(*Settings) // what was given, in order
}

// quietLevel is the log's level where Quiet is set.
const quietLevel = "warn"

// HasSource reports whether the user says what to read from.
func (f *Flags) HasSource() bool {
	s := f.alone()
	return f.File != "" || s.Upstream.URL != "" || s.TSDB.Path != ""
}

// alone are the settings that the command line says, and nothing else.
func (f *Flags) alone() (s Settings) {
	for _, apply := range f.given {
		apply(&s)
	}
	return s
}

// fileHelp is the help text of --config.file.
const fileHelp = "Configuration file, in YAML. A flag --a.b-c is the key a: {b_c: ...}; remote_read is as in Prometheus's. What is given on the command line wins."

// Flagger is an application or a command.
type Flagger interface {
	Flag(name, help string) *kingpin.FlagClause
}

// Add declares the flags: those of a server, or those that other commands have as well.
func (f *Flags) Add(to Flagger, server bool) {
	to.Flag("config.file", fileHelp).PlaceHolder("FILE").StringVar(&f.File)
	for _, row := range table {
		if row.only == "serve" && !server {
			continue
		}
		shown := cmp.Or(row.Tag.Get("as"), row.Tag.Get("default"))
		if row.key == "log.level" && f.Quiet {
			shown = quietLevel
		}
		to.Flag(row.flag, row.Tag.Get("help")).PlaceHolder(shown).SetValue(&flagValue{setting: row, flags: f})
	}
}

// flagValue is a kingpin.Value that notes how to apply what it was given. It has no default of its own,
// so it is set only if the user gave the flag.
type flagValue struct {
	setting
	flags *Flags
	texts []string
}

// Set implements kingpin.Value.
func (v *flagValue) Set(text string) error {
	var check Settings
	if err := v.set(&check, text); err != nil {
		return fmt.Errorf("--%s: %w", v.flag, err)
	}
	v.texts = append(v.texts, text)
	v.flags.given = append(v.flags.given, func(s *Settings) { _ = v.set(s, v.String()) })
	return nil
}

// String implements kingpin.Value.
func (v *flagValue) String() string { return strings.Join(v.texts, ",") }

// IsCumulative has kingpin take lists several times.
func (v *flagValue) IsCumulative() bool { return v.Type == reflect.TypeFor[List]() }

// IsBoolFlag has kingpin take the flag without a value.
func (v *flagValue) IsBoolFlag() bool { return v.Type.Kind() == reflect.Bool }

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
		if s.Upstream.URL != "" || s.TSDB.Path != "" || len(s.RemoteRead) > 0 {
			s.Replaced = "what the command line says to read from counts, and not upstream.url, tsdb.path and remote_read of " + f.File
		}
		s.Upstream.URL, s.TSDB.Path, s.RemoteRead = "", "", nil
	}
	for _, apply := range f.given {
		apply(&s)
	}
	s.Divide()
	return s, nil
}
