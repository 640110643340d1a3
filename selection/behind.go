package selection

import (
	"slices"
	"unsafe"
)

// behind holds the chunks that come behind those in the table of a selection, series by
// series. So a selection with a few more chunks than a large one, the newest ones,
// shares its table instead of copying it, which every query would have to that asks for
// the newest samples.
type behind struct {
	first  []uint32 // chunks of series i are chunks[first[i]:first[i+1]]
	chunks []Chunk
	ends   []uint32 // where those of series i in the table end; nil where all of them count
	hidden int      // chunks in the table that do not count
}

// inTable returns the chunks of series i that are in the table.
func (s *Selection) inTable(i int) []Chunk {
	end := s.first[i+1]
	if s.behind != nil && s.behind.ends != nil {
		end = s.behind.ends[i]
	}
	return s.chunks[s.first[i]:end]
}

// of returns the chunks of series i that are behind the table.
func (b *behind) of(i int) []Chunk { return b.chunks[b.first[i]:b.first[i+1]] }

// concat returns the chunks of a and b, one of them itself if there are none in the
// other, and otherwise in memory.
func concat(memory *[]Chunk, a, b []Chunk) []Chunk {
	switch {
	case len(a) == 0:
		return b
	case len(b) == 0:
		return a
	}
	*memory = append(append(slices.Grow((*memory)[:0], len(a)+len(b)), a...), b...)
	return *memory
}

// flat returns s with all chunks in the table.
func (s *Selection) flat() *Selection {
	if s.behind == nil {
		return s
	}
	out := *s
	out.behind = nil
	out.first = make([]uint32, 0, len(s.series)+1)
	out.chunks = make([]Chunk, 0, s.NumChunks())
	for i := range s.series {
		out.first = append(out.first, uint32(len(out.chunks)))
		out.chunks = append(append(out.chunks, s.inTable(i)...), s.behind.of(i)...)
	}
	out.first = append(out.first, uint32(len(out.chunks)))
	out.size += out.tableBytes() - s.tableBytes()
	return &out
}

// tableBytes is the memory that the tables of chunks take, in bytes.
func (s *Selection) tableBytes() int64 {
	const chunk = int64(unsafe.Sizeof(Chunk{}))
	n := int64(cap(s.chunks))*chunk + int64(cap(s.first))*4
	if b := s.behind; b != nil {
		n += int64(cap(b.chunks))*chunk + int64(cap(b.first)+cap(b.ends))*4
	}
	return n
}
