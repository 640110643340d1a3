package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/alecthomas/kingpin/v2"
)

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
