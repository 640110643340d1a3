// Package compress compresses answers for clients that accept that: gzip on all cores, or zstd. Answers
// of less than a packet go as they are.
//
// What a client prefers, headers and zstd are klauspost's gzhttp's. Of gzip blocks of 256 KiB are
// compressed side by side and make one stream. So the first bytes leave when a block is full, and a
// client that reads slowly holds up the handler when a block for each core waits.
//
// Start with Handler.
package compress

import (
	"context"
	"errors"
	"io"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/gzhttp"
	"github.com/klauspost/compress/gzhttp/writer"
	"github.com/klauspost/compress/gzhttp/writer/gzkp"
	"github.com/klauspost/pgzip"

	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/internal/parallel"
)

const (
	// block is how many bytes of an answer are compressed at a time.
	block = 256 << 10
	// least is how many bytes an answer has at least to be compressed: fewer fit into the
	// packet that carries the header.
	least = 512
	// level is that of gzip: the fastest. Level 3 makes JSON of points 7 % smaller
	// and has cores work a fifth longer; docs/experiments.md has more.
	level = 1
	// state is what compressing one block takes beside the block, in bytes.
	state = 1300 << 10
)

// wrap has a handler's answers compressed. Answers that are compressed already, each column in the way
// that suits it, are not.
var wrap = func() func(http.Handler) http.HandlerFunc {
	gzip := writer.GzipWriterFactory{Levels: gzkp.Levels, New: func(to io.Writer, _ int) writer.GzipWriter {
		return &gzipStream{to: to.(*sink), held: held.Get().(*[]byte)}
	}}
	w, err := gzhttp.NewWrapper(gzhttp.MinSize(least), gzhttp.CompressionLevel(level), gzhttp.PreferZstd(false),
		gzhttp.ExceptContentTypes([]string{"application/vnd.apache.parquet"}), gzhttp.Implementation(gzip))
	if err != nil {
		panic(err) // the options are wrong
	}
	return w
}()

// Handler compresses what answer writes, in the way that the client prefers. What compressing takes in
// memory is leased from pool; where there is none, one block is compressed at a time. An answer that
// breaks off by a panic is never completed.
func Handler(answer http.HandlerFunc, pool *memory.Pool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodHead {
			w.Header().Add("Vary", "Accept-Encoding")
			answer(w, r)
			return
		}
		lease := pool.Lease(memory.Answers)
		defer lease.Release()
		defer w.Header().Del(gzhttp.HeaderNoCompression)
		to := &sink{ResponseWriter: w, answer: answer, blocks: func() int { return blocks(r.Context(), lease) }}
		wrap(to)(to, r)
	}
}

// blocks is how many blocks may be compressed side by side: one for each core, as far as
// there is memory.
func blocks(ctx context.Context, lease *memory.Lease) int {
	n := runtime.GOMAXPROCS(0)
	for ; n > 1; n /= 2 {
		if lease.Grow(ctx, int64(n)*(state+3*block)) == nil {
			break
		}
		lease.Release() // what was refused counts as taken
	}
	return n
}

// sink takes what is written, compressed or not, some of it on goroutines of streams. A panic of the
// connection is an error of the answer.
type sink struct {
	http.ResponseWriter
	answer http.HandlerFunc
	blocks func() int  // how many may be compressed side by side
	broken atomic.Bool // nothing is written any more
}

// ServeHTTP has the answer written to w, which compresses it to the sink.
func (s *sink) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	done := false
	defer func() {
		if !done { // so that an error can be answered instead, if nothing was written
			s.broken.Store(true)
			s.Header().Del("Content-Encoding")
			s.Header().Set(gzhttp.HeaderNoCompression, "broken off")
		}
	}()
	s.answer(w, r)
	done = true
}

var errBroken = errors.New("the answer was broken off")

// Write implements io.Writer.
func (s *sink) Write(p []byte) (n int, err error) {
	if s.broken.Load() {
		return 0, errBroken
	}
	defer parallel.Recover(&err)
	return s.ResponseWriter.Write(p)
}

// WriteHeader implements http.ResponseWriter.
func (s *sink) WriteHeader(code int) {
	if !s.broken.Load() {
		s.ResponseWriter.WriteHeader(code)
	}
}

// Unwrap is for http.ResponseController.
func (s *sink) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// Flush implements http.Flusher.
func (s *sink) Flush() { _ = http.NewResponseController(s.ResponseWriter).Flush() }

// held are the memory of what streams hold, to be used again.
var held = sync.Pool{New: func() any { return new([]byte) }}

// gzipStream compresses an answer: on all cores once it is larger than a block.
type gzipStream struct {
	to     *sink
	held   *[]byte           // what was written before it is known how large the answer is
	stream writer.GzipWriter // nil before that
}

// Write implements writer.GzipWriter.
func (z *gzipStream) Write(p []byte) (int, error) {
	if z.stream == nil {
		if len(*z.held)+len(p) < block {
			*z.held = append(*z.held, p...)
			return len(p), nil
		}
		if err := z.begin(z.to.blocks()); err != nil {
			return 0, err
		}
	}
	return z.stream.Write(p)
}

// parallelStreams are used again, since each begins with a large and empty table, as gzkp's are.
var parallelStreams = sync.Pool{New: func() any {
	s, _ := pgzip.NewWriterLevel(nil, level) // an error is one of the level
	return s
}}

// begin begins to compress blocks side by side.
func (z *gzipStream) begin(blocks int) error {
	if blocks > 1 {
		s := parallelStreams.Get().(*pgzip.Writer)
		s.Reset(z.to)
		_ = s.SetConcurrency(block, blocks) // an error is one of these numbers
		z.stream = s
	} else {
		z.stream = gzkp.NewWriter(z.to, level)
	}
	_, err := z.stream.Write(*z.held)
	*z.held = (*z.held)[:0]
	held.Put(z.held)
	return err
}

// Flush implements writer.GzipWriter.
func (z *gzipStream) Flush() error {
	if z.stream == nil {
		if err := z.begin(z.to.blocks()); err != nil {
			return err
		}
	}
	return z.stream.Flush()
}

// Close implements writer.GzipWriter.
func (z *gzipStream) Close() error {
	if z.stream == nil {
		if err := z.begin(1); err != nil {
			return err
		}
	}
	err := z.stream.Close()
	if s, ok := z.stream.(*pgzip.Writer); ok {
		s.Reset(nil) // waits for goroutines of the stream
		parallelStreams.Put(s)
	}
	return err
}
