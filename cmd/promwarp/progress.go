package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/alecthomas/units"

	"github.com/promwarp/promwarp/remoteread"
)

// progress shows on one line, written over again and again, how far the
// fetches of a query have come.
type progress struct {
	w  io.Writer
	on bool

	mu    sync.Mutex
	last  time.Time
	width int
}

// progressEvery is the least time between two updates.
const progressEvery = 100 * time.Millisecond

func newProgress(w io.Writer, on bool) *progress { return &progress{w: w, on: on} }

// report is for remoteread.WithProgress.
func (p *progress) report(r remoteread.Progress) {
	if !p.on {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if now := time.Now(); now.Sub(p.last) >= progressEvery || r.PiecesDone == r.Pieces {
		p.last = now
		p.line(fmt.Sprintf("fetching: %d of %d pieces, %s, %d series", r.PiecesDone, r.Pieces, units.Base2Bytes(r.Bytes).Round(1), r.Series))
	}
}

// clear takes the line away.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.width > 0 {
		p.line("")
		_, _ = io.WriteString(p.w, "\r")
	}
}

// line writes over what is there.
func (p *progress) line(s string) {
	pad := max(p.width-len(s), 0)
	p.width = len(s)
	_, _ = fmt.Fprintf(p.w, "\r%s%*s", s, pad, "")
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && os.Getenv("TERM") != "dumb"
}
