package docs

import (
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/cpuexec/aggregate"
	"github.com/promwarp/promwarp/cpuexec/histogram"
	"github.com/promwarp/promwarp/cpuexec/vector"
	"github.com/promwarp/promwarp/cpuexec/window"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/plan"
	resampled "github.com/promwarp/promwarp/resample/aggregate"
)

var update = flag.Bool("update", false, "write functions.md anew")

// TestFunctions holds functions.md against the definitions of functions.
func TestFunctions(t *testing.T) {
	want := functions(t)
	if *update {
		require.NoError(t, os.WriteFile("functions.md", []byte(want), 0o644))
	}
	have, err := os.ReadFile("functions.md")
	require.NoError(t, err)
	require.Equal(t, want, string(have), "functions.md is stale: go test ./docs -run TestFunctions -update")
}

// TestSides: each function has all sides, or says why it lacks one.
func TestSides(t *testing.T) {
	gpu := func(name string, p abi.Policy, reason string) {
		require.NotEqual(t, p.Name == "", reason == "", "%s has a policy for kernels, or a reason why it has none", name)
		if p.Name != "" && slices.Contains(abi.Numbered, p.Kernel) {
			require.NotPanics(t, func() { p.Number() }, name)
		}
	}
	for _, f := range window.Functions() {
		gpu(f.Name, f.GPU, f.NoGPU)
		require.NotEqual(t, f.Plain == nil, f.NoPlain == "", "%s has a plain form, or a reason why it has none", f.Name)
		require.Equal(t, len(f.Modifiers) > 0 || f.Plain == nil && f.Fast == nil, f.Extended != nil, "%s: windows that are extended", f.Name)
		require.Equal(t, f.StartTime && !f.Instant, f.Started != nil, "%s: start timestamps", f.Name)
		require.Equal(t, f.Ordinary == nil, f.Outside == "", f.Name)
		if f.Plain == nil && f.Extended == nil {
			require.NotNil(t, f.Fast, f.Name)
		}
	}
	for _, f := range aggregate.Functions() {
		gpu(f.Name, f.GPU, f.NoGPU)
	}
	for _, f := range vector.Functions() {
		gpu(f.Name, f.GPU, f.NoGPU)
	}
	for _, d := range resampled.Definitions {
		gpu(d.Name, d.GPU, d.NoGPU)
	}
}

// functions is functions.md.
func functions(t *testing.T) string {
	var out strings.Builder
	say := func(f string, args ...any) { fmt.Fprintf(&out, f, args...) }
	say("%s", `# Functions

Each function is one definition, in the file that the table links: its code for the cores, and the name of its policy
in the kernels. This page is made from the definitions, by

    go test ./docs -run TestFunctions -update

The same definitions are the planner's table and the lists that tests run over, so that a function is tested because
it is defined: `+"`TestPlain`"+` in `+"`cpuexec/window`"+` holds all forms against the plain one, `+"`TestExecutor`, `TestFused`,\n`TestPanes` and `TestProducts`"+` in `+"`gpuexec`"+` hold kernels against the cores, and `+"`TestRandomQueries` and `TestSmith` in\n`engine`"+` hold everything against Prometheus's engine. [CONTRIBUTING.md](../CONTRIBUTING.md) shows how to add one.

## Windows

*Fast* is a form for all steps at once: it slides, or looks at the ends of windows alone; without one the plain form
computes each window. *Bits* are those of Prometheus's engine, or within 1e-12 of its values, relative;
such a function has a second row, which takes its place with `+"`exact=bits`"+`.

| function | bits | name | fast | extended windows | start timestamps | kernels | strategies |
| --- | --- | --- | --- | --- | --- | --- | --- |
`)
	definitions := window.Functions()
	slices.SortStableFunc(definitions, func(a, b *window.Function) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range definitions {
		say("| %s | %s | %s | %s | %s | %s | %s |\n", linked(t, "cpuexec/window", f.Name), bits(f.Exactness), yes(f.KeepsName, "kept"),
			yes(f.Fast != nil, "yes"), modifiers(f.Modifiers), yes(f.StartTime, "read"), onGPU(f.GPU, f.NoGPU))
	}
	say("%s", "\n## Aggregations\n\n| operator | bits | result | kernels |\n| --- | --- | --- | --- |\n")
	for _, f := range aggregate.Functions() {
		result := "the groups', from a state of fixed size"
		switch {
		case f.Keeps:
			result = "some of the input's series"
		case f.Labels:
			result = "series with values for labels"
		case !f.Adds():
			result = "the groups', from all their values"
		}
		say("| %s | %s | %s | %s |\n", linked(t, "cpuexec/aggregate", f.Name), bits(f.Exactness), result, policy(f.GPU, f.NoGPU))
	}
	say("%s", "\n## Functions and operators of one value\n\n| functions | defined in | bits | constants | kernels |\n| --- | --- | --- | ---: | --- |\n")
	var kinds []string // what rows say of their functions
	of := map[string][]string{}
	for _, f := range vector.Functions() {
		file := defining(t, "cpuexec/vector", f.Name)
		kind := fmt.Sprintf("[%s](%s) | %s | %d | %s", path.Base(file), file, bits(f.Exactness), f.Args, policy(f.GPU, f.NoGPU))
		if of[kind] == nil {
			kinds = append(kinds, kind)
		}
		of[kind] = append(of[kind], "`"+f.Name+"`")
	}
	for _, kind := range kinds {
		say("| %s | %s |\n", strings.Join(of[kind], ", "), kind)
	}
	say("%s", "\n## Functions of classic histograms\n\n| function | constants before the input | results |\n| --- | ---: | --- |\n")
	for _, f := range histogram.Functions() {
		results := "one"
		if f.Many {
			results = "one for each constant behind the input"
		}
		say("| %s | %d | %s |\n", linked(t, "cpuexec/histogram", f.Name), f.Args, results)
	}
	say("%s", "\n## Functions that are nodes of their own\n\n| function | node of a plan |\n| --- | --- |\n")
	for _, c := range vector.Calls() {
		say("| `%s` | `%T` |\n", c.Name, c.Node)
	}
	say("%s", "\n## Aggregates of resample requests\n\n| aggregate | parts of a state that it reads | kernels |\n| --- | --- | --- |\n")
	for _, d := range resampled.Definitions {
		say("| [`%s`](../resample/aggregate/definitions.go) | %s | %s |\n", d.Name, strings.Join(resampled.PartNames(d.Reads), ", "), policy(d.GPU, d.NoGPU))
	}
	return out.String()
}

func yes(is bool, word string) string {
	if is {
		return word
	}
	return ""
}

func bits(e plan.Exactness) string {
	if e == plan.Compensated {
		return "1e-12"
	}
	return "the same"
}

func modifiers(all []plan.Modifier) string {
	var words []string
	for _, m := range all {
		words = append(words, map[plan.Modifier]string{plan.Anchored: "anchored", plan.Smoothed: "smoothed"}[m])
	}
	return strings.Join(words, ", ")
}

// policy says how kernels compute a function, or why not.
func policy(p abi.Policy, reason string) string {
	if p.Name == "" {
		return "none: " + reason
	}
	return fmt.Sprintf("%s `%s`", p.Kernel, p.Name)
}

// onGPU is policy and the kernel's strategies, as two cells.
func onGPU(p abi.Policy, reason string) string {
	var words []string
	for _, s := range abi.Strategies[p.Kernel] {
		words = append(words, string(s))
	}
	return policy(p, reason) + " | " + strings.Join(words, ", ")
}

// linked is the name of a function, linked to the file that defines it.
func linked(t *testing.T, room, name string) string {
	return fmt.Sprintf("[`%s`](%s)", name, defining(t, room, name))
}

// defining is the one file of a room that names a function.
func defining(t *testing.T, room, name string) string {
	files, err := filepath.Glob(filepath.Join(root, room, "*.go"))
	require.NoError(t, err)
	var naming []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		if !strings.HasSuffix(file, "_test.go") && strings.Contains(string(text), `"`+name+`"`) {
			naming = append(naming, file)
		}
	}
	require.Len(t, naming, 1, "files of %s that name %s", room, name)
	return filepath.ToSlash(naming[0])
}
