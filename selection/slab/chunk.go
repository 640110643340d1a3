package slab

import "github.com/prometheus/prometheus/tsdb/chunkenc"

// Chunk is an entry of a table of chunks: it addresses one encoded chunk in slabs and says what
// is in it. Times are in ms since the epoch, both ends included. It takes 32 bytes.
//
//	a slab:  |chunk, 13 bytes|...|chunk, 40 bytes                        |chunk, 9 bytes|.......|
//	offset:  0                   16                                      56                 72
//
// Each chunk begins at a multiple of Align, here filled up with dots. Pad readable bytes follow the
// last one.
type Chunk struct {
	MinT, MaxT int64
	Slab       uint32 // index into the slabs
	Off        uint32 // first byte within the slab, a multiple of Align
	Len        uint32 // bytes
	Samples    uint16 // sample count, from the chunk's header
	Enc        chunkenc.Encoding
}

// Align is the alignment in bytes of every chunk within its slab.
const Align = 8

// Pad is the number of readable bytes after every chunk, of another chunk or of
// none, so that a decoder may load eight bytes at once up to the chunk's last byte.
const Pad = 8

// Footprint is the number of bytes that a chunk of n bytes takes in a slab.
func Footprint(n uint32) int { return (int(n) + Align - 1) / Align * Align }

// Slabs are those that the chunks of a table lie in.
type Slabs []*Slab

// Bytes returns the encoded bytes of c. The slice must not be changed; its
// capacity leaves at least Pad further readable bytes.
func (s Slabs) Bytes(c Chunk) []byte {
	end := c.Off + c.Len
	return s[c.Slab].b[c.Off : end : end+Pad]
}

// Has reports whether c lies within the slabs, aligned and padded.
func (s Slabs) Has(c Chunk) bool {
	if int(c.Slab) >= len(s) || c.Off%Align != 0 {
		return false
	}
	b := s[c.Slab].b
	return int(c.Off)+Footprint(c.Len) <= len(b) && cap(b)-len(b) >= Pad
}
