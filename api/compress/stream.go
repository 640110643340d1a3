package compress

import (
	"context"
	"io"
	"runtime"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
	"github.com/klauspost/pgzip"

	"github.com/promwarp/promwarp/internal/memory"
)

const (
	// level is that of gzip and deflate: the fastest. Level 3 makes JSON of points 7 % smaller
	// and has cores work a fifth longer; docs/experiments.md has more.
	level = 1
	// state is what compressing one block takes beside the block, in bytes.
	state = 1300 << 10
	// window is how far back zstd looks, in bytes; it bounds what a stream takes.
	window = 512 << 10
)

// stream compresses what is written to it.
type stream interface {
	io.WriteCloser
	Flush() error
	Reset(w io.Writer)
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

// newStream returns what compresses to w in a coding, where that is gzip so many blocks side
// by side. Streams are used again, since each begins with a large and empty table.
func newStream(c coding, w io.Writer, blocks int) *borrowed {
	pool := gzipStreams
	switch {
	case c == zstandard:
		pool = zstdStreams
	case c == deflate:
		pool = zlibStreams
	case blocks > 1:
		pool = parallelStreams
	}
	b := &borrowed{pool.Get().(stream), pool}
	b.Reset(w)
	if z, ok := b.stream.(*pgzip.Writer); ok {
		_ = z.SetConcurrency(block, blocks) // an error is one of these numbers
	}
	return b
}

var (
	gzipStreams     = pool(func() (stream, error) { return gzip.NewWriterLevel(nil, level) })
	parallelStreams = pool(func() (stream, error) { return pgzip.NewWriterLevel(nil, level) })
	zlibStreams     = pool(func() (stream, error) { return zlib.NewWriterLevel(nil, level) })
	zstdStreams     = pool(func() (stream, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(2), zstd.WithWindowSize(window))
	})
)

func pool(make func() (stream, error)) *sync.Pool {
	return &sync.Pool{New: func() any {
		s, err := make()
		if err != nil {
			panic(err) // the options are wrong
		}
		return s
	}}
}

// borrowed is a stream that goes back to its pool when it is closed.
type borrowed struct {
	stream
	pool *sync.Pool
}

// Close implements io.Closer.
func (b *borrowed) Close() error {
	err := b.stream.Close()
	b.Reset(nil) // waits for goroutines of the stream
	b.pool.Put(b.stream)
	return err
}
