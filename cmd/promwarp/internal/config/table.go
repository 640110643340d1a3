package config

import (
	"cmp"
	"encoding"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/kingpin/v2"

	"github.com/promwarp/promwarp/remoteread/urltext"
)

// setting is a row of the table: a field of Settings that has a flag, with what its tags say.
type setting struct {
	reflect.StructField
	key, flag           string // in the file, and on the command line without the dashes before it
	title, reload, only string // those of what the field is in, unless it has its own
	path                []int  // to the field
}

// table is all settings that have flags, in the order of the page.
var table = rows(reflect.TypeFor[Settings](), setting{})

// rows lists the settings of the fields of a type that is in another.
func rows(of reflect.Type, above setting) (all []setting) {
	for i := range of.NumField() {
		row := above
		row.StructField, row.path = of.Field(i), append(slices.Clip(above.path), i)
		name, _, _ := strings.Cut(row.Tag.Get("yaml"), ",")
		if name != "" {
			row.key = strings.TrimPrefix(above.key+"."+name, ".")
		}
		row.flag = strings.ReplaceAll(row.key, "_", "-")
		row.title = cmp.Or(row.Tag.Get("title"), above.title)
		row.reload = cmp.Or(row.Tag.Get("reload"), above.reload, "at once")
		row.only = cmp.Or(row.Tag.Get("only"), above.only)
		switch {
		case row.Tag.Get("help") != "":
			all = append(all, row)
		case row.title != "":
			all = append(all, rows(row.Type, row)...)
		}
	}
	return all
}

// isHidden reports whether help leaves the setting out.
func (row *setting) isHidden() bool { return row.Tag.Get("hidden") == "yes" }

// isPath reports whether the setting is a path.
func (row *setting) isPath() bool {
	as := row.Tag.Get("as")
	return as == "FILE" || as == "DIRECTORY"
}

// in returns the setting's field of s.
func (row *setting) in(s *Settings) reflect.Value {
	return reflect.ValueOf(s).Elem().FieldByIndex(row.path)
}

// set gives the setting the value that a text stands for.
func (row *setting) set(s *Settings, text string) (err error) {
	switch v := row.in(s).Addr().Interface().(type) {
	case encoding.TextUnmarshaler:
		return v.UnmarshalText([]byte(text))
	case *string:
		*v = text
	case *bool:
		*v, err = strconv.ParseBool(text)
	case *int:
		*v, err = strconv.Atoi(text)
	case *float64:
		*v, err = strconv.ParseFloat(text, 64)
	}
	if err != nil {
		return fmt.Errorf("not a number, or not one that fits: %q", text)
	}
	return nil
}

// text is the setting's value, without secrets.
func (row *setting) text(s *Settings) string {
	text := fmt.Sprint(row.in(s).Interface())
	if row.Tag.Get("as") == "URL" {
		return urltext.Setting(text)
	}
	return text
}

// check says why the setting's value is none that there is, or beyond its bounds.
func (row *setting) check(s *Settings) error {
	must := ""
	if of := row.Tag.Get("of"); of != "" {
		if slices.Contains(strings.Split(of, ", "), row.text(s)) {
			return nil
		}
		must = "one of " + of
	} else {
		v, isNumber := number(row.in(s))
		least, most := row.bound("least", 0), row.bound("most", math.Inf(1))
		switch {
		case !isNumber || v >= least && v <= most:
			return nil
		case math.IsInf(most, 1):
			must = "at least " + cmp.Or(row.Tag.Get("least"), "0")
		default:
			must = cmp.Or(row.Tag.Get("least"), "0") + " to " + row.Tag.Get("most")
		}
	}
	if d := row.Tag.Get("default"); d != "" {
		must += "; the default is " + d
	}
	return fmt.Errorf("%s is %s and must be %s. %s", row.key, row.text(s), must, row.Tag.Get("help"))
}

// bound is the number that a tag says, or otherwise.
func (row *setting) bound(tag string, otherwise float64) float64 {
	var s Settings
	if text := row.Tag.Get(tag); text == "" || row.set(&s, text) != nil {
		return otherwise
	}
	n, _ := number(row.in(&s))
	return n
}

// number is the value of a setting that is one.
func number(v reflect.Value) (n float64, isNumber bool) {
	switch {
	case v.CanInt():
		return float64(v.Int()), true
	case v.CanFloat():
		return v.Float(), true
	}
	return 0, false
}

// Values lists the settings by the names of their flags, without secrets.
func (s *Settings) Values() map[string]string {
	all := map[string]string{}
	for _, row := range table {
		all[row.flag] = row.text(s)
	}
	return all
}

// NeedRestart lists the flags of settings whose change takes a restart.
func NeedRestart() (flags []string) {
	for _, row := range table {
		if row.reload == "restart" {
			flags = append(flags, row.flag)
		}
	}
	return flags
}

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

// Add declares the flags of a server, or the ones that other commands have as well.
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
		flag := to.Flag(row.flag, row.Tag.Get("help")).PlaceHolder(shown)
		flag.SetValue(&flagValue{setting: row, flags: f})
		if row.isHidden() {
			flag.Hidden()
		}
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
