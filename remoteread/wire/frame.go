package wire

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"sync"
	"unicode"
	"unicode/utf8"
)

const (
	// frameBuffer is the size in bytes of the buffer that frames are read
	// through. A frame that fits, as Prometheus's do that hold a few chunks of
	// one series, is used where it lies.
	frameBuffer = 256 << 10
	// growth is how many bytes at least a larger frame's own buffer grows at a
	// time.
	growth = 1 << 20
	// keepFrame is the largest such buffer that is kept for other requests.
	keepFrame = 4 << 20

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
	b     *bufio.Reader
	large []byte // for frames that do not fit into b
	limit uint64 // bytes of a frame
}

var frameReaders = sync.Pool{New: func() any {
	return &FrameReader{b: bufio.NewReaderSize(nil, frameBuffer)}
}}

// NewFrameReader returns a reader of frames of at most limit bytes each, which must be released.
func NewFrameReader(r io.Reader, limit int64) *FrameReader {
	f := frameReaders.Get().(*FrameReader)
	f.b.Reset(r)
	f.limit = uint64(limit)
	return f
}

// Release hands the buffers back. Neither f nor its frames may be used after.
func (f *FrameReader) Release() {
	f.b.Reset(nil)
	if cap(f.large) > keepFrame {
		f.large = nil
	}
	frameReaders.Put(f)
}

// Next returns the next frame, valid until the call after, or io.EOF.
func (f *FrameReader) Next() ([]byte, error) {
	head, err := f.b.Peek(maxHeader)
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
	want := binary.BigEndian.Uint32(head[n:])
	n += crcSize

	if size <= uint64(f.b.Size()-n) {
		total := n + int(size)
		all, err := f.b.Peek(total)
		if len(all) < total {
			return nil, f.cut(err)
		}
		frame := all[n:]
		if crc32.Checksum(frame, castagnoli) != want {
			return nil, f.text(&CorruptError{fmt.Sprintf("the checksum of a frame of %d bytes is wrong", size)})
		}
		_, _ = f.b.Discard(total)
		return frame, nil
	}

	_, _ = f.b.Discard(n)
	frame := f.large[:0]
	for uint64(len(frame)) < size {
		k := len(frame)
		// By as much as has come at most, so that the length alone takes no
		// memory.
		m := int(min(size-uint64(k), uint64(max(k, growth))))
		frame = slices.Grow(frame, m)[:k+m]
		if _, err := io.ReadFull(f.b, frame[k:]); err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, &CutOffError{err}
		}
	}
	f.large = frame
	if crc32.Checksum(frame, castagnoli) != want {
		return nil, &CorruptError{fmt.Sprintf("the checksum of a frame of %d bytes is wrong", size)}
	}
	return frame, nil
}

// cut is the error for a frame that ends early because of err.
func (f *FrameReader) cut(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
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
	b, _ := f.b.Peek(min(f.b.Buffered(), 4*MaxLine))
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
