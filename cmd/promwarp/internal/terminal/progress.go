package terminal

import (
	"fmt"
	"io"
	"sync"
	"time"
	"unicode/utf8"
)

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
