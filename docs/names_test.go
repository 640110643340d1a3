package docs

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/docs/markdown"
)

var (
	goTest   = regexp.MustCompile(`(?:cd (\S+) && )?(?:[A-Z0-9_]+=\S+ )*go test (.*)`)
	word     = regexp.MustCompile(`'[^']*'|\S+`)
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Benchmark|Fuzz|Example)\w*)\(`)
	testsOf  = regexp.MustCompile("((?:`Test\\w+`(?:,| and)? )+)in `([a-z0-9/]+)/`")
)

// TestCommands holds `go test` commands in pages against the code: what -run and -bench name
// is in the packages that the command names.
func TestCommands(t *testing.T) {
	found := 0
	for file, text := range pages(t) {
		for n, line := range markdown.Lines(text) {
			code := []string{line.Text}
			if !line.Code {
				code = nil
				for _, m := range inlineCode.FindAllStringSubmatch(line.Text, -1) {
					code = append(code, strings.ReplaceAll(m[1], `\|`, "|"))
				}
			}
			for _, c := range code {
				if m := goTest.FindStringSubmatch(c); m != nil {
					found++
					for _, missing := range missing(t, m[1], word.FindAllString(m[2], -1)) {
						t.Errorf("%s:%d: %s: there is no %s", file, n+1, c, missing)
					}
				}
			}
		}
	}
	require.Greater(t, found, 20)
}

// TestNames: tests, benchmarks and fuzzers that pages name exist, and those of which a page says the
// folder are in it.
func TestNames(t *testing.T) {
	all, found, placed := testsIn(t, ".", true), 0, 0
	for file, text := range pages(t) {
		for _, m := range inlineCode.FindAllStringSubmatch(text, -1) {
			if testFunc.MatchString("func " + m[1] + "(") {
				found++
				assert(t, slices.Contains(all, m[1]), "%s names %s, which is not there", file, m[1])
			}
		}
		for _, m := range testsOf.FindAllStringSubmatch(strings.ReplaceAll(text, "\n", " "), -1) {
			placed++
			in := testsIn(t, m[2], true)
			for _, name := range inlineCode.FindAllStringSubmatch(m[1], -1) {
				assert(t, slices.Contains(in, name[1]), "%s names %s in %s/, which is not there", file, name[1], m[2])
			}
		}
	}
	require.Greater(t, found, 20)
	require.Greater(t, placed, 30)
}

var metric = regexp.MustCompile("`(promwarp_[a-z0-9_]*[a-z0-9*])[`{]")

// TestMetrics: metrics that pages name are among those that operating.md lists, or below a name that
// ends in * there.
func TestMetrics(t *testing.T) {
	_, listed, ok := strings.Cut(pages(t)["docs/operating.md"], "\n## Metrics\n")
	require.True(t, ok)
	listed, _, _ = strings.Cut(listed, "\n## ")
	var known []string
	for _, m := range metric.FindAllStringSubmatch(listed, -1) {
		known = append(known, strings.ReplaceAll(m[1], "*", ".*"))
	}
	is := regexp.MustCompile("^(" + strings.Join(known, "|") + ")$")
	found := 0
	for file, text := range pages(t) {
		for _, m := range metric.FindAllStringSubmatch(text, -1) {
			found++
			assert(t, is.MatchString(m[1]), "%s names %s, which operating.md does not list", file, m[1])
		}
	}
	require.Greater(t, found, len(known)+20)
}

// missing returns what a `go test` command in a folder names in vain.
func missing(t *testing.T, dir string, args []string) (all []string) {
	var patterns, names []string
	for k, a := range args {
		if p := strings.Trim(a, "'"); k > 0 && (args[k-1] == "-run" || args[k-1] == "-bench") && !strings.EqualFold(p, "xxx") {
			for p := range strings.SplitSeq(p, "|") {
				if args[k-1] == "-bench" {
					p = "(?m)^Benchmark.*" + p
				}
				patterns = append(patterns, p)
			}
		} else if strings.HasPrefix(a, ".") {
			in := testsIn(t, path.Join(dir, strings.TrimSuffix(a, "/...")), strings.HasSuffix(a, "/..."))
			if names = append(names, in...); in == nil {
				all = append(all, "package "+a)
			}
		}
	}
	for _, p := range patterns {
		p, err := regexp.Compile(p)
		require.NoError(t, err)
		if names != nil && !p.MatchString(strings.Join(names, "\n")) {
			all = append(all, "test "+p.String())
		}
	}
	return all
}

// testsIn returns the names of the tests in a folder, and in those below it.
func testsIn(t *testing.T, dir string, below bool) (names []string) {
	for file, tests := range testsOfFiles(t) {
		in := path.Dir(file)
		if in == dir || below && (dir == "." || strings.HasPrefix(in+"/", dir+"/")) {
			names = append(names, tests...)
		}
	}
	return names
}

var readTests struct {
	sync.Once
	of map[string][]string // by file
}

// testsOfFiles returns the names of the tests of each file that has some.
func testsOfFiles(t *testing.T) map[string][]string {
	readTests.Do(func() {
		readTests.of = map[string][]string{}
		walk(t, func(file string) {
			if strings.HasSuffix(file, "_test.go") {
				for _, m := range testFunc.FindAllStringSubmatch(read(t, root, file), -1) {
					readTests.of[file] = append(readTests.of[file], m[1])
				}
			}
		})
	})
	return readTests.of
}
