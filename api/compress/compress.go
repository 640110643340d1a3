// Package compress compresses answers for clients that accept that: gzip on all cores, zstd,
// deflate. Answers of less than a packet go as they are.
//
// Blocks of 256 KiB are compressed side by side and make one gzip stream. So the first bytes leave
// when a block is full, and a client that reads slowly holds up the handler when a block for each
// core waits.
//
// Start with Handler.
package compress

import (
	"errors"
	"net/http"
	"sync/atomic"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
)

const (
	// block is how many bytes of an answer are compressed at a time.
	block = 256 << 10
	// least is how many bytes an answer has at least to be compressed: fewer fit into the
	// packet that carries the header.
	least = 512
)

// compact are the media types of answers that are compressed already, each column in the way that
// suits it.
var compact = map[string]bool{"application/vnd.apache.parquet": true}

// Handler has h answer, and compresses what it answers in the way that the client prefers.
// What compressing takes in memory is leased from pool; where there is none, one block is
// compressed at a time. An answer that h breaks off by a panic is never completed.
func Handler(h http.Handler, pool *memory.Pool) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		rw.Header().Add("Vary", "Accept-Encoding")
		c := preferred(r.Header.Get("Accept-Encoding"))
		if c == identity || r.Method == http.MethodHead {
			h.ServeHTTP(rw, r)
			return
		}
		lease := pool.Lease(memory.Answers)
		defer lease.Release()
		w := &writer{ResponseWriter: rw, coding: c, blocks: func() int { return blocks(r.Context(), lease) }}
		done := false
		defer func() {
			w.broken.Store(!done)
			w.end()
		}()
		h.ServeHTTP(w, r)
		done = true
	})
}

// writer is the http.ResponseWriter of an answer that may be compressed.
type writer struct {
	http.ResponseWriter
	coding coding
	blocks func() int  // how many may be compressed side by side
	held   []byte      // what was written before it is known how large the answer is
	code   int         // to be written, 0 for none
	begun  bool        // the header was written
	to     *borrowed   // nil where the answer is not compressed
	broken atomic.Bool // nothing is written any more; streams write from goroutines of their own
}

// WriteHeader implements http.ResponseWriter. It waits for the body where there may be one,
// since its size decides what the header says.
func (w *writer) WriteHeader(code int) {
	switch {
	case code < 200:
		w.ResponseWriter.WriteHeader(code)
	case w.code == 0:
		w.code = code
	}
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	if !w.begun {
		if len(w.held)+len(p) < block {
			w.held = append(w.held, p...)
			return len(p), nil
		}
		if err := w.begin(true); err != nil {
			return 0, err
		}
	}
	if w.to == nil {
		return w.ResponseWriter.Write(p)
	}
	return w.to.Write(p)
}

// FlushError is for http.ResponseController. It ends what is compressed so far in a way
// that the client can read.
func (w *writer) FlushError() error {
	if !w.begun {
		if err := w.begin(true); err != nil {
			return err
		}
	}
	if w.to != nil {
		if err := w.to.Flush(); err != nil {
			return err
		}
	}
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// Unwrap is for http.ResponseController.
func (w *writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// begin writes the header and what is held. There may be more of the answer.
func (w *writer) begin(more bool) error {
	w.begun = true
	h, held := w.Header(), w.held
	w.held = nil
	bodiless := w.code == http.StatusNoContent || w.code == http.StatusNotModified
	packs := (more || len(held) >= least) && !bodiless && h.Get("Content-Encoding") == "" && !compact[h.Get("Content-Type")]
	if packs {
		h.Set("Content-Encoding", string(w.coding))
		h.Del("Content-Length")
		if h.Get("Content-Type") == "" {
			h.Set("Content-Type", http.DetectContentType(held))
		}
	}
	if w.code != 0 {
		w.ResponseWriter.WriteHeader(w.code) // first, as a stream may write from a goroutine of its own
	}
	if packs {
		blocks := 1
		if more && w.coding == gzipped {
			blocks = w.blocks()
		}
		w.to = newStream(w.coding, (*sink)(w), blocks)
	}
	if len(held) == 0 {
		return nil
	}
	var err error
	if w.to != nil {
		_, err = w.to.Write(held)
	} else {
		_, err = w.ResponseWriter.Write(held)
	}
	return err
}

// end writes what is left, unless the answer is broken.
func (w *writer) end() {
	if !w.begun && !w.broken.Load() {
		_ = w.begin(false)
	}
	if w.to != nil {
		_ = w.to.Close()
	}
}

// sink takes the compressed bytes, on goroutines of the streams. A panic of the connection is an
// error of the answer.
type sink writer

var errBroken = errors.New("the answer was broken off")

func (s *sink) Write(p []byte) (n int, err error) {
	if s.broken.Load() {
		return 0, errBroken
	}
	err = parallel.Rescue(func() (err error) {
		n, err = s.ResponseWriter.Write(p)
		return err
	})
	return n, err
}
