// Package slab holds encoded chunks: where they lie, and what memory they take.
//
// Chunks lie in slabs, large byte arrays that are never reallocated, and an entry of a table, a
// Chunk, addresses each by slab and offset. A Writer makes slabs.
// Once a writer is done with a slab its bytes stay as they are, so any number of goroutines
// and of selections may share it.
//
// Start with Chunk.
package slab

import (
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// Slab is one large byte array with chunks in it.
type Slab struct {
	b      []byte
	first  uint64 // position of its first byte
	locked bool
}

// positions are the bytes of all slabs that were ever made.
var positions atomic.Uint64

// New makes a slab with room for size bytes.
func New(size int) *Slab {
	n := uint64(size) + 1 // an empty slab has one, too
	l := &Slab{b: make([]byte, 0, size), first: positions.Add(n) - n + 1}
	CountUntilFreed(l, int64(size))
	lock := pageLock.Load()
	if lock == nil || *lock == nil || size < leastLocked {
		return l
	}
	if unlock := (*lock)(l.b[:size:size]); unlock != nil {
		l.locked = true
		// What unlocks holds on to the memory, so it is not reused before.
		runtime.AddCleanup(l, func(unlock func()) { unlock() }, unlock)
	}
	return l
}

// Add copies a chunk behind those in the slab, which has room for it, and returns where it is.
func (l *Slab) Add(data []byte) (off uint32) {
	off = uint32(len(l.b))
	l.b = append(l.b, data...)[:int(off)+Footprint(uint32(len(data)))]
	return off
}

// ID is the slab's number, which no other slab of the process ever has. It is not 0.
func (l *Slab) ID() uint64 { return l.first }

// Bytes returns the bytes of the slab. They must not be changed.
func (l *Slab) Bytes() []byte { return l.b }

// PageLocked reports whether the slab's memory is page-locked, as PageLock says.
func (l *Slab) PageLocked() bool { return l.locked }

// SizeBytes is the memory that the slab takes, in bytes.
func (l *Slab) SizeBytes() int64 { return int64(cap(l.b)) }

// leastLocked is the size in bytes of the least slab that is worth page-locking.
const leastLocked = 256 << 10

var pageLock atomic.Pointer[func([]byte) func()]

// PageLock lets lock page-lock the memory of each large slab that is made from
// now on, so that a GPU can read it without the help of a core. lock returns what
// undoes that, which is called when the slab is not used any more, or nil if it
// cannot. A nil lock ends it.
func PageLock(lock func(memory []byte) (unlock func())) { pageLock.Store(&lock) }

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

// Slabs are the slabs that the chunks of a table lie in.
type Slabs []*Slab

// Bytes returns the encoded bytes of c. The slice must not be changed; its
// capacity leaves at least Pad further readable bytes.
func (s Slabs) Bytes(c Chunk) []byte {
	end := c.Off + c.Len
	return s[c.Slab].b[c.Off : end : end+Pad]
}

// Position is where c lies among the bytes of all slabs that were ever made: no other chunk ever has it.
func (s Slabs) Position(c Chunk) uint64 { return s[c.Slab].first + uint64(c.Off) }

// Has reports whether c lies within the slabs, aligned and padded.
func (s Slabs) Has(c Chunk) bool {
	if int(c.Slab) >= len(s) || c.Off%Align != 0 {
		return false
	}
	b := s[c.Slab].b
	return int(c.Off)+Footprint(c.Len) <= len(b) && cap(b)-len(b) >= Pad
}

var counter atomic.Pointer[func(bytes int64)]

// CountMemory has count told of the memory that selections take from now on, in bytes:
// slabs, chunk tables, and the labels that no other selection has. What the collector has
// freed is told as a negative number, from a goroutine of its own. A nil count ends it.
func CountMemory(count func(bytes int64)) { counter.Store(&count) }

// CountUntilFreed counts n bytes that are free once nothing points to what.
func CountUntilFreed[T any](what *T, n int64) {
	count := counter.Load()
	if count == nil || *count == nil || n == 0 {
		return
	}
	(*count)(n)
	runtime.AddCleanup(what, func(n int64) { (*count)(-n) }, n)
}

// ErrTooLarge is returned by a Writer whose chunk bytes exceed its limit.
var ErrTooLarge = errors.New("selection exceeds its byte limit")

const (
	firstSlab = 16 << 10 // bytes of a writer's first slab; later ones have half of what is written already
	// MaxBytes is up to how many bytes, but for what has a single chunk in it.
	MaxBytes = 4 << 20
)

// Writer puts chunks into slabs that it makes. It is not safe for concurrent use.
type Writer struct {
	Chunks []Chunk // those written

	base  int
	limit int64
	slabs Slabs
	used  int64 // bytes of chunks

	expected int64 // bytes of all chunks, about
}

// NewWriter returns a writer that fails with ErrTooLarge past limit bytes of chunks; 0
// means no limit. Its slabs are to come behind base others.
func NewWriter(base int, limit int64) Writer {
	return Writer{base: base, limit: limit}
}

// Expect says about how many chunks will be written, and of how many bytes. So none of the memory is
// copied because it was too small, and little stays unused. It comes before the first chunk.
func (w *Writer) Expect(chunks, bytes int) {
	bytes += chunks * Align / 2 // between chunks
	w.Chunks, w.expected = make([]Chunk, 0, chunks+chunks/expectMore), int64(bytes+bytes/expectMore)
}

// expectMore is which part of what is expected there is room for beyond that.
const expectMore = 16

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
		size := int(min(w.expected-w.used, MaxBytes))
		if size < n+Pad {
			size = max(firstSlab, min(int(w.used)/2, MaxBytes), n+Pad)
		}
		w.slabs = append(w.slabs, New(size))
		k++
	}
	b := w.slabs[k-1].b
	return b[len(b) : len(b) : len(b)+n]
}

const (
	chunkEntry = 40      // bytes of a chunk in the table, and that its place in a slab is rounded up by
	freeTable  = 1 << 20 // bytes of the table that count for nothing, however low the limit
	fewChunks  = 16      // that there is room for in the table at least
)

// Claim makes c, a chunk that is the first n bytes of the room that was found last, an entry of Chunks.
// The table is held to the limit of the chunk bytes, as chunks of a sample or none would otherwise
// take many times as much.
func (w *Writer) Claim(c Chunk, n int) error {
	w.used += int64(n)
	if w.limit > 0 && (w.used > w.limit || chunkEntry*int64(len(w.Chunks)) > max(w.limit, freeTable)) {
		return fmt.Errorf("%w of %d bytes", ErrTooLarge, w.limit)
	}
	k := len(w.slabs) - 1
	l := w.slabs[k]
	c.Slab, c.Off, c.Len = uint32(w.base+k), uint32(len(l.b)), uint32(n)
	l.b = l.b[:len(l.b)+Footprint(uint32(n))]
	if len(w.Chunks) == cap(w.Chunks) { // append would clear, and so touch, all of the larger table
		w.Chunks = append(make([]Chunk, 0, max(2*len(w.Chunks), fewChunks)), w.Chunks...)
	}
	w.Chunks = append(w.Chunks, c)
	return nil
}
