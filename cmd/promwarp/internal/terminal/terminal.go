// Package terminal is what commands know of the terminal that they write to: whether there is one, how
// wide it is, whether colours are wanted, and one line of progress on it.
package terminal

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
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

// Fit cuts text to width characters, of which the last is then an ellipsis. A width of 0 cuts
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

// Progress shows how far something has come: on a terminal in one line that is written over,
// elsewhere in a line every few seconds, or not at all.
type Progress struct {
	w        io.Writer
	terminal bool
	every    time.Duration // least time between two updates; 0 shows nothing

	mu    sync.Mutex
	last  time.Time
	shown int // characters of the line on the terminal
}

const (
	everyOnTerminal = 100 * time.Millisecond
	everyElsewhere  = 5 * time.Second
)

// NewProgress shows progress on w if w is a terminal, and where always is set also elsewhere.
func NewProgress(w io.Writer, always bool) *Progress {
	p := &Progress{w: w, terminal: Is(w)}
	switch {
	case p.terminal:
		p.every = everyOnTerminal
	case always:
		p.every = everyElsewhere
		p.last = time.Now()
	}
	return p
}

// Show shows a line unless another was shown just now.
func (p *Progress) Show(format string, args ...any) {
	if p.every == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.last) < p.every {
		return
	}
	p.last = time.Now()
	line := fmt.Sprintf(format, args...)
	if !p.terminal {
		fmt.Fprintln(p.w, line)
		return
	}
	line = Fit(line, Width(p.w)-1)
	n := utf8.RuneCountInString(line)
	fmt.Fprintf(p.w, "\r%s%*s", line, max(p.shown-n, 0), "")
	p.shown = n
}

// Clear takes the line away.
func (p *Progress) Clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.shown, "")
		p.shown = 0
	}
}

// While shows what goes on, and for how many seconds, once it has taken one. It ends when stop is
// called, which takes the line away.
func (p *Progress) While(what string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		begin, tick := time.Now(), time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				p.Show("%s: %.0f s", what, time.Since(begin).Seconds())
			case <-done:
				return
			}
		}
	}()
	return func() {
		close(done)
		<-ended
		p.Clear()
	}
}
