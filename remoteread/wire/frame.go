package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	// frameBuffer is how many bytes of an answer are read ahead. A larger frame makes the buffer grow.
	frameBuffer = 256 << 10
	// keepBuffer is the largest buffer that is kept for other requests.
	keepBuffer = 4 << 20

	crcSize   = 4
	maxHeader = binary.MaxVarintLen64 + crcSize
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FrameReader reads the frames of a streamed answer. A frame of 300 bytes lies so:
//
//	ac 02         its length, 300, as a varint
//	xx xx xx xx   CRC-32C of its bytes, big-endian
//	...           300 bytes, a prompb.ChunkedReadResponse
//
// It does what remote.ChunkedReader does and three things more. That one takes
// an end just after the length or the checksum for the end of the stream. It
// allocates what the length says before a byte has come. And it hides the text
// that Prometheus appends to a stream when it fails on the way, which is the
// one thing that says what is wrong.
type FrameReader struct {
	r     io.Reader
	limit uint64 // bytes of a frame
	buf   []byte // what has come and was not used; used again
	start int    // of that in buf
}

var frameReaders = sync.Pool{New: func() any { return &FrameReader{buf: make([]byte, 0, frameBuffer)} }}

// NewFrameReader returns a reader of frames of at most limit bytes each, which must be released.
func NewFrameReader(r io.Reader, limit int64) *FrameReader {
	f := frameReaders.Get().(*FrameReader)
	f.r, f.limit, f.buf, f.start = r, min(uint64(limit), math.MaxInt64-maxHeader), f.buf[:0], 0
	return f
}

// Release hands the buffer back. Neither f nor its frames may be used after.
func (f *FrameReader) Release() {
	f.r = nil
	if cap(f.buf) <= keepBuffer {
		frameReaders.Put(f)
	}
}

// peek returns the next n bytes, or what there is of them and why there are not more. The buffer
// grows by as much as has come at most, so that a frame's length alone takes no memory.
func (f *FrameReader) peek(n int) ([]byte, error) {
	for len(f.buf)-f.start < n {
		if f.start > 0 && cap(f.buf)-f.start < n {
			f.buf, f.start = append(f.buf[:0], f.buf[f.start:]...), 0
		}
		if len(f.buf) == cap(f.buf) {
			f.buf = slices.Grow(f.buf, min(n-len(f.buf), len(f.buf)))
		}
		k, err := f.r.Read(f.buf[len(f.buf):cap(f.buf)])
		f.buf = f.buf[:len(f.buf)+k]
		if err != nil && len(f.buf)-f.start < n {
			return f.buf[f.start:], err
		}
	}
	return f.buf[f.start:][:n], nil
}

// Next returns the next frame, valid until the call after, or io.EOF.
func (f *FrameReader) Next() ([]byte, error) {
	head, err := f.peek(maxHeader)
	if len(head) == 0 {
		if errors.Is(err, io.EOF) {
			return nil, io.EOF
		}
		return nil, &CutOffError{err}
	}
	size, n := binary.Uvarint(head)
	switch {
	case n < 0:
		return nil, f.text(&CorruptError{"the length of a frame is not a number"})
	case n == 0 || len(head) < n+crcSize:
		return nil, f.cut(err)
	case size > f.limit:
		return nil, &FrameTooLargeError{size}
	}
	n += crcSize
	all, err := f.peek(n + int(size))
	if err != nil {
		return nil, f.cut(err)
	}
	frame := all[n:]
	if crc32.Checksum(frame, castagnoli) != binary.BigEndian.Uint32(all[n-crcSize:]) {
		return nil, f.text(&CorruptError{fmt.Sprintf("the checksum of a frame of %d bytes is wrong", size)})
	}
	f.start += len(all)
	return frame, nil
}

// cut is the error for a frame that ends early because of err.
func (f *FrameReader) cut(err error) error {
	if errors.Is(err, io.EOF) {
		// The body itself ended properly, so it may have been meant to.
		return f.text(&CutOffError{io.ErrUnexpectedEOF})
	}
	return &CutOffError{err}
}

// text returns an StoreError when what stands in place of a frame reads as text,
// and otherwise err.
func (f *FrameReader) text(err error) error {
	const least = 8 // bytes; a few may look like text by chance
	// Wait for no more than is there: a real frame would be followed by others.
	b := f.buf[f.start:min(len(f.buf), f.start+4*MaxLine)]
	if len(b) < least {
		return err
	}
	for s := b; len(s) > 0; {
		c, n := utf8.DecodeRune(s)
		if c == utf8.RuneError && len(s) >= utf8.UTFMax || !unicode.IsPrint(c) && c != '\n' && c != '\t' && c != '\r' {
			return err
		}
		s = s[n:]
	}
	return &StoreError{Text: slices.Clone(b)}
}
