package gpuexec

import (
	"unsafe"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
)

// section is a stretch of bytes of a buffer, at a multiple of 256.
type section struct{ at, size int }

// input is the layout of what is copied to the device for a batch.
type input struct {
	from, to                                 int // tiles of series
	total                                    tileSize
	table, wide, rows, first, groups, starts section // tables
	bytes                                    section // chunks whose slabs are not on the device
	tables, size                             int     // of all tables; and of everything
}

// newInput lays out the input of a batch whose series are in their places.
func newInput(b *batch) input {
	in := input{to: len(b.tiles), total: b.total}
	next := func(n int) section {
		s := section{in.size, n}
		in.size += aligned(n, 256)
		return s
	}
	in.table = next(b.total.positions * lanes * int(unsafe.Sizeof(abi.Entry{})))
	in.wide = next(b.total.wide * int(unsafe.Sizeof(abi.SeriesChunk{})))
	in.rows = next(b.total.positions * 8)
	in.first = next((len(b.tiles) + 1) * 4)
	in.groups = next(len(b.groups) * 4)
	in.starts = next(len(b.starts) * 4)
	in.tables = in.size
	in.bytes = next(b.total.bytes)
	return in
}

// output is the layout of what the kernels make of a batch.
type output struct {
	decoded, times, values, windows, reads section
	suffix, prefix                         section // see Panes
	pieces                                 section // see rows.go
	size                                   int
}

func newOutput(in input, r room) output {
	var o output
	next := func(n int) section {
		s := section{o.size, n}
		o.size += aligned(n, 256)
		return s
	}
	if !r.fuses {
		o.decoded = next(in.total.positions * lanes * int(unsafe.Sizeof(abi.Decoded{})))
		o.times = next(in.total.rows * lanes * 8)
		o.values = next(in.total.rows * lanes * 8)
	}
	o.windows = next((in.to - in.from) * r.steps * lanes * 8)
	o.reads = next((in.to - in.from) * r.steps * lanes * 8)
	o.suffix = next((in.to - in.from) * r.panes)
	o.prefix = next((in.to - in.from) * r.panes)
	o.pieces = next((in.to - in.from) * r.pieces)
	return o
}

// absent is the address of a slab that is not on the device as a whole.
const absent = 1<<64 - 1

// fill writes the tables of a batch to buf. The chunks are where their slabs are, or
// from rest on, device addresses both, but written from origin on. It returns the
// transfers that bring the latter there.
func (y *layout) fill(b *batch, buf []byte, bases []uint64, rest, origin uint64) []transfer {
	in := b.in
	table, wide := as[abi.Entry](buf, in.table), as[abi.SeriesChunk](buf, in.wide)
	rows, first := as[uint64](buf, in.rows), as[uint32](buf, in.first)
	copy(as[uint32](buf, in.groups), b.groups)
	copy(as[uint32](buf, in.starts), b.starts)
	// Where each tile begins.
	starts := make([]tileSize, len(b.tiles))
	var total tileSize
	for k := range starts {
		starts[k] = total
		first[k] = uint32(total.positions)
		total.add(b.tiles[k])
	}
	first[len(starts)] = uint32(total.positions)
	moved := make([][]transfer, len(starts))
	parallel.For(len(starts), func(k int) {
		at := starts[k]
		cs, positions := y.chunksOf(b, k)
		tile := table[at.positions*lanes:][:positions*lanes]
		clear(tile)
		most := rows[at.positions:][:positions] // samples, and then the first row
		clear(most)
		for lane := range cs {
			for p := range cs[lane] {
				c := &cs[lane][p]
				to := bases[c.Slab] + uint64(c.Off)
				if bases[c.Slab] == absent {
					to = rest + uint64(at.bytes)
					whole := aligned(int(c.Len), 8) // the device reads whole words
					moved[k] = append(moved[k], transfer{y.sel.Bytes(*c)[:whole], to})
					at.bytes += whole
				}
				ref := abi.SeriesChunk{
					ChunkRef: abi.ChunkRef{Off: to - origin, Len: c.Len, Samples: uint32(c.Samples)}, From: c.MinT, To: c.MaxT,
				}
				if c.Enc == chunkenc.EncXOR2 {
					ref.Samples |= abi.XOR2
				}
				if abi.EntryFits(c.Len, c.MinT, c.MaxT, y.since()) {
					tile[p*lanes+lane] = ref.Entry(y.since())
				} else {
					tile[p*lanes+lane] = abi.WideEntry(uint32(at.wide))
					wide[at.wide] = ref
					at.wide++
				}
				most[p] = max(most[p], uint64(c.Samples))
			}
		}
		row := uint64(at.rows)
		for p, n := range most {
			most[p] = row
			row += n
		}
	})
	var all []transfer
	for _, ts := range moved {
		all = append(all, ts...)
	}
	return all
}

// as views a section of a buffer as elements.
func as[T any](buf []byte, s section) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(buf[s.at:]))), s.size/int(unsafe.Sizeof(one)))
}

// bytesOf views elements as bytes.
func bytesOf[T any](s []T) []byte {
	var one T
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(s))), len(s)*int(unsafe.Sizeof(one)))
}
