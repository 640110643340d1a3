package gpuexec

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/promwarp/promwarp/cpuexec"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/selection"
)

const lanes = abi.TileChunks

// layout says where each series and chunk of a leaf goes on the device. It cuts the
// series, in their order, into batches. Within a batch they have places in the order
// of their groups and, within a group, their own, so that groups are stretches of
// places; 32 places are a tile. Groups get their series in order, one batch after
// the other, and neighbouring series, whose chunks lie in the same slabs, are copied
// together.
//
// It is made batch by batch, while the first are under way already, and kept with
// the selection for jobs that read the same chunks.
type layout struct {
	sel        *selection.Selection
	mint, maxt int64 // ms, both included
	groupOf    []int32
	groups     int
	room       room

	mu      sync.Mutex
	batches []*batch
	err     error
	places  []uint32 // of each series
	cost    int      // of a series, in bytes of device memory, as the last batch had it
	most    int      // series that may fit into a batch
}

// layoutKey is what a layout depends on besides the selection.
type layoutKey struct {
	x          *Executor
	groupOf    *int32
	mint, maxt int64
	room       room
}

// batch is a part of a layout's series.
type batch struct {
	number  int
	from    int      // its first series
	base    int      // its first place among those of all batches
	series  []uint32 // at each of its places
	groups  []uint32 // that have a part in it
	starts  []uint32 // the first place of each of them, and the number of places
	tiles   []tileSize
	total   tileSize
	slabs   []slabUse
	in      input
	onStore *tables // where its tables are on the device, or nil
}

// tables are a batch's tables on the device, and the slabs that they speak of.
type tables struct {
	at    *block
	slabs []*block
}

// slabUse is what a batch needs of a slab.
type slabUse struct {
	slab  int
	bytes int64
	kept  bool // by whoever keeps the selection
}

// tileSize is what a tile of series takes.
type tileSize struct {
	positions int // tiles of chunks
	rows      int
	bytes     int // of chunks, as they are laid out where their slabs are not
	encoded   int // of chunks
	chunks    int
	wide      int // of them that do not fit into an entry
	samples   int64
}

func (t *tileSize) add(o tileSize) {
	t.positions += o.positions
	t.rows += o.rows
	t.bytes += o.bytes
	t.encoded += o.encoded
	t.chunks += o.chunks
	t.wide += o.wide
	t.samples += o.samples
}

// layoutOf returns the layout of a leaf's chunks.
func layoutOf(x *Executor, l *cpuexec.Leaf, r room) *layout {
	key := layoutKey{x: x, groupOf: &l.GroupOf[0], room: r}
	key.mint, key.maxt = l.Window.Reads(l.Grid)
	return selection.Note(l.Selection.Notes(), key, func() *layout {
		y := &layout{
			sel: l.Selection, mint: key.mint, maxt: key.maxt, groupOf: l.GroupOf, groups: l.Groups, room: r,
			places: make([]uint32, len(l.GroupOf)), most: len(l.GroupOf),
		}
		y.cost = 16*int(y.sel.NumSamples())/len(l.GroupOf) + 64*y.sel.NumChunks()/len(l.GroupOf) + 8*r.steps
		runtime.AddCleanup(y, func(s *store) { s.died.Store(true) }, x.store)
		return y
	})
}

// SizeBytes implements selection.Sized. It is the host memory that the layout takes once
// it has all its batches.
func (y *layout) SizeBytes() int64 {
	n := int64(len(y.places))
	tiles := (n + lanes - 1) / lanes
	groups := min(n, int64(y.groups)+tiles) // a group has parts in several batches
	return int64(unsafe.Sizeof(*y)) + int64(unsafe.Sizeof(batch{})) + 4*(2*n+2*groups) + tiles*int64(unsafe.Sizeof(tileSize{}))
}

// since is the time that entries count from, in ms: a little before what is read, as
// the first chunks are.
func (y *layout) since() int64 { return y.mint - abi.EntrySpan }

// batch returns batch n, or nil behind the last.
func (y *layout) batch(n int) (*batch, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	from, base := 0, 0
	if len(y.batches) > 0 {
		last := y.batches[len(y.batches)-1]
		from, base = last.from+len(last.series), last.base+len(last.tiles)*lanes
	}
	for n == len(y.batches) && from < len(y.groupOf) && y.err == nil {
		if b := y.plan(n, from, y.length(n, len(y.groupOf)-from)); b != nil {
			b.base = base
			for place, series := range b.series {
				y.places[series] = uint32(base + place)
			}
			y.batches = append(y.batches, b)
		}
	}
	if n < len(y.batches) {
		return y.batches[n], nil
	}
	return nil, y.err
}

// length is how many of the series that are left go into batch n. The first batches
// are short, so that the device has something to do soon, and the last, because
// nothing is copied while it is computed.
func (y *layout) length(n, left int) int {
	full := y.room.goal / max(y.cost, 1)
	short := full >> max(3-n, 0)
	n = min(max(min(short, left/2), full/8), y.most)
	return min(aligned(max(n, 1), lanes), left)
}

// plan makes a batch of the series from from on, fewer than n of them if so many do
// not fit. It returns nil if it is to be tried again, or y.err is set.
func (y *layout) plan(number, from, n int) *batch {
	b := &batch{number: number, from: from}
	b.sort(y.groupOf[from:from+n], y.groups)
	b.tiles = make([]tileSize, (n+lanes-1)/lanes)
	use := make([]useCount, y.sel.NumSlabs())
	parallel.For(len(b.tiles), func(k int) { b.tiles[k] = y.size(b, k, use) })
	for _, t := range b.tiles {
		b.total.add(t)
	}
	b.in = newInput(b)
	size := b.in.size + newOutput(b.in, y.room).size
	if b.in.tables > y.room.tables || size > y.room.device {
		if n <= lanes {
			y.err = &Unsuited{Reason: fmt.Sprintf("%d series alone need more memory than the executor has on the device", lanes)}
		}
		y.most = n / 2 &^ (lanes - 1)
		return nil
	}
	y.cost, y.most = size/n, 2*max(n, y.most)
	for k := range use {
		if n := use[k].bytes.Load(); n > 0 {
			b.slabs = append(b.slabs, slabUse{k, n, use[k].kept.Load()})
		}
	}
	return b
}

// sort puts the series of a batch, whose groups are given, in their places.
func (b *batch) sort(groupOf []int32, groups int) {
	b.series = make([]uint32, len(groupOf))
	if groups <= 4*len(groupOf) {
		next := make([]uint32, groups+1)
		for _, g := range groupOf {
			next[g+1]++
		}
		for g := range groups {
			if next[g+1] > 0 {
				b.groups, b.starts = append(b.groups, uint32(g)), append(b.starts, next[g])
			}
			next[g+1] += next[g]
		}
		for i, g := range groupOf {
			b.series[next[g]] = uint32(b.from + i)
			next[g]++
		}
	} else {
		keys := make([]uint64, len(groupOf))
		for i, g := range groupOf {
			keys[i] = uint64(g)<<32 | uint64(b.from+i)
		}
		slices.Sort(keys)
		for place, key := range keys {
			b.series[place] = uint32(key)
			if g := uint32(key >> 32); place == 0 || g != b.groups[len(b.groups)-1] {
				b.groups, b.starts = append(b.groups, g), append(b.starts, uint32(place))
			}
		}
	}
	b.starts = append(b.starts, uint32(len(groupOf)))
}

// chunksOf returns the chunks of each series of a batch's tile, and the number of
// positions, one at least.
func (y *layout) chunksOf(b *batch, tile int) (cs [lanes][]selection.Chunk, positions int) {
	positions = 1
	for lane, s := range b.series[tile*lanes : min((tile+1)*lanes, len(b.series))] {
		cs[lane] = y.sel.Overlapping(int(s), y.mint, y.maxt)
		positions = max(positions, len(cs[lane]))
	}
	return cs, positions
}

// useCount adds up what a batch needs of a slab.
type useCount struct {
	bytes atomic.Int64
	kept  atomic.Bool
}

// size measures a tile, and adds what it needs of slabs.
func (y *layout) size(b *batch, tile int, use []useCount) (t tileSize) {
	cs, positions := y.chunksOf(b, tile)
	t.positions = positions
	rows := make([]uint16, positions)
	kept := y.sel.KeptUntil()
	for lane := range cs {
		slab, bytes := uint32(0), 0 // of neighbours in the same one
		for p := range cs[lane] {
			c := &cs[lane][p]
			rows[p] = max(rows[p], c.Samples)
			t.samples += int64(c.Samples)
			t.encoded += int(c.Len)
			t.bytes += aligned(int(c.Len), 8)
			t.chunks++
			if !abi.EntryFits(c.Len, c.MinT, c.MaxT, y.since()) {
				t.wide++
			}
			if c.Slab != slab {
				use[slab].bytes.Add(int64(bytes))
				slab, bytes = c.Slab, 0
			}
			bytes += int(c.Len)
			if c.MinT < kept && bytes == int(c.Len) && !use[slab].kept.Load() {
				use[slab].kept.Store(true)
			}
		}
		if bytes > 0 {
			use[slab].bytes.Add(int64(bytes))
		}
	}
	for _, n := range rows {
		t.rows += int(n)
	}
	return t
}

// place finds a chunk by its number in a batch: its series, and the chunk.
func (y *layout) place(b *batch, number int) (series int, c selection.Chunk) {
	tile, position := 0, number/lanes
	for position >= b.tiles[tile].positions {
		position -= b.tiles[tile].positions
		tile++
	}
	cs, _ := y.chunksOf(b, tile)
	return int(b.series[tile*lanes+number%lanes]), cs[number%lanes][position]
}
