package guard

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/promwarp/promwarp/api/promapi"
	"github.com/promwarp/promwarp/internal/memory"
)

// Clients that send or read nothing are cut off. What a body or an answer takes may be long,
// so deadlines move with its bytes. They are the connection's with HTTP/1, which net/http
// sets anew for its next request, and the stream's with HTTP/2.

const (
	// bodyGrace is how long the first bytes of a body may take, and minBodyRate how many
	// bytes a second must come after that.
	bodyGrace   = 10 * time.Second
	minBodyRate = 8 << 10
	// writePiece is how many bytes a client must read within Guard.WriteTimeout.
	writePiece = 128 << 10
	// renewShare is the part of a timeout within which a deadline is not moved again.
	renewShare = 16
)

// timedBody is a request's body that fails when it comes too slowly.
type timedBody struct {
	io.ReadCloser
	c       *http.ResponseController
	start   time.Time
	longest time.Duration // for all of it
	set     time.Time     // the deadline
	bytes   int64
	ended   bool
}

// newTimedBody sets the deadline for the first bytes, which holds for a body that no handler reads,
// too: net/http reads some of that before the next request.
func newTimedBody(w http.ResponseWriter, body io.ReadCloser, longest time.Duration) *timedBody {
	b := &timedBody{ReadCloser: body, c: http.NewResponseController(w), start: time.Now(), longest: longest}
	b.move()
	return b
}

// move sets the deadline that follows from what has come.
func (b *timedBody) move() {
	most := bodyGrace + time.Duration(b.bytes)*time.Second/minBodyRate
	t := b.start.Add(min(most, b.longest))
	if t.Sub(b.set) >= bodyGrace/renewShare || t.Sub(b.start) == b.longest && t.After(b.set) {
		b.set = t
		_ = b.c.SetReadDeadline(t) // not all servers have deadlines, those of tests for one
	}
}

// Read implements io.Reader. What net/http reads when the body has ended is to see
// whether the client goes away, so there is no deadline then: it would end the request.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.bytes += int64(n)
	switch {
	case err == nil:
		b.move()
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = promapi.ErrSlowBody
	case !b.ended:
		b.ended = true
		_ = b.c.SetReadDeadline(time.Time{})
	}
	return n, err
}

// bound makes reading fail after t, if that is earlier than it would.
func (b *timedBody) bound(t time.Time) {
	b.longest = min(b.longest, t.Sub(b.start))
	if t.Before(b.set) {
		b.set = t
		_ = b.c.SetReadDeadline(t)
	}
}

// writeDeadline moves the deadline for writing an answer.
type writeDeadline struct {
	c       *http.ResponseController
	timeout time.Duration
	stream  bool      // of HTTP/2, where a deadline ends the stream even if nothing is written
	set     time.Time // when it was moved
	limit   time.Time // it is never moved beyond; zero is none
}

// move gives the client the whole timeout to read what is written next.
func (d *writeDeadline) move() {
	now := time.Now()
	if now.Sub(d.set) < d.timeout/renewShare {
		return
	}
	d.set = now
	t := now.Add(d.timeout)
	if !d.limit.IsZero() && t.After(d.limit) {
		t = d.limit
	}
	_ = d.c.SetWriteDeadline(t) // not all servers have deadlines, those of tests for one
}

// written says that nothing is being written.
func (d *writeDeadline) written() {
	if d.stream {
		d.set = time.Time{}
		_ = d.c.SetWriteDeadline(d.limit)
	}
}

// bound makes writing fail after t, whatever the client reads; zero lifts that.
func (d *writeDeadline) bound(t time.Time) {
	d.limit, d.set = t, time.Time{}
	if !d.stream {
		d.move()
	}
	d.written()
}

// leasedBody is a request's body that takes memory as it is read: for the bytes, which the reader
// keeps, and for what the reader makes of them.
type leasedBody struct {
	io.ReadCloser
	ctx      context.Context
	lease    *memory.Lease
	read     int64               // bytes
	tooLarge *http.MaxBytesError // by its Content-Length, else nil
	header   http.Header         // of the answer
}

const (
	// smallBody is up to how many bytes a body takes no lease.
	smallBody = 64 << 10
	// bodyCost is how many bytes a byte of a body costs: itself, as a form's text, and as
	// parameters.
	bodyCost = 3
)

// Read implements io.Reader. It fails with an error of package memory where there is none, and at
// once where the whole body would be too large: net/http then closes the connection instead of
// waiting for the rest.
func (b *leasedBody) Read(p []byte) (int, error) {
	if b.tooLarge != nil {
		b.header.Set("Connection", "close")
		return 0, b.tooLarge
	}
	n, err := b.ReadCloser.Read(p)
	b.read += int64(n)
	if b.read > smallBody && n > 0 {
		if err := b.lease.Grow(b.ctx, bodyCost*int64(n)); err != nil {
			return n, err
		}
	}
	return n, err
}
