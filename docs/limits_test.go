package docs

import (
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/promwarp/promwarp/docs/markdown"
)

// mostOfCell is the number of characters that a cell of a table on a page has at most.
const mostOfCell = 300

// mostOfAll is the number of lines that the pages in docs/ have at most, together.
const mostOfAll = 4330

// mostOfPage are the lines that pages have at most, so that one can be read in one go.
var mostOfPage = map[string]int{
	"docs/architecture.md": 180,
	"docs/gpu.md":          250,
	"docs/operating.md":    250,
	"docs/performance.md":  250,
	"docs/rules.md":        200,
}

var cellEdge = regexp.MustCompile(`(?:^|[^\\])\|`)

// TestLimits bounds pages, all of them together, and the cells of their tables.
func TestLimits(t *testing.T) {
	all, together := pages(t), 0
	for file, most := range mostOfPage {
		n := strings.Count(all[file], "\n")
		assert(t, n > 0 && n <= most, "%s has %d lines, of at most %d", file, n, most)
	}
	for file, text := range all {
		if !strings.HasPrefix(file, "docs/") {
			continue
		}
		together += strings.Count(text, "\n")
		for n, line := range markdown.Lines(text) {
			if line.Code || !strings.HasPrefix(line.Text, "|") {
				continue
			}
			for _, cell := range cellEdge.Split(line.Text, -1) {
				length := utf8.RuneCountInString(strings.TrimSpace(cell))
				assert(t, length <= mostOfCell, "%s:%d has a cell of %d characters, of at most %d", file, n+1, length, mostOfCell)
			}
		}
	}
	assert(t, together <= mostOfAll, "docs/*.md have %d lines, of at most %d", together, mostOfAll)
}

var sentenceEnd = regexp.MustCompile(`[.:;?!]\s+`)

// TestSentences: no sentence of more than a few words is on the pages of docs/ twice.
func TestSentences(t *testing.T) {
	const few = 40 // characters
	first := map[string]string{}
	for file, text := range pages(t) {
		if path.Dir(file) != "docs" {
			continue
		}
		var prose strings.Builder
		for _, line := range markdown.Lines(text) {
			switch {
			case line.Prose && !strings.HasPrefix(line.Text, "#"):
				prose.WriteString(line.Text + " ")
			default:
				prose.WriteString(". ")
			}
		}
		for _, s := range sentenceEnd.Split(prose.String(), -1) {
			s = strings.ToLower(strings.Trim(s, " *-"))
			if utf8.RuneCountInString(s) <= few || strings.HasPrefix(s, "![") {
				continue
			}
			assert(t, first[s] == "", "%s and %s both say: %s", first[s], file, s)
			first[s] = file
		}
	}
	require.Greater(t, len(first), 500)
}
