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

// commandsPage is docs/commands.md.
func commandsPage() string {
	var b strings.Builder
	b.WriteString(pageHead)
	byName, serves := declared()
	for _, g := range groups {
		for _, name := range g.Commands {
			c := byName[name]
			fmt.Fprintf(&b, "\n## promwarp %s\n\n%s\n", name, c.Help)
			if examples, ok := strings.CutPrefix(c.HelpLong, "Examples:\n"); ok {
				fmt.Fprintf(&b, "\n%s\n", "    "+strings.ReplaceAll(strings.TrimSpace(examples), "\n  ", "\n    "))
			}
			if name == "serve" {
				b.WriteString("\n[configuration.md](configuration.md) lists its flags.\n")
				continue
			}
			var rows, also []string
			for _, a := range c.Args {
				rows = append(rows, fmt.Sprintf("| `<%s>` | %s |", a.Name, cell(a.Help)))
			}
			for _, f := range c.Flags {
				if serves[f.Name] {
					also = append(also, "`--"+f.Name+"`")
					continue
				}
				rows = append(rows, fmt.Sprintf("| `%s` | %s |", flagText(f), cell(f.HelpWithEnvar())))
			}
			if len(rows) > 0 {
				fmt.Fprintf(&b, "\n| | |\n| --- | --- |\n%s\n", strings.Join(rows, "\n"))
			}
			if len(also) > 0 {
				fmt.Fprintf(&b, "\n%s\n", wrapped("Without a server, these as for `serve`: "+strings.Join(also, ", ")+"."))
			}
		}
	}
	return b.String()
}

// wrapped breaks a paragraph into lines of at most 120 characters.
func wrapped(text string) string {
	var lines []string
	for _, word := range strings.Fields(text) {
		if n := len(lines); n > 0 && len(lines[n-1])+1+len(word) <= 120 {
			lines[n-1] += " " + word
		} else {
			lines = append(lines, word)
		}
	}
	return strings.Join(lines, "\n")
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
