// Package markdown reads the project's pages, for tests that hold what pages say against the code:
// Pages finds them, Lines tells prose from code, Blocks returns the code.
package markdown

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Walk calls f with the path of each file of the project from its root, but for what is hidden or
// built.
func Walk(root string, f func(file string)) error {
	return filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(root, p)
		switch {
		case err != nil || relErr != nil:
			return err
		case d.IsDir() && name != "." && (strings.HasPrefix(d.Name(), ".") || name == "bin" || d.Name() == "testdata" || d.Name() == "node_modules"):
			return filepath.SkipDir
		case !d.IsDir():
			f(filepath.ToSlash(name))
		}
		return nil
	})
}

// Pages returns the text of all pages by their paths from the project's root.
func Pages(root string) (map[string]string, error) {
	all := map[string]string{}
	var failed error
	err := Walk(root, func(file string) {
		if filepath.Ext(file) == ".md" {
			b, err := os.ReadFile(filepath.Join(root, file))
			if all[file] = string(b); err != nil {
				failed = err
			}
		}
	})
	if err == nil {
		err = failed
	}
	return all, err
}

// Line is a line of a page.
type Line struct {
	Text        string
	Code, Prose bool   // Prose is neither in tables, headings and what programs write
	fenced      bool   // it is a fence, or between two
	language    string // of the fence that the line opens or is in
}

// Lines tells the lines of a page apart: code is fenced, or indented behind an empty line.
func Lines(text string) (all []Line) {
	fenced, indented, written, blank, language := false, false, false, true, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		info, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		if fence && !fenced {
			language = info
		}
		empty := strings.TrimSpace(line) == ""
		indented = strings.HasPrefix(line, "    ") && (blank || indented) || indented && empty
		if strings.HasPrefix(line, "<!--") {
			written = !strings.Contains(line, ": end")
		}
		code := fenced || fence || indented
		all = append(all, Line{line, code, !code && !written && !strings.HasPrefix(line, "|"), fenced || fence, language})
		if fenced = fenced != fence; !fenced {
			language = ""
		}
		blank = empty
	}
	return all
}

// The languages of blocks that tests look into.
const (
	Shell  = "sh"
	YAML   = "yaml"
	JSON   = "json"
	PromQL = "promql"
)

// Block is a block of code.
type Block struct {
	Line     int    // of the page, from 1 on
	Language string // empty where it is neither said nor clear
	Text     string
}

// Blocks returns the blocks of code of a page. An indented block, which cannot say its language, has
// that of what it begins with.
func Blocks(text string) (all []Block) {
	var b Block
	end := func() {
		if b.Text = strings.TrimRight(b.Text, "\n"); b.Text != "" {
			if b.Language == "" {
				b.Language = begun(b.Text)
			}
			all = append(all, b)
		}
		b = Block{}
	}
	for n, line := range Lines(text) {
		fence := line.fenced && strings.HasPrefix(strings.TrimSpace(line.Text), "```")
		if !line.Code || fence {
			end()
		}
		if line.Code && !fence {
			if b.Text == "" {
				b.Line, b.Language = n+1, line.language
			}
			if !line.fenced {
				line.Text = strings.TrimPrefix(line.Text, "    ")
			}
			b.Text += line.Text + "\n"
		}
	}
	end()
	return all
}

var (
	command = regexp.MustCompile(`^(\$ |[A-Z_]+=\S+ )*(cd|curl|git|go|make|promwarp|bin/promwarp|thanos|docker|kubectl|helm|npm|systemctl) `)
	key     = regexp.MustCompile(`^(#.*\n)*[a-z_]+:(\n| \S)`)
)

// begun is the language of a block by its beginning.
func begun(text string) string {
	switch {
	case command.MatchString(text):
		return Shell
	case key.MatchString(text):
		return YAML
	}
	return ""
}
