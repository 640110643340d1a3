package main

import (
	_ "embed"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/alecthomas/kingpin/v2"

	"github.com/promwarp/promwarp/resample/aggregate"
)

// helpTemplate is kingpin's, with commands in groups and with the examples of HelpLong.
//
//go:embed help.tmpl
var helpTemplate string

// brief are the flags that --help shows of a command that has many. Of a command that is not here it
// shows all.
var brief = map[string]string{
	"query":   "help help-all format plot time start end step limit metric every aggregates by url timeout tsdb.path upstream.url",
	"explain": "help help-all format analyze time start end step limit metric every aggregates by url timeout executor exact tsdb.path upstream.url",
	"serve": "help help-all config.file upstream.url upstream.external-labels upstream.retention tsdb.path query.timeout query.max-samples query.max-memory" +
		" query.exact query.max-concurrency enable-feature memory.limit cache.host-bytes cache.path cache.disk-bytes cache.fresh" +
		" cache.out-of-order-window cache.max-age gpu.mode gpu.devices web.listen-address web.config.file web.enable-lifecycle web.enable-admin-api" +
		" compare.fraction log.level log.slow-queries",
}

// declareHelp declares --help, which shows what one needs, a sentence a flag, and --help-all.
func declareHelp(app *kingpin.Application) {
	all := false
	for _, name := range []string{"help-all", "help-hidden"} { // the second is its old name
		flag := app.Flag(name, "Show all flags, and more on each.").PreAction(func(c *kingpin.ParseContext) error {
			all = true
			if err := app.UsageForContext(c); err != nil {
				return err
			}
			os.Exit(exitOK)
			return nil
		})
		flag.Bool()
		if name != "help-all" {
			flag.Hidden()
		}
	}
	isBrief := func(c *kingpin.CmdModel) bool { return brief[c.FullCommand] != "" && !all }
	app.UsageTemplate(helpTemplate).UsageFuncs(template.FuncMap{
		"Groups":    func() any { return groups },
		"Rows":      rowsOf,
		"ExitCodes": func() string { return exitCodes },
		"Trim":      strings.TrimSpace,
		"IsBrief":   isBrief,
		"Shown": func(c *kingpin.CmdModel, flags []*kingpin.FlagModel) (shown []*kingpin.FlagModel) {
			for _, f := range flags {
				f := *f
				if all {
					f.Hidden = f.Help == "" || slices.Contains(internalFlags, f.Name)
				} else {
					f.Hidden = f.Hidden || isBrief(c) && !slices.Contains(strings.Fields(brief[c.FullCommand]), f.Name)
					if m := firstSentence.FindStringSubmatch(f.Help); m != nil {
						f.Help = m[1]
					}
				}
				shown = append(shown, &f)
			}
			return shown
		},
	})
}

// internalFlags are kingpin's own, and old names, which are not for reading.
var internalFlags = []string{"help-long", "help-man", "help-hidden", "completion-bash", "completion-script-bash", "completion-script-zsh"}

// firstSentence matches the first of several sentences of a help text.
var firstSentence = regexp.MustCompile(`^(.*?\.) [A-Z0-9]`)

// rowsOf returns commands and what they do.
func rowsOf(app *kingpin.ApplicationModel, names []string) (rows [][2]string) {
	for _, name := range names {
		for _, c := range app.FlattenedCommands() {
			if c.FullCommand == name {
				rows = append(rows, [2]string{name, c.Help})
			}
		}
	}
	return rows
}

// unknown matches kingpin's errors of a flag or a command that there is not.
var unknown = regexp.MustCompile(`^unknown long flag '--(?:no-)?(.*)'$|^expected command but got "(.*)"$`)

// meant says what to try where a command line is wrong.
func meant(app *kingpin.Application, args []string, err error) string {
	m := unknown.FindStringSubmatch(err.Error())
	if m == nil {
		return "try --help"
	}
	text, names, selected := m[1], []string{}, ""
	if c, _ := app.ParseContext(args); c != nil && c.SelectedCommand != nil {
		selected = c.SelectedCommand.FullCommand()
	}
	if m[2] != "" {
		text = strings.TrimSpace(selected + " " + m[2])
	}
	for _, c := range app.Model().FlattenedCommands() {
		if m[2] != "" {
			names = append(names, c.FullCommand)
		} else if c.FullCommand == selected {
			for _, f := range c.Flags {
				names = append(names, f.Name)
			}
		}
	}
	hint := aggregate.DidYouMean(text, names, "try --help")
	if m[2] == "" {
		hint = strings.Replace(hint, `mean "`, `mean "--`, 1)
	}
	return hint
}

// renamed declares the old name of a flag, which works as before, says its new name, and is not in help.
func renamed(cmd *kingpin.CmdClause, old, name string, value *string) {
	cmd.Flag(old, "").Hidden().PreAction(func(*kingpin.ParseContext) error {
		_, err := fmt.Fprintf(os.Stderr, "--%s is called --%s now\n", old, name)
		return err
	}).StringVar(value)
}
