package abi

import "unsafe"

// PackedWord says where a packed tile of chunks is on a device, and how it is stored: its address at a
// multiple of 256, its kind in the 8 bits below, and the number of its rows in the 16 bits at the top.
// 0 is that of a tile that is not packed. As pack_measure leaves it, bytes take the place of the address.
type PackedWord uint64

// PackedChunk is what a packed tile says of a chunk. Mirrors packed.h.
type PackedChunk struct {
	Begin         int64
	Base          float64
	Span, Every   uint32
	Samples       uint32
	Falls, Gap    uint16
	Unit, Inverse float64
}

// Bytes is the size of a tile as pack_measure has it, a multiple of 64.
func (w PackedWord) Bytes() uint64 { return uint64(w) << 16 >> 24 }

// At is the word of a tile that pack_measure has described, where it is at an address.
func (w PackedWord) At(address uint64) PackedWord {
	return w&(0xffff<<48|0xff) | PackedWord(address)
}

var _ [48]byte = [unsafe.Sizeof(PackedChunk{})]byte{}
