package layout

import (
	"unsafe"

	"github.com/promwarp/promwarp/kernels/abi"
)

// Section is a stretch of bytes of a buffer, at a multiple of 256.
type Section struct{ At, Size int }

// Next is a section of n bytes behind all that is taken, whose size it adds to.
func Next(size *int, n int) Section {
	s := Section{*size, n}
	*size += Aligned(n, 256)
	return s
}

// Aligned is the next multiple of a power of two.
func Aligned(n, to int) int { return (n + to - 1) &^ (to - 1) }

// Input is the layout of what is copied to the device for a batch.
type Input struct {
	Table, Wide, Rows, Packed, First, KeyRows, Lanes, Groups, Starts Section // tables
	Bytes                                                            Section // chunks whose slabs are not on the device
	Tables, Size                                                     int     // of all tables; and of everything
}

// newInput lays out the input of a batch whose series are in their places.
func newInput(b *Part, r Room) (in Input) {
	next := func(n int) Section { return Next(&in.Size, n) }
	if !r.Packed {
		in.Table = next(b.Total.Positions * Lanes * int(unsafe.Sizeof(abi.Entry{})))
		in.Wide = next(b.Total.wide * int(unsafe.Sizeof(abi.SeriesChunk{})))
		in.Rows = next(b.Total.Positions * 8)
	}
	in.Packed = next(b.Total.Positions * int(unsafe.Sizeof(abi.PackedWord(0))))
	in.First = next((len(b.Sizes) + 1) * 4)
	in.KeyRows = next((len(b.Sizes) + 1) * 8)
	in.Lanes = next(len(b.Series) * 4)
	in.Groups = next(len(b.Groups) * 4)
	in.Starts = next(len(b.starts) * 4)
	in.Tables = in.Size
	if !r.Packed {
		in.Bytes = next(b.Total.bytes)
	}
	return in
}

// Output is the layout of what the kernels make of a batch.
type Output struct {
	Decoded, Times, Values, Windows Section
	Packs, Words                    Section // what pack_measure says of chunks, and of tiles of them
	Suffix, Prefix                  Section // see launch.Panes
	Rest                            Section // what is copied back of rows
	Runs                            Section // states of runs
	Keys                            Section // of samples
	size                            int
}

// NewOutput lays out what a batch comes to.
func NewOutput(b *Part, r Room) Output {
	var o Output
	tiles := len(b.Sizes)
	next := func(n int) Section { return Next(&o.size, n) }
	if !r.Fuses && (!r.Packed || b.Bare) {
		o.Decoded = next(b.Total.Positions * Lanes * int(unsafe.Sizeof(abi.Decoded{})))
	}
	if !r.Fuses && !r.Packed {
		o.Times = next(b.Total.Rows * Lanes * 8)
		o.Values = next(b.Total.Rows * Lanes * 8)
		o.Packs = next(b.Total.Positions * Lanes * int(unsafe.Sizeof(abi.PackedChunk{})))
		o.Words = next(b.Total.Positions * int(unsafe.Sizeof(abi.PackedWord(0))))
	}
	o.Windows = next(tiles * r.Steps * Lanes * 8)
	o.Suffix = next(tiles * r.Panes)
	o.Prefix = next(tiles * r.Panes)
	o.Rest = next(tiles * r.Rest)
	o.Runs = next(tiles * r.Runs)
	if r.Keys {
		o.Keys = next(b.Total.Rows * Lanes * 8)
	}
	return o
}

// As views a section of a buffer as elements.
func As[T any](buf []byte, s Section) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(buf[s.At:]))), s.Size/int(unsafe.Sizeof(one)))
}

// Of views bytes as elements.
func Of[T any](b []byte) []T { return As[T](b, Section{Size: len(b)}) }

// BytesOf views elements as bytes.
func BytesOf[T any](s []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(one)))
}
