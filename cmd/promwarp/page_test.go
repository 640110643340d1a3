package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"
	"github.com/stretchr/testify/require"
)

// What generated pages say before and after the commands.
var (
	//go:embed testdata/commands.md
	pageHead string
	//go:embed testdata/man.head
	manHead string
	//go:embed testdata/man.tail
	manTail string
)

// TestCommandsPage holds docs/commands.md against the commands that there are.
func TestCommandsPage(t *testing.T) { requireFresh(t, "docs/commands.md", commandsPage()) }

// requireFresh holds a file of the repository that is made from the commands against what it is to be;
// -update writes it.
func requireFresh(t *testing.T, file, want string) {
	path := "../../" + file
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(want), 0o644))
	}
	have, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, want, string(have), "%s is stale: go test ./cmd/promwarp -run %s -update", file, t.Name())
}

// declared are all commands by name, and the flags that serve has.
func declared() (byName map[string]*kingpin.CmdModel, serves map[string]bool) {
	app, _ := application()
	byName, serves = map[string]*kingpin.CmdModel{}, map[string]bool{}
	for _, c := range app.Model().FlattenedCommands() {
		byName[c.FullCommand] = c
	}
	for _, f := range byName["serve"].Flags {
		serves[f.Name] = true
	}
	return byName, serves
}

// commandsPage is docs/commands.md: each command with its first example.
func commandsPage() string {
	var b strings.Builder
	b.WriteString(pageHead)
	byName, _ := declared()
	for _, g := range groups {
		fmt.Fprintf(&b, "\n## %s\n\n| command | does | for example |\n| --- | --- | --- |\n", g.Title)
		for _, name := range g.Commands {
			example := "promwarp " + name
			if examples, ok := strings.CutPrefix(byName[name].HelpLong, "Examples:\n"); ok {
				example, _, _ = strings.Cut(strings.TrimSpace(examples), "\n")
				example, _, _ = strings.Cut(example, "  #")
			}
			fmt.Fprintf(&b, "| `%s` | %s | `%s` |\n", name, cell(byName[name].Help), cell(strings.TrimSpace(example)))
		}
	}
	return b.String()
}

func flagText(f *kingpin.FlagModel) string {
	text := "--" + f.Name
	switch {
	case f.IsBoolFlag() && len(f.Default) > 0 && f.Default[0] == "true":
		text = "--[no-]" + f.Name
	case !f.IsBoolFlag():
		text += "=" + strings.Trim(f.FormatPlaceHolder(), `"`)
	}
	if f.Short != 0 {
		text = "-" + string(f.Short) + ", " + text
	}
	return text
}

func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// TestManPage holds deploy/man/promwarp.1, which packages install, against the commands that there are.
func TestManPage(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/var/cache")
	requireFresh(t, "deploy/man/promwarp.1", manPage())
}

// manPage is the manual's page of all commands.
func manPage() string {
	var b strings.Builder
	b.WriteString(manHead)
	byName, serves := declared()
	for _, g := range groups {
		for _, name := range g.Commands {
			manCommand(&b, byName[name], serves)
		}
	}
	fmt.Fprintf(&b, manTail, roff(strings.TrimPrefix(exitCodes, "Exit codes: ")))
	return b.String()
}

// manCommand writes what the page says of one command. Flags that serve has, too, are described there.
func manCommand(b *strings.Builder, c *kingpin.CmdModel, serves map[string]bool) {
	fmt.Fprintf(b, ".SS promwarp %s", roff(c.FullCommand))
	for _, a := range c.Args {
		text := "<" + a.Name + ">"
		if !a.Required {
			text = "[" + text + "]"
		}
		fmt.Fprintf(b, " %s", roff(text))
	}
	fmt.Fprintf(b, "\n%s\n", roff(c.Help))
	for _, a := range c.Args {
		fmt.Fprintf(b, ".TP\n.I %s\n%s\n", roff("<"+a.Name+">"), roff(a.Help))
	}
	var also []string
	for _, f := range c.Flags {
		if serves[f.Name] && c.FullCommand != "serve" {
			also = append(also, `\fB`+roff("--"+f.Name)+`\fR`)
			continue
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(flagText(f)), roff(f.HelpWithEnvar()))
	}
	if len(also) > 0 {
		fmt.Fprintf(b, ".PP\nWithout a server, these as for \\fBserve\\fR: %s.\n", strings.Join(also, ", "))
	}
	if examples, ok := strings.CutPrefix(c.HelpLong, "Examples:\n"); ok {
		b.WriteString(".PP\nExamples:\n.PP\n.EX\n")
		for line := range strings.Lines(examples) {
			b.WriteString(roff(strings.TrimRight(line, "\n")) + "\n")
		}
		b.WriteString(".EE\n")
	}
}

// roff is a text as troff takes it: nothing in it is a request or an escape.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}
