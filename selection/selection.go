// Package selection holds the unit that flows through promwarp: everything one
// selector matched over a time range, as sorted series and their still encoded
// chunks.
//
// Chunk bytes live in slabs, large byte arrays that are never reallocated, and
// a chunk is addressed by (slab, offset, length) in one flat table. A selection
// is immutable once built, so it may be shared by any number of goroutines and
// its slabs by any number of selections.
package selection

import (
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/selection/samples"
	"github.com/promwarp/promwarp/selection/slab"
)

// What a table of chunks and the slabs are made of.
type (
	Chunk = slab.Chunk
	Slab  = slab.Slab
)

// CorruptError says which series holds a chunk that cannot be decoded.
type CorruptError = samples.CorruptError

// ErrTooLarge is returned by a Builder whose chunk bytes exceed its limit.
var ErrTooLarge = slab.ErrTooLarge

// Selection is what a selector matched: series in label order and, for each,
// its chunks in time order, none overlapping another.
type Selection struct {
	series []labels.Labels
	first  []uint32 // chunks of series i are chunks[first[i]:first[i+1]]
	chunks []Chunk
	behind *behind // further chunks, or nil
	slabs  slab.Slabs
	memos  []*Memo // of the series, or nil

	// Notes are what was found out about its series and chunks.
	Notes *Notes
	// The keeper of the selection, a cache, sets the others before it shares it. KeptUntil is the time
	// in ms before which chunks are kept, so that the next selection made of them has the very same
	// ones.
	KeptUntil int64
	// Provenance says what is known of where the samples came from; nil for nothing. Selections that
	// are made of this one without leaving anything out share it; others have none.
	Provenance *Provenance
	// OnDiscard is what Discard calls; nil for nothing.
	OnDiscard func()

	encodings uint32 // bit e is set when a chunk of encoding e is present
	samples   int64
	size      int64
	data      int64 // bytes of all chunks
	text      int64 // bytes of all labels
	tables    *counted
	own       bool // whether the labels are no other selection's
}

// Empty returns a selection of no series.
func Empty() *Selection { return &Selection{first: []uint32{0}, Notes: &Notes{Series: &Notes{}}} }

// NumSeries is the number of series.
func (s *Selection) NumSeries() int { return len(s.series) }

// NumChunks is the number of chunks of all series together.
func (s *Selection) NumChunks() int {
	n := len(s.chunks)
	if b := s.behind; b != nil {
		n += len(b.chunks) - b.hidden
	}
	return n
}

// NumSamples is the number of samples of all chunks together.
func (s *Selection) NumSamples() int64 { return s.samples }

// Series returns the labels of all series. The slice must not be changed.
func (s *Selection) Series() []labels.Labels { return s.series }

// Labels returns the labels of series i.
func (s *Selection) Labels(i int) labels.Labels { return s.series[i] }

// Chunks returns the chunks of series i in time order. The slice must not be
// changed.
func (s *Selection) Chunks(i int) []Chunk {
	if s.behind == nil {
		return s.chunks[s.first[i]:s.first[i+1]]
	}
	return concat(new([]Chunk), s.inTable(i), s.behind.of(i))
}

// ends returns the first and the last chunk of series i.
func (s *Selection) ends(i int) (first, last *Chunk) {
	a := s.inTable(i)
	b := a
	if s.behind != nil {
		if b = s.behind.of(i); len(b) == 0 {
			b = a
		} else if len(a) == 0 {
			a = b
		}
	}
	return &a[0], &b[len(b)-1]
}

// Bytes returns the encoded bytes of c. The slice must not be changed; its
// capacity leaves at least slab.Pad further readable bytes.
func (s *Selection) Bytes(c Chunk) []byte { return s.slabs.Bytes(c) }

// Has reports whether a chunk of encoding e is present.
func (s *Selection) Has(e chunkenc.Encoding) bool { return s.encodings&(1<<e) != 0 }

// OnlyFloats reports whether every chunk holds float samples.
func (s *Selection) OnlyFloats() bool {
	const floats = 1<<chunkenc.EncXOR | 1<<chunkenc.EncXOR2
	return s.encodings&^floats == 0
}

// SizeBytes is the memory that the selection holds on to, in bytes: slabs,
// chunk table and labels. Slabs shared with other selections count in full.
func (s *Selection) SizeBytes() int64 { return s.size }

// PayloadBytes is the size in bytes of the encoded chunks and the labels: what
// a store had to send.
func (s *Selection) PayloadBytes() int64 { return s.data + s.text }

// NumSlabs is the number of slabs that chunks lie in.
func (s *Selection) NumSlabs() int { return len(s.slabs) }

// Slab returns slab k. A slab is the same in all selections that share it.
func (s *Selection) Slab(k int) *Slab { return s.slabs[k] }

// TextBytes is the size in bytes of the labels.
func (s *Selection) TextBytes() int64 { return s.text }

// Discard tells the cache or directory of this selection that its content turned out to be
// unusable, so that it is fetched again next time.
func (s *Selection) Discard() {
	if s.OnDiscard != nil {
		s.OnDiscard()
	}
}

// finish computes the derived fields of a selection whose chunks are all in the table.
func (s *Selection) finish() *Selection {
	s.encodings, s.samples, s.data = 0, 0, 0
	for i := range s.chunks {
		c := &s.chunks[i]
		s.encodings |= 1 << c.Enc
		s.samples += int64(c.Samples)
		s.data += int64(c.Len)
	}
	return s.measure()
}

// measure computes the derived fields that are not sums over chunks. If s has notes,
// those on the series stay.
func (s *Selection) measure() *Selection {
	if s.Notes == nil {
		s.Notes = &Notes{Series: &Notes{}}
	} else {
		s.Notes = &Notes{Series: s.Notes.Series}
	}
	s.text = 0
	for _, l := range s.series {
		s.text += int64(l.ByteSize())
	}
	s.size = s.tableBytes()
	tables := s.size
	if s.own {
		tables += s.text
	}
	if tables >= leastCounted { // of s and copies of it
		s.tables = &counted{tables}
		slab.CountUntilFreed(s.tables, tables)
	}
	for _, l := range s.slabs {
		s.size += l.SizeBytes()
	}
	s.size += int64(len(s.series))*int64(unsafe.Sizeof(labels.Labels{})) + s.text
	s.size += int64(cap(s.memos)) * int64(unsafe.Sizeof(&Memo{})+unsafe.Sizeof(Memo{}))
	return s
}

// counted is memory that is counted as long as somebody has a pointer to it.
type counted struct{ bytes int64 }

// leastCounted is from how many bytes of tables on these are counted: the small ones of
// small queries cost less than counting them.
const leastCounted = 16 << 10
