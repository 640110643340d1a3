package docs

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/promwarp/promwarp/docs/markdown"
)

// mostOfCell is the number of characters that a cell of a table on a page has at most.
const mostOfCell = 300

// mostOfPage are the lines that pages have at most, so that one can be read in one go.
var mostOfPage = map[string]int{
	"docs/architecture.md": 180,
	"docs/gpu.md":          250,
	"docs/operating.md":    250,
	"docs/performance.md":  250,
}

var cellEdge = regexp.MustCompile(`(?:^|[^\\])\|`)

// TestLimits bounds pages and the cells of their tables.
func TestLimits(t *testing.T) {
	all := pages(t)
	for file, most := range mostOfPage {
		n := strings.Count(all[file], "\n")
		assert(t, n > 0 && n <= most, "%s has %d lines, of at most %d", file, n, most)
	}
	for file, text := range all {
		if !strings.HasPrefix(file, "docs/") {
			continue
		}
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
}
