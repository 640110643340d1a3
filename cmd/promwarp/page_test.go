package main

import (
	_ "embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
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

// declared are all commands by name, and the help of the flags that serve has.
func declared() (byName map[string]*kingpin.CmdModel, serves map[string]string) {
	app, _ := application()
	byName, serves = map[string]*kingpin.CmdModel{}, map[string]string{}
	for _, c := range app.Model().FlattenedCommands() {
		byName[c.FullCommand] = c
	}
	for _, f := range byName["serve"].Flags {
		serves[f.Name] = f.Help
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

// TestHelpIsBrief: --help fits a few screens, shows flags that there are, and a sentence of each.
func TestHelpIsBrief(t *testing.T) {
	for name, most := range map[string]int{"query": 40, "explain": 40, "compare": 45, "serve": 90} {
		help := helpOf(t, name, "--help")
		require.LessOrEqual(t, strings.Count(help, "\n"), most, help)
		require.NotRegexp(t, `\. +(By default|Without it|0 )`, help)
	}
	byName, _ := declared()
	for name, flags := range brief {
		all := helpOf(t, name, "--help-all")
		for flag := range strings.FieldsSeq(flags) {
			require.Contains(t, helpOf(t, name, "--help"), flag)
		}
		for _, f := range byName[name].Flags {
			require.Equal(t, f.Help != "", strings.Contains(all, "--"+f.Name) || strings.Contains(all, "--[no-]"+f.Name), f.Name)
		}
	}
}

// TestCompletion: what the scripts of shells ask promwarp for has all commands, flags, and values of flags.
func TestCompletion(t *testing.T) {
	byName, _ := declared()
	for name, c := range byName {
		words := strings.Fields(name)
		require.Contains(t, strings.Fields(printed(t, append([]string{"--completion-bash"}, words[:len(words)-1]...)...)), words[len(words)-1])
		if name == "help" {
			continue
		}
		flags := strings.Fields(printed(t, append([]string{"--completion-bash"}, append(words, "--")...)...))
		for _, f := range c.Flags {
			require.Equal(t, !f.Hidden, slices.Contains(flags, "--"+f.Name), "%s --%s", name, f.Name)
		}
	}
	require.Equal(t, "table json csv ndjson arrow parquet", strings.Join(strings.Fields(printed(t, "--completion-bash", "query", "--format", "")), " "))
}

// helpOf is the help of a command.
func helpOf(t *testing.T, command, flag string) string {
	t.Helper()
	program, err := os.Executable()
	require.NoError(t, err)
	run := exec.Command(program)
	run.Args = append(append([]string{"promwarp"}, strings.Fields(command)...), flag) // TestMain runs it by this name
	out, err := run.CombinedOutput()
	require.NoError(t, err)
	return string(out)
}

// printed is what kingpin prints for a command line.
func printed(t *testing.T, args ...string) string {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	stdout := os.Stdout
	os.Stdout = w
	app, _ := application()
	_, _ = app.Terminate(nil).Parse(args)
	os.Stdout = stdout
	require.NoError(t, w.Close())
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}

// manCommand writes what the page says of one command. Flags that serve has, too, are described there.
func manCommand(b *strings.Builder, c *kingpin.CmdModel, serves map[string]string) {
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
		if f.Hidden {
			continue
		}
		if serves[f.Name] == f.Help && c.FullCommand != "serve" {
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
