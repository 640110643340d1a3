package docs

import (
	"encoding/json"
	"maps"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v2"

	"github.com/promwarp/promwarp/docs/markdown"
)

// TestBlocks: what pages show as code parses. Whether settings load, and rules and Prometheus's
// settings do, TestPages of cmd/promwarp/internal/config says.
func TestBlocks(t *testing.T) {
	expressions := parser.NewParser(parser.Options{})
	found := map[string]int{}
	for file, text := range pages(t) {
		for _, b := range markdown.Blocks(text) {
			found[b.Language]++
			var err error
			switch b.Language {
			case markdown.Shell:
				cmd := exec.Command("bash", "-n")
				cmd.Stdin = strings.NewReader(commands(b.Text))
				var said []byte
				said, err = cmd.CombinedOutput()
				assert(t, err == nil, "%s", said)
			case markdown.YAML:
				var any yaml.MapSlice
				err = yaml.Unmarshal([]byte(b.Text), &any)
			case markdown.JSON:
				var any json.RawMessage
				for d := json.NewDecoder(strings.NewReader(b.Text)); err == nil && d.More(); { // one, or one a line
					err = d.Decode(&any)
				}
			case markdown.PromQL:
				_, err = expressions.ParseExpr(b.Text)
			}
			assert(t, err == nil, "%s:%d: %v in:\n%s", file, b.Line, err, b.Text)
		}
	}
	require.Greater(t, found[markdown.Shell], 20)
	require.Greater(t, found[markdown.YAML], 4)
	require.Positive(t, found[markdown.JSON])
	require.Positive(t, found[markdown.PromQL])
}

// TestFirstCommands: the first commands of make that README names are those of a fresh clone, and how long each takes.
func TestFirstCommands(t *testing.T) {
	blocks := markdown.Blocks(pages(t)["README.md"])
	first := slices.IndexFunc(blocks, func(b markdown.Block) bool { return b.Language == markdown.Shell && strings.Contains(b.Text, "make ") })
	require.GreaterOrEqual(t, first, 0)
	require.Regexp(t, `^make demo +# .*minute.*\nmake test +# .*minutes`, blocks[first].Text)
}

// commands are the commands of a block of a shell, without what they print where the block shows
// that, too: then each of them begins with "$ ".
func commands(text string) string {
	if !strings.Contains("\n"+text, "\n$ ") {
		return text
	}
	var all []string
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, command)
		}
	}
	return strings.Join(all, "")
}

var (
	ourCommand = regexp.MustCompile(`(?:^|[\s;&|(/])promwarp (query|explain|compare|bench|serve|check config|check ready|check healthy|cache ls|cache drop|devices|demo|completion)\b([^|;&#\n]*)`)
	flagName   = regexp.MustCompile(`--([a-z][a-z0-9.-]*[a-z0-9])`)
	ourFlag    = regexp.MustCompile(`^--((?:upstream|cache|gpu|memory|tsdb)\.[a-z0-9.-]*[a-z0-9])`)
	makeTarget = regexp.MustCompile(`(?m)(?:^|&& |\$ )make ([a-z][a-z0-9-]*)`)
	target     = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)
	flagRow    = regexp.MustCompile(`(?m)^\.B (?:-., )?--(?:\[no-\])?([^=\n]+)`)
	folded     = regexp.MustCompile(`\\\n\s*`)
)

// TestFlags: flags that pages give to promwarp are on the man page or are hidden settings, both of which
// are made from the program, and targets of make are in the Makefile.
func TestFlags(t *testing.T) {
	names := func(re *regexp.Regexp, text string) map[string]bool {
		all := map[string]bool{"help": true, "version": true}
		for _, m := range re.FindAllStringSubmatch(text, -1) {
			all[m[1]] = true
		}
		return all
	}
	flags := names(flagRow, strings.ReplaceAll(read(t, root, "deploy/man/promwarp.1"), `\-`, "-"))
	_, hidden, _ := strings.Cut(pages(t)["docs/configuration.md"], "\n## Settings that --help leaves out\n")
	maps.Copy(flags, names(flagName, hidden))
	targets := names(target, read(t, root, "Makefile"))
	flagsFound, targetsFound := 0, 0
	check := func(file string, line int, code string) {
		var given []string
		for _, c := range ourCommand.FindAllStringSubmatch(folded.ReplaceAllString(code, " "), -1) {
			given = append(given, c[2])
		}
		for _, m := range append(flagName.FindAllStringSubmatch(strings.Join(given, " "), -1), ourFlag.FindAllStringSubmatch(code, -1)...) {
			flagsFound++
			assert(t, flags[strings.TrimPrefix(m[1], "no-")], "%s:%d names --%s, which promwarp has not", file, line, m[1])
		}
		for _, m := range makeTarget.FindAllStringSubmatch(code, -1) {
			targetsFound++
			assert(t, targets[m[1]], "%s:%d names make %s, which the Makefile has not", file, line, m[1])
		}
	}
	for file, text := range pages(t) {
		if path.Dir(file) == "api/page/dist/assets" {
			continue
		}
		for _, b := range markdown.Blocks(text) {
			check(file, b.Line, b.Text)
		}
		for n, line := range markdown.Lines(text) {
			for _, m := range inlineCode.FindAllStringSubmatch(line.Text, -1) {
				if !line.Code {
					check(file, n+1, m[1])
				}
			}
		}
	}
	require.Greater(t, flagsFound, 50)
	require.Greater(t, targetsFound, 30)
}
