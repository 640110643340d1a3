package encode

import (
	"slices"
	"sync"
)

// pieceWeight is how many points a piece has, about 150 KB of text.
const pieceWeight = 4096

// maxKept bounds the buffers that are kept for later answers. A piece is larger
// only if labels or histograms are.
const maxKept = 1 << 20

var buffers = sync.Pool{New: func() any { return new(buffer) }}

// buffer holds the text of a piece.
type buffer struct{ b []byte }

func newBuffer() *buffer { return buffers.Get().(*buffer) }

// release gives the buffer back.
func (b *buffer) release() {
	if cap(b.b) > maxKept {
		return
	}
	b.b = b.b[:0]
	buffers.Put(b)
}

// room returns b with its length set to its capacity, of which at least k bytes
// are beyond its former length, and that length.
func room(b []byte, k int) ([]byte, int) {
	n := len(b)
	if cap(b)-n < k {
		b = slices.Grow(b, k)
	}
	return b[:cap(b)], n
}
