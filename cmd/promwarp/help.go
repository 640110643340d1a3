package main

import (
	"strings"
	"text/template"

	"github.com/alecthomas/kingpin/v2"
)

// groups order the commands in help.
var groups = []struct {
	Title    string
	Commands []string
}{
	{"Ask", []string{"query", "explain", "compare"}},
	{"Serve", []string{"serve", "check config", "check ready", "check healthy"}},
	{"Look after", []string{"cache ls", "cache drop", "devices"}},
	{"Try and set up", []string{"demo", "completion"}},
}

// exitCodes are told by help and by docs/commands.md.
const exitCodes = "Exit codes: 0 done, and answers agree; 1 it failed, or answers differ; 2 the command line or the configuration is wrong; 3 compare had nothing to compare."

// helpFuncs are what helpTemplate calls.
var helpFuncs = template.FuncMap{
	// Grouped returns rows of commands and what they do, a list a group.
	"Grouped": func(app *kingpin.ApplicationModel) (all []group) {
		help := map[string]string{}
		for _, c := range app.FlattenedCommands() {
			help[c.FullCommand] = c.Help
		}
		for _, g := range groups {
			rows := [][2]string{}
			for _, name := range g.Commands {
				rows = append(rows, [2]string{name, help[name]})
			}
			all = append(all, group{g.Title, rows})
		}
		return all
	},
	"ExitCodes": func() string { return exitCodes },
	"Trim":      strings.TrimSpace,
}

// group is commands in help.
type group struct {
	Title string
	Rows  [][2]string
}

// helpTemplate is kingpin's, with commands in groups and with the examples of HelpLong.
const helpTemplate = `{{define "Arguments" -}}
{{if .FlagSummary}} {{.FlagSummary}}{{end -}}
{{range .Args}} {{if not .Required}}[{{end}}<{{.Name}}>{{if .Value|IsCumulative}}...{{end}}{{if not .Required}}]{{end}}{{end -}}
{{end -}}

{{if .Context.SelectedCommand -}}
usage: {{.App.Name}} {{.Context.SelectedCommand}}{{template "Arguments" .Context.SelectedCommand}}{{if .Context.SelectedCommand.Commands}} <command>{{end}}

{{.Context.SelectedCommand.Help|Wrap 0}}
{{- if .Context.SelectedCommand.HelpLong}}
{{.Context.SelectedCommand.HelpLong|Trim}}
{{end}}
{{- if .Context.SelectedCommand.Commands}}
Commands:
{{range .Context.SelectedCommand.FlattenedCommands}}  {{.FullCommand}}  {{.Help}}
{{end}}
{{- end}}
Flags:
{{.Context.Flags|FlagsToTwoColumns|FormatTwoColumns}}
{{- if .Context.Args}}
Args:
{{.Context.Args|ArgsToTwoColumns|FormatTwoColumns}}
{{- end}}
{{- else -}}
usage: {{.App.Name}} <command> [<flags>] [<args> ...]

{{.App.Help|Wrap 0}}
{{- range Grouped .App}}
{{.Title}}:
{{.Rows|FormatTwoColumns}}
{{- end}}
"{{.App.Name}} <command> --help" shows flags and examples. PROMWARP_URL names the server to ask; NO_COLOR takes colours away.
{{ExitCodes}}
{{end -}}
`
