package compress

import (
	"bytes"
	"hash/crc32"
	"io"
	"sync"
	"sync/atomic"

	"github.com/klauspost/compress/flate"

	"github.com/promwarp/promwarp/api/compress/points"
	"github.com/promwarp/promwarp/internal/rescue"
)

// blocked makes one gzip stream of blocks, each of which is compressed by itself:
//
//	1f 8b 08 00 00 00 00 00 00 ff   header of gzip
//	block, ends in 00 00 ff ff      deflate; the end fills up the last byte
//	block, …
//	01 00 00 ff ff                  the last block, which is empty
//	checksum, size                  of all blocks before they were compressed
//
// Blocks come in two ways. What is written is cut into blocks, and each is compressed on a
// goroutine of its own. What others have on several goroutines already they pack there, and
// need not copy. A goroutine writes what is compressed in the order of the stream.
type blocked struct {
	to     io.Writer
	tokens chan struct{}    // one for each block that is being compressed
	queue  chan chan packed // blocks in order, as many as tokens
	filled *bytes.Buffer    // what was written since the last block, or nil
	ended  chan struct{}    // closed when everything in the queue is written
	failed atomic.Pointer[error]
}

// packed is a block that was compressed.
type packed struct {
	deflated *bytes.Buffer
	sum      uint32 // checksum and size of what was compressed
	size     int
	flushed  chan<- struct{} // closed when all blocks before this one are written; or nil
	err      error
}

var (
	gzipHeader = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff}
	lastBlock  = []byte{1, 0, 0, 0xff, 0xff}
)

var (
	buffers   = sync.Pool{New: func() any { return new(bytes.Buffer) }}
	encoders  = sync.Pool{New: func() any { return new(points.Encoder) }}
	deflaters = pool(func() (*flate.Writer, error) { return flate.NewWriter(nil, level) })
)

func newBlocked(to io.Writer, blocks int) *blocked {
	s := &blocked{
		to:     to,
		tokens: make(chan struct{}, blocks), queue: make(chan chan packed, blocks),
		ended: make(chan struct{}),
	}
	go s.write()
	return s
}

// Write implements io.Writer.
func (s *blocked) Write(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		if err := s.err(); err != nil {
			return n, err
		}
		if s.filled == nil {
			s.filled = buffers.Get().(*bytes.Buffer)
			s.filled.Grow(block)
		}
		k := min(len(p)-n, block-s.filled.Len())
		s.filled.Write(p[n : n+k])
		n += k
		if s.filled.Len() == block {
			s.compressFilled()
		}
	}
	return n, s.err()
}

// Pack compresses p on the goroutine of the caller, which may be any. What it returns is to
// be called where p is to be written.
func (s *blocked) Pack(p []byte) func() error {
	b := s.compress(p)
	return func() error {
		s.compressFilled()
		s.enqueue() <- b
		return s.err()
	}
}

// Flush ends what is compressed so far, and waits until it is written.
func (s *blocked) Flush() error {
	s.compressFilled()
	flushed := make(chan struct{})
	s.enqueue() <- packed{flushed: flushed}
	<-flushed
	return s.err()
}

// Close implements io.Closer.
func (s *blocked) Close() error {
	s.compressFilled()
	close(s.queue)
	<-s.ended
	return s.err()
}

func (s *blocked) err() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// enqueue returns where the next block of the stream is to be put. It waits while the client
// does not read.
func (s *blocked) enqueue() chan<- packed {
	c := make(chan packed, 1)
	s.queue <- c
	return c
}

// compressFilled has a goroutine compress what was written since the last block.
func (s *blocked) compressFilled() {
	if s.filled == nil {
		return
	}
	from, to := s.filled, s.enqueue()
	s.filled = nil
	go func() {
		b := s.compress(from.Bytes())
		from.Reset()
		buffers.Put(from)
		to <- b
	}()
}

// compress compresses a block, when it has a token.
func (s *blocked) compress(p []byte) (b packed) {
	s.tokens <- struct{}{}
	defer func() { <-s.tokens }()
	b.err = rescue.Do(func() error {
		b.deflated = buffers.Get().(*bytes.Buffer)
		b.sum, b.size = crc32.ChecksumIEEE(p), len(p)
		if points.Suits(p) {
			e := encoders.Get().(*points.Encoder)
			b.deflated.Write(e.Append(b.deflated.AvailableBuffer(), p))
			encoders.Put(e)
			return nil
		}
		z := deflaters.Get().(*flate.Writer)
		z.Reset(b.deflated)
		if _, err := z.Write(p); err != nil {
			return err
		}
		if err := z.Flush(); err != nil {
			return err
		}
		deflaters.Put(z)
		return nil
	})
	return b
}

// write writes the stream. After an error it only empties the queue.
func (s *blocked) write() {
	defer close(s.ended)
	s.put(gzipHeader)
	var sum checksum
	for c := range s.queue {
		b := <-c
		switch {
		case b.flushed != nil:
			close(b.flushed)
		case b.err != nil:
			s.failed.CompareAndSwap(nil, &b.err)
		default:
			s.put(b.deflated.Bytes())
			sum.add(b.sum, b.size)
			b.deflated.Reset()
			buffers.Put(b.deflated)
		}
	}
	s.put(lastBlock)
	s.put(sum.trailer())
}

// put writes p, unless something has failed.
func (s *blocked) put(p []byte) {
	if s.err() != nil {
		return
	}
	err := rescue.Do(func() error { _, err := s.to.Write(p); return err })
	if err != nil {
		s.failed.CompareAndSwap(nil, &err)
	}
}
