package gpuexec

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/kernels"
	"github.com/promwarp/promwarp/selection"
)

const lanes = kernels.TileChunks

// layout says where each series and chunk of a leaf goes on the device. Series
// have places in the order of their groups and, within a group, their own, so
// that groups are stretches of places; 32 places are a tile.
type layout struct {
	sel        *selection.Selection
	mint, maxt int64    // ms, both included
	bytes      bool     // chunk bytes are copied; else they are on the device already
	series     []uint32 // at each place
	first      []uint32 // place of each group, and the number of places
	tiles      []tileSize
	panes      int // bytes that the panes of a tile take, twice
}

// tileSize is what a tile of series takes.
type tileSize struct {
	positions int // tiles of chunks
	rows      int
	bytes     int // of chunks, as they are laid out
	encoded   int // of chunks
	chunks    int
	samples   int64
}

func (t *tileSize) add(o tileSize) {
	t.positions += o.positions
	t.rows += o.rows
	t.bytes += o.bytes
	t.encoded += o.encoded
	t.chunks += o.chunks
	t.samples += o.samples
}

// newLayout lays out the chunks of a leaf.
func newLayout(l *cpuexec.Leaf, bytes bool) *layout {
	y := &layout{sel: l.Selection, bytes: bytes}
	y.mint, y.maxt = l.Window.Reads(l.Grid)
	y.series, y.first = make([]uint32, len(l.GroupOf)), make([]uint32, l.Groups+1)
	for _, g := range l.GroupOf {
		y.first[g+1]++
	}
	for g := range l.Groups {
		y.first[g+1] += y.first[g]
	}
	next := append([]uint32(nil), y.first...)
	for i, g := range l.GroupOf {
		y.series[next[g]] = uint32(i)
		next[g]++
	}
	y.tiles = make([]tileSize, (len(y.series)+lanes-1)/lanes)
	inParallel(len(y.tiles), func(k int) { y.tiles[k] = y.size(k) })
	return y
}

// chunksOf returns the chunks of each series of a tile, and the number of positions.
func (y *layout) chunksOf(tile int) (cs [lanes][]selection.Chunk, positions int) {
	for lane, s := range y.series[tile*lanes : min((tile+1)*lanes, len(y.series))] {
		cs[lane] = y.sel.Overlapping(int(s), y.mint, y.maxt)
		positions = max(positions, len(cs[lane]))
	}
	return cs, positions
}

func (y *layout) size(tile int) (t tileSize) {
	cs, positions := y.chunksOf(tile)
	t.positions = positions
	rows := make([]uint16, positions)
	for lane := range cs {
		for p := range cs[lane] {
			c := &cs[lane][p]
			rows[p] = max(rows[p], c.Samples)
			t.samples += int64(c.Samples)
			t.encoded += int(c.Len)
			t.chunks++
			if y.bytes {
				t.bytes += aligned(int(c.Len), 8)
			}
		}
	}
	for _, n := range rows {
		t.rows += int(n)
	}
	return t
}

// aligned is the next multiple of a power of two.
func aligned(n, to int) int { return (n + to - 1) &^ (to - 1) }

// section is a stretch of bytes of a buffer, at a multiple of 256.
type section struct{ at, size int }

// input is the layout of what is copied to the device for a batch.
type input struct {
	from, to                 int // tiles of series
	total                    tileSize
	refs, rows, first, bytes section
	size                     int
}

// newInput lays out the tiles from to to, which take total.
func newInput(from, to int, total tileSize) input {
	in := input{from: from, to: to, total: total}
	next := func(n int) section {
		s := section{in.size, n}
		in.size += aligned(n, 256)
		return s
	}
	in.refs = next(total.positions * lanes * int(unsafe.Sizeof(kernels.SeriesChunk{})))
	in.rows = next(total.positions * 8)
	in.first = next((to - from + 1) * 4)
	in.bytes = next(total.bytes)
	return in
}

// output is the layout of what the kernels make of a batch.
type output struct {
	decoded, times, values, windows, reads section
	suffix, prefix                         section // see Panes
	size                                   int
}

func newOutput(in input, steps, panes int) output {
	var o output
	next := func(n int) section {
		s := section{o.size, n}
		o.size += aligned(n, 256)
		return s
	}
	o.decoded = next(in.total.positions * lanes * int(unsafe.Sizeof(kernels.Decoded{})))
	o.times = next(in.total.rows * lanes * 8)
	o.values = next(in.total.rows * lanes * 8)
	o.windows = next((in.to - in.from) * steps * lanes * 8)
	o.reads = next((in.to - in.from) * steps * lanes * 8)
	o.suffix = next((in.to - in.from) * panes)
	o.prefix = next((in.to - in.from) * panes)
	return o
}

// batches cuts the tiles into batches of which each takes at most staging bytes
// of input, and on the device at most so many bytes in all.
func (y *layout) batches(steps, staging, device int) ([]input, error) {
	var out []input
	for from := 0; from < len(y.tiles); {
		var total tileSize
		var in input
		to := from
		for to < len(y.tiles) {
			more := total
			more.add(y.tiles[to])
			next := newInput(from, to+1, more)
			if next.size > staging || next.size+newOutput(next, steps, y.panes).size > device {
				break
			}
			in, total = next, more
			to++
		}
		if to == from {
			return nil, &Unsuited{fmt.Sprintf("%d series alone need more memory than the executor has on the device", lanes)}
		}
		out = append(out, in)
		from = to
	}
	return out, nil
}

// fill writes the input of a batch to buf. The chunks' offsets are those in a
// resident selection, or else from the section of bytes on.
func (y *layout) fill(in input, buf []byte, bases []uint64) {
	refs := as[kernels.SeriesChunk](buf, in.refs)
	rows, first := as[uint64](buf, in.rows), as[uint32](buf, in.first)
	bytes := buf[in.bytes.at:][:in.bytes.size]
	// Where each tile begins.
	starts := make([]tileSize, in.to-in.from)
	var total tileSize
	for k := range starts {
		starts[k] = total
		first[k] = uint32(total.positions)
		total.add(y.tiles[in.from+k])
	}
	first[len(starts)] = uint32(total.positions)
	inParallel(len(starts), func(k int) {
		at := starts[k]
		cs, positions := y.chunksOf(in.from + k)
		tile := refs[at.positions*lanes:][:positions*lanes]
		clear(tile)
		most := rows[at.positions:][:positions] // samples, and then the first row
		clear(most)
		// The chunks of one series lie behind each other here as they do there.
		for lane := range cs {
			for p := range cs[lane] {
				c := &cs[lane][p]
				ref := &tile[p*lanes+lane]
				ref.Len, ref.Samples, ref.From, ref.To = c.Len, uint32(c.Samples), c.MinT, c.MaxT
				if c.Enc == chunkenc.EncXOR2 {
					ref.Samples |= kernels.XOR2
				}
				most[p] = max(most[p], uint64(c.Samples))
				if bases != nil {
					ref.Off = bases[c.Slab] + uint64(c.Off)
					continue
				}
				ref.Off = uint64(at.bytes)
				copy(bytes[at.bytes:], y.sel.Bytes(*c))
				at.bytes += aligned(int(c.Len), 8)
			}
		}
		row := uint64(at.rows)
		for p, n := range most {
			most[p] = row
			row += n
		}
	})
}

// places are the places of a batch, and the groups that have a part in it.
func (y *layout) places(in input) Places {
	p := Places{Base: uint32(in.from * lanes)}
	end := min(uint32(in.to*lanes), uint32(len(y.series)))
	p.Count = end - p.Base
	groups := y.first[:len(y.first)-1]
	after, _ := slices.BinarySearch(groups, p.Base+1)
	p.From = uint32(after - 1)
	to, _ := slices.BinarySearch(groups, end)
	p.To = uint32(to)
	return p
}

// place finds a chunk by its number in a batch: its series, and the chunk.
func (y *layout) place(in input, number int) (series int, c selection.Chunk) {
	tile, position := in.from, number/lanes
	for position >= y.tiles[tile].positions {
		position -= y.tiles[tile].positions
		tile++
	}
	cs, _ := y.chunksOf(tile)
	return int(y.series[tile*lanes+number%lanes]), cs[number%lanes][position]
}

// as views a section of a buffer as elements.
func as[T any](buf []byte, s section) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(buf[s.at:]))), s.size/int(unsafe.Sizeof(one)))
}

// inParallel calls f for every i below n from a goroutine a core.
func inParallel(n int, f func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	if workers <= 1 {
		for i := range n {
			f(i)
		}
		return
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}
