// Package terminal is what commands know of the terminal that they write to: whether there is one, how
// wide it is, whether colours are wanted, and one line of progress on it.
package terminal

import (
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/term"
)

// Is reports whether w is a terminal on which a line can be written over.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(f.Fd()))
}

// Width is the number of columns of the terminal w, 0 where w is none.
func Width(w io.Writer) int {
	if !Is(w) {
		return 0
	}
	columns, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// Fit cuts text to so many characters, of which the last is then an ellipsis. A width of 0 cuts
// nothing.
func Fit(text string, width int) string {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:width-1]) + "…"
}

// Style colours text, or leaves it as it is.
type Style bool

// StyleOf is the style for w: with colours on a terminal unless NO_COLOR is set.
func StyleOf(w io.Writer) Style {
	_, plain := os.LookupEnv("NO_COLOR")
	return Style(Is(w) && !plain)
}

func (s Style) wrap(code, text string) string {
	if !s || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Dim is for what may be skipped.
func (s Style) Dim(text string) string { return s.wrap("2", text) }

// Good is for what is well.
func (s Style) Good(text string) string { return s.wrap("32", text) }

// Bad is for what failed.
func (s Style) Bad(text string) string { return s.wrap("31", text) }

// Note is for what is worth a look.
func (s Style) Note(text string) string { return s.wrap("33", text) }
