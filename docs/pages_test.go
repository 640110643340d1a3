package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/docs/markdown"
)

// longest is how many characters a line of prose has at most, so that it fits beside code.
const longest = 120

// TestProseLines bounds lines of prose. Tables, code and what programs write between marks
// (<!-- … -->) are as long as they must be.
func TestProseLines(t *testing.T) {
	for file, text := range pages(t) {
		for n, line := range markdown.Lines(text) {
			if n := n + 1; line.Prose && utf8.RuneCountInString(line.Text) > longest {
				t.Errorf("%s:%d has %d characters, more than %d", file, n, utf8.RuneCountInString(line.Text), longest)
			}
		}
	}
}

// TestTables: each row of a table has as many cells as its first one.
func TestTables(t *testing.T) {
	for file, text := range pages(t) {
		cells := 0
		for n, line := range markdown.Lines(text) {
			if line.Code || !strings.HasPrefix(line.Text, "|") {
				cells = 0
				continue
			}
			has := strings.Count(strings.ReplaceAll(line.Text, `\|`, ""), "|")
			if cells == 0 {
				cells = has
			}
			assert(t, has == cells, "%s:%d has %d cells, its table %d", file, n+1, has-1, cells-1)
		}
	}
}

var link = regexp.MustCompile(`\]\(([^()\s]+)\)`)

// TestLinks follows the links between pages: the file is there, and the heading.
func TestLinks(t *testing.T) {
	all, followed := pages(t), 0
	for file, text := range all {
		for n, line := range markdown.Lines(text) {
			for _, m := range link.FindAllStringSubmatch(inlineCode.ReplaceAllString(line.Text, ""), -1) {
				if line.Code || strings.Contains(m[1], "://") {
					continue
				}
				followed++
				to, heading, _ := strings.Cut(m[1], "#")
				if to = path.Join(path.Dir(file), to); strings.HasPrefix(m[1], "#") {
					to = file
				}
				if _, err := os.Stat(filepath.Join(root, to)); err != nil {
					t.Errorf("%s:%d links to %s, which is not there", file, n+1, to)
				} else if heading != "" && !headings(all[to])[heading] {
					t.Errorf("%s:%d links to %s, which has no heading #%s", file, n+1, to, heading)
				}
			}
		}
	}
	require.Greater(t, followed, 20)
}

var filePath = regexp.MustCompile(`^[a-z0-9_]+(/[a-z0-9_]+)*/([a-zA-Z0-9_.-]+\.(go|cu|h|yml|json|txt|svg|sh))?$`)

// TestPaths: files and folders that a page names by their paths from the root are there, unless a
// diff on the page adds them.
func TestPaths(t *testing.T) {
	tops := map[string]bool{}
	walk(t, func(file string) { tops[strings.Split(file, "/")[0]] = true })
	found := 0
	for file, text := range pages(t) {
		for n, line := range markdown.Lines(text) {
			for _, m := range inlineCode.FindAllStringSubmatch(line.Text, -1) {
				added := strings.Contains(text, "+++ b/"+m[1])
				if !line.Code && !added && filePath.MatchString(m[1]) && tops[strings.Split(m[1], "/")[0]] {
					found++
					_, err := os.Stat(filepath.Join(root, m[1]))
					assert(t, err == nil, "%s:%d names %s, which is not there", file, n+1, m[1])
				}
			}
		}
	}
	require.Greater(t, found, 50)
}

// TestWay holds the way of a job in architecture.md against the code: each function is in the
// file that its row names, and the way is no longer than one can follow.
func TestWay(t *testing.T) {
	_, table, ok := strings.Cut(pages(t)["docs/architecture.md"], "| hop | function | what happens |\n| --- | --- | --- |\n")
	require.True(t, ok)
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(strings.TrimSpace(table), "\n")
	require.LessOrEqual(t, len(rows), 15)
	for _, row := range rows {
		names, file, ok := strings.Cut(strings.Split(row, "|")[2], " in ")
		require.True(t, ok, row)
		file = strings.Trim(file, " `")
		in := declared(t, file)
		for _, m := range inlineCode.FindAllStringSubmatch(names, -1) {
			assert(t, in[m[1]], "%s has no function %s, through which architecture.md has a job go", file, m[1])
		}
	}
}

// declared returns the functions of a file: `name`, or `Type.name` of a method.
func declared(t *testing.T, file string) map[string]bool {
	f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, file), nil, 0)
	require.NoError(t, err)
	all := map[string]bool{}
	for _, d := range f.Decls {
		if d, ok := d.(*ast.FuncDecl); ok && d.Recv == nil {
			all[d.Name.Name] = true
		} else if ok {
			of := d.Recv.List[0].Type
			if star, ok := of.(*ast.StarExpr); ok {
				of = star.X
			}
			if generic, ok := of.(*ast.IndexExpr); ok {
				of = generic.X
			}
			all[of.(*ast.Ident).Name+"."+d.Name.Name] = true
		}
	}
	return all
}

var inlineCode = regexp.MustCompile("`([^`\n]+)`")

// TestPictures: each picture is on a page, and small enough to load at once.
func TestPictures(t *testing.T) {
	const most = 150_000 // bytes
	files, err := filepath.Glob("pictures/*")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	var text strings.Builder
	for _, page := range pages(t) {
		text.WriteString(page)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		require.NoError(t, err)
		assert(t, info.Size() <= most, "%s has %d bytes, more than %d", file, info.Size(), most)
		assert(t, strings.Contains(text.String(), file+")"), "%s is on no page", file)
	}
}

// pages returns the text of all pages by their paths from the project's root.
func pages(t *testing.T) map[string]string {
	all, err := markdown.Pages(root)
	require.NoError(t, err)
	require.Greater(t, len(all), 8)
	return all
}

// headings returns the anchors of a page's headings, as GitHub makes them.
func headings(text string) map[string]bool {
	all := map[string]bool{}
	for _, line := range markdown.Lines(text) {
		if title := strings.TrimLeft(line.Text, "#"); !line.Code && title != line.Text {
			all[strings.Map(func(r rune) rune {
				switch {
				case r == ' ':
					return '-'
				case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
					return unicode.ToLower(r)
				}
				return -1
			}, strings.TrimSpace(title))] = true
		}
	}
	return all
}
