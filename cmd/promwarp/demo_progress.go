package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// demoProgress shows how far something is: on a terminal in one line that changes,
// elsewhere in a line every few seconds.
type demoProgress struct {
	w        io.Writer
	what     string
	terminal bool
	last     time.Time
	width    int
}

func newDemoProgress(w io.Writer, what string) *demoProgress {
	p := &demoProgress{w: w, what: what}
	if f, ok := w.(*os.File); ok {
		info, err := f.Stat()
		p.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return p
}

// update shows that done of total is done.
func (p *demoProgress) update(done, total int64) {
	if total == 0 {
		return
	}
	line := fmt.Sprintf("%s: %d %% of %.1f million samples", p.what, done*100/total, float64(total)/1e6)
	switch {
	case p.terminal:
		fmt.Fprintf(p.w, "\r%-*s", p.width, line)
		p.width = max(p.width, len(line))
	case time.Since(p.last) >= 5*time.Second:
		p.last = time.Now()
		fmt.Fprintln(p.w, line)
	}
}

// clear takes the line away.
func (p *demoProgress) clear() {
	if p.terminal && p.width > 0 {
		fmt.Fprintf(p.w, "\r%s\r", strings.Repeat(" ", p.width))
	}
}
