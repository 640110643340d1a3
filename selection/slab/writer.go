package slab

import (
	"errors"
	"fmt"
)

// ErrTooLarge is returned by a Writer whose chunk bytes exceed its limit.
var ErrTooLarge = errors.New("selection exceeds its byte limit")

const (
	firstSlab = 16 << 10 // bytes of a writer's first slab; each next one is twice as large
	// MaxBytes is up to how many bytes, but for what has a single chunk in it.
	MaxBytes = 4 << 20
)

// Writer puts chunks into slabs that it makes. It is not safe for concurrent use.
type Writer struct {
	base   int
	limit  int64
	slabs  Slabs
	used   int64 // bytes of chunks
	chunks int64
	next   int // bytes of the next slab
}

// NewWriter returns a writer that fails with ErrTooLarge past limit bytes of chunks; 0
// means no limit. Its slabs are to come behind base others.
func NewWriter(base int, limit int64) Writer {
	return Writer{base: base, limit: limit, next: firstSlab}
}

// Slabs returns the slabs made so far.
func (w *Writer) Slabs() Slabs { return w.slabs }

// Bytes is the number of chunk bytes written so far.
func (w *Writer) Bytes() int64 { return w.used }

// Room returns an empty slice with a capacity of n bytes, which the next chunk is to be put
// into. Pad more are behind the last chunk of a slab.
func (w *Writer) Room(n int) []byte {
	n = Footprint(uint32(n))
	k := len(w.slabs)
	if k == 0 || cap(w.slabs[k-1].b)-len(w.slabs[k-1].b) < n+Pad {
		size := max(w.next, n+Pad)
		w.next = min(2*w.next, MaxBytes)
		w.slabs = append(w.slabs, New(size))
		k++
	}
	b := w.slabs[k-1].b
	return b[len(b) : len(b) : len(b)+n]
}

const (
	chunkEntry = 40      // bytes of a chunk in the table, and that its place in a slab is rounded up by
	freeTable  = 1 << 20 // bytes of the table that count for nothing, however low the limit
)

// Claim makes a chunk of the first n bytes of the room that was found last, and sets where c is.
// The table is held to the limit of the chunk bytes, as chunks of a sample or none would otherwise
// take many times as much.
func (w *Writer) Claim(c *Chunk, n int) error {
	w.used += int64(n)
	if w.limit > 0 && (w.used > w.limit || chunkEntry*w.chunks > max(w.limit, freeTable)) {
		return fmt.Errorf("%w of %d bytes", ErrTooLarge, w.limit)
	}
	w.chunks++
	k := len(w.slabs) - 1
	l := w.slabs[k]
	c.Slab, c.Off, c.Len = uint32(w.base+k), uint32(len(l.b)), uint32(n)
	l.b = l.b[:len(l.b)+Footprint(uint32(n))]
	return nil
}
