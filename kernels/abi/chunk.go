package abi

import (
	"errors"
	"fmt"
)

// ChunkRef addresses a chunk in a slab.
type ChunkRef struct {
	Off     uint64 // of its first byte, a multiple of 8
	Len     uint32 // bytes, below 2^28; the slab is readable up to the next multiple of 8
	Samples uint32 // from the chunk's header
}

// Status is what a decoding kernel reports of a chunk.
type Status uint32

const (
	truncated Status = 1
	badNumber Status = 2
	backwards Status = 3
)

// Outside is the status of a chunk with samples outside its stated time range.
const Outside Status = 4

var statusErrors = map[Status]error{
	truncated: errors.New("its bit stream ends before its last sample"),
	badNumber: errors.New("its bit stream has a time of more than 64 bits"),
	backwards: errors.New("its timestamps do not increase"),
	Outside:   errors.New("its samples lie outside its stated time range"),
}

// Err says why the chunk is corrupt, if it is.
func (s Status) Err() error {
	if s == 0 {
		return nil
	}
	if err, ok := statusErrors[s]; ok {
		return err
	}
	return fmt.Errorf("the GPU reports status %d of it", s)
}

// SeriesChunk addresses a chunk of a series, for decode_series and decode_mixed.
type SeriesChunk struct {
	ChunkRef       // Samples with XOR2 added where it is such a chunk
	From, To int64 // its stated time range in ms, both ends included
}

// XOR2 is what decode_mixed knows an XOR2 chunk by.
const XOR2 = 1 << 16

// Entry is a SeriesChunk in half its bytes, for the table that is copied for every chunk.
// Nearly all chunks fit. Of one that does not the entry has entryWide set, and `where` is the
// index of its SeriesChunk. From the highest bit to the lowest:
//
//	        8         12           44 bits
//	where | Samples | Len        | Off/8       |
//	        1      1      27       35
//	when  | wide | XOR2 | To-From | From-since |
//
// 120 samples in 360 bytes at 4096, from 1 s after since on, over 1785 s:
//
//	where  7816 8000 0000 0200
//	when   00d9 e540 0000 03e8
type Entry struct{ where, when uint64 }

const (
	entryXOR2 = 1 << 62
	entryWide = 1 << 63
	// EntrySpan is the longest time range of a chunk that fits into an entry, in ms.
	EntrySpan = 1<<27 - 1
	// EntryReach is the number of bytes in which an entry can say where a chunk is: all of an x86-64 process.
	EntryReach = 1 << 47
)

// EntryFits reports whether a chunk of that length in bytes, those samples and that time range fits into
// an Entry, wherever in EntryReach it is.
func EntryFits(length, samples uint32, from, to, since int64) bool {
	return length < 1<<12 && samples < 1<<8 && from >= since && uint64(from-since) < 1<<35 && uint64(to-from) <= EntrySpan
}

// Entry returns the entry of a chunk that fits.
func (c SeriesChunk) Entry(since int64) Entry {
	return Entry{
		where: c.Off/8 | uint64(c.Len)<<44 | uint64(c.Samples)<<56,
		when:  uint64(c.From-since) | uint64(c.To-c.From)<<35 | uint64(c.Samples/XOR2)<<62,
	}
}

// WideEntry returns the entry of a chunk that has number n among those that do not fit.
func WideEntry(n uint32) Entry { return Entry{uint64(n), entryWide} }
