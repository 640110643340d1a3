package serve

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/klauspost/compress/s2"
)

// snappyBlock is how many bytes snappy compresses at a time; each such block refers to
// nothing outside of itself.
const snappyBlock = 64 << 10

// compressor compresses what is appended to it, so that only the compressed bytes of a
// large message are held. In snappy's format the number of all bytes comes first, then any
// sequence of elements, so what block after block compresses to may be put together, and
// anything may be put before it once its content is known.
type compressor struct {
	raw  []byte // not compressed yet
	tmp  []byte
	out  []byte // elements
	size int64  // bytes that out stands for
}

// write appends b.
func (c *compressor) write(b []byte) {
	for len(b) > 0 {
		n := min(len(b), snappyBlock-len(c.raw))
		c.raw = append(c.raw, b[:n]...)
		b = b[n:]
		if len(c.raw) == snappyBlock {
			c.flush()
		}
	}
}

// flush compresses what is not compressed yet.
func (c *compressor) flush() {
	if len(c.raw) == 0 {
		return
	}
	c.size += int64(len(c.raw))
	c.tmp = s2.EncodeSnappy(c.tmp[:cap(c.tmp)], c.raw)
	_, header := binary.Uvarint(c.tmp)
	c.out = append(c.out, c.tmp[header:]...)
	c.raw = c.raw[:0]
}

// compressed returns what was appended, compressed, and how many bytes it stands for.
func (c *compressor) compressed() (out []byte, size int64) {
	c.flush()
	return slices.Clone(c.out), c.size
}

// reset forgets what was appended.
func (c *compressor) reset() { c.raw, c.out, c.size = c.raw[:0], c.out[:0], 0 }

// literal returns b, of 1 to 60 bytes, as an element.
func literal(b []byte) []byte {
	return append([]byte{byte(len(b)-1) << 2}, b...)
}

// checkSnappy refuses an answer of more bytes than snappy has a number for.
func checkSnappy(size int64) error {
	if size > math.MaxUint32 {
		return refuse("the answer of samples would be %d bytes and cannot be more than %d; ask for chunks, or for less", size, uint32(math.MaxUint32))
	}
	return nil
}
