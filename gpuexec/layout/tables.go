package layout

import (
	"unsafe"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/gpuexec/resident"
	"github.com/promwarp/promwarp/internal/parallel"
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
	Table, Wide, Rows, First, Groups, Starts Section // tables
	Bytes                                    Section // chunks whose slabs are not on the device
	Tables, Size                             int     // of all tables; and of everything
}

// newInput lays out the input of a batch whose series are in their places.
func newInput(b *Part) (in Input) {
	next := func(n int) Section { return Next(&in.Size, n) }
	in.Table = next(b.Total.Positions * Lanes * int(unsafe.Sizeof(abi.Entry{})))
	in.Wide = next(b.Total.wide * int(unsafe.Sizeof(abi.SeriesChunk{})))
	in.Rows = next(b.Total.Positions * 8)
	in.First = next((len(b.Sizes) + 1) * 4)
	in.Groups = next(len(b.Groups) * 4)
	in.Starts = next(len(b.starts) * 4)
	in.Tables = in.Size
	in.Bytes = next(b.Total.bytes)
	return in
}

// Output is the layout of what the kernels make of a batch.
type Output struct {
	Decoded, Times, Values, Windows Section
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
	if !r.Fuses {
		o.Decoded = next(b.Total.Positions * Lanes * int(unsafe.Sizeof(abi.Decoded{})))
		o.Times = next(b.Total.Rows * Lanes * 8)
		o.Values = next(b.Total.Rows * Lanes * 8)
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

// Absent is the address of a slab that is not on the device as a whole.
const Absent = 1<<64 - 1

// Fill writes the tables of a batch to buf. The chunks are where their slabs are, or
// from rest on, device addresses both, but written from origin on. It returns the
// transfers that bring the latter there.
func (y *Layout) Fill(b *Part, buf []byte, bases []uint64, rest, origin uint64) []resident.Transfer {
	in := b.In
	table, wide := As[abi.Entry](buf, in.Table), As[abi.SeriesChunk](buf, in.Wide)
	rows, first := As[uint64](buf, in.Rows), As[uint32](buf, in.First)
	copy(As[uint32](buf, in.Groups), b.Groups)
	copy(As[uint32](buf, in.Starts), b.starts)
	// Where each tile begins.
	starts := make([]TileSize, len(b.Sizes))
	var total TileSize
	for k := range starts {
		starts[k] = total
		first[k] = uint32(total.Positions)
		total.Add(b.Sizes[k])
	}
	first[len(starts)] = uint32(total.Positions)
	moved := make([][]resident.Transfer, len(starts))
	parallel.For(len(starts), func(k int) {
		at := starts[k]
		cs, positions := y.chunksOf(b, k)
		tile := table[at.Positions*Lanes:][:positions*Lanes]
		clear(tile)
		most := rows[at.Positions:][:positions] // samples, and then the first row
		clear(most)
		for lane := range cs {
			for p := range cs[lane] {
				c := &cs[lane][p]
				to := bases[c.Slab] + uint64(c.Off)
				if bases[c.Slab] == Absent {
					to = rest + uint64(at.bytes)
					whole := Aligned(int(c.Len), 8) // the device reads whole words
					moved[k] = append(moved[k], resident.Transfer{From: y.Sel.Bytes(*c)[:whole], To: to})
					at.bytes += whole
				}
				ref := abi.SeriesChunk{
					ChunkRef: abi.ChunkRef{Off: to - origin, Len: c.Len, Samples: uint32(c.Samples)}, From: c.MinT, To: c.MaxT,
				}
				if c.Enc == chunkenc.EncXOR2 {
					ref.Samples |= abi.XOR2
				}
				if abi.EntryFits(c.Len, c.MinT, c.MaxT, y.Since()) {
					tile[p*Lanes+lane] = ref.Entry(y.Since())
				} else {
					tile[p*Lanes+lane] = abi.WideEntry(uint32(at.wide))
					wide[at.wide] = ref
					at.wide++
				}
				most[p] = max(most[p], uint64(c.Samples))
			}
		}
		row := uint64(at.Rows)
		for p, n := range most {
			most[p] = row
			row += n
		}
	})
	var all []resident.Transfer
	for _, ts := range moved {
		all = append(all, ts...)
	}
	return all
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
