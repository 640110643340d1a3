package serve

import (
	"net/http"
	"time"
)

// response is where an answer is written. It notes whether any of it has gone out, since
// after that the status cannot say what went wrong.
type response struct {
	http.ResponseWriter
	begun     bool
	brokenOff bool
	bytes     int64
}

// Write implements http.ResponseWriter.
func (w *response) Write(b []byte) (int, error) {
	w.begun = true
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// flush sends what has been written.
func (w *response) flush() {
	_ = http.NewResponseController(w.ResponseWriter).Flush()
}

// errorGrace is how long after the deadline there is for saying that it has passed.
const errorGrace = time.Second

// until makes reading the request and writing the answer fail soon after deadline, so that
// a client who does neither holds nothing for longer. net/http lifts that for the
// connection's next request. Where it is not supported, as in tests, neither blocks.
func (w *response) until(deadline time.Time) {
	c := http.NewResponseController(w.ResponseWriter)
	_ = c.SetReadDeadline(deadline.Add(errorGrace / 10)) // so that the context is done before
	_ = c.SetWriteDeadline(deadline.Add(errorGrace))
}

// allRead says that the request was read. What net/http reads after it is to see whether
// the client goes away.
func (w *response) allRead() {
	_ = http.NewResponseController(w.ResponseWriter).SetReadDeadline(time.Time{})
}

// breakOff ends a stream of frames as Prometheus does, with the error's text. It reads as
// no frame, so nobody takes the answer for whole, and promwarp's client shows it.
func (w *response) breakOff(err error) {
	w.brokenOff = true
	_, _ = w.Write([]byte(err.Error() + "\n"))
	w.flush()
}
