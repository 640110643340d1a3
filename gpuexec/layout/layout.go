// Package layout says where each series and chunk of a job goes on a device. A Layout cuts the
// series into batches (Part) and these into tiles of 32, one a warp's lane; Fill writes the tables
// that tell kernels where chunks are. A layout is kept with the selection. Start reading at Layout.
package layout

import (
	"fmt"
	"hash/maphash"
	"iter"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/prometheus/prometheus/tsdb/chunkenc"

	"github.com/promwarp/promwarp/gpuexec/resident"
	"github.com/promwarp/promwarp/internal/parallel"
	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/selection"
)

// Lanes is the number of series of a tile.
const Lanes = abi.TileChunks

// Room is the memory in bytes that a batch may take.
type Room struct {
	Tables int // for what says where chunks are
	Device int // in all
	Goal   int // in all, for good batches: enough to fill a device, and several to overlap; 0 is none
	Steps  int
	Panes  int  // bytes that the panes of a tile take, twice
	Rest   int  // bytes that what is copied back of a tile takes on the device, besides its windows
	Back   int  // bytes of what is copied back of a tile by way of the memory that tables are put together in
	Runs   int  // bytes that the states of a tile's runs take
	Keys   bool // samples have keys of their order
	Fuses  bool // samples are not stored
	Long   bool // windows share much, so that all of a large job may take seconds
	Packed bool // all are in packed tiles: there are no columns
}

// Selected are the series that a job reads, and their groups.
type Selected struct {
	Sel     *selection.Selection
	GroupOf []int32 // of each series; at least one
	Groups  int
	// Samples of From to To (ms, both included) are read.
	From, To int64
}

// Layout says where each series and chunk of a job goes on the device. It cuts the
// series, in their order, into batches. 32 neighbours are the lanes of a tile. Groups
// do not matter for that, so that what is packed of them serves other groups, too, and neighbouring
// series, whose chunks lie in the same slabs, are copied together. Within a batch series also
// have places in the order of their groups and, within a group, their own: groups are
// stretches of places, and get their series in order, one batch after the other.
//
// It is made batch by batch, while the first are under way already, and kept with
// the selection for jobs that read the same chunks.
type Layout struct {
	Selected
	Room Room

	mu      sync.Mutex
	batches []*Part
	err     error
	cost    int // of a series, in bytes of device memory, as the last batch had it
	most    int // series that may fit into a batch, at least a tile's
}

// ErrNoRoom is the error of a job of whose series too few fit into a batch.
var ErrNoRoom = fmt.Errorf("%d series alone need more memory than the executor has on the device", Lanes)

// layoutKey is what a layout depends on besides the selection.
type layoutKey struct {
	store      *resident.Store
	groupOf    *int32
	mint, maxt int64
	room       Room
}

// Part is a part of a layout's series.
type Part struct {
	Number   int
	Base     int        // its first series, which those before it make a multiple of a tile's
	Series   []uint32   // at each of its places
	uses     []SlabUse  // where nothing is packed; nil until it is asked for
	Groups   []uint32   // that have a part in it
	starts   []uint32   // the first place of each of them, and the number of places
	Sizes    []TileSize // of its tiles
	Total    TileSize
	Blocks   []Block // of all tiles, in the order of their positions; none where samples are not stored
	Bare     bool    // a tile has no blocks: its lanes have no chunks, or samples are not stored
	In       Input
	Resident *Tables // where its tables are on the device, or nil
}

// Block is what a tile of series has in a period: what is packed at once, to stay on the device.
type Block struct {
	Key      uint64 // another for other chunks, or for the same in other places
	From, To int    // tiles of chunks of the batch
	Slab     uint32 // of one of its chunks
}

// period is how long that is, in ms: chunks that lie in one by their first sample come into the same rows,
// whichever time range a job reads.
const period = 12 * 60 * 60 * 1000

// Tables are a batch's tables on the device, all that is needed of them there: the slabs and packed tiles that
// they speak of, and themselves; and the numbers of the blocks that are not packed.
type Tables struct {
	At       *resident.Block
	Of       []*resident.Block
	Unpacked []int
}

// SlabUse is what a batch needs of a slab.
type SlabUse struct {
	Slab  int
	Bytes int64
}

// New returns the layout of a job's chunks on the device that has the store.
func New(store *resident.Store, s Selected, r Room) *Layout {
	key := layoutKey{store: store, groupOf: &s.GroupOf[0], mint: s.From, maxt: s.To, room: r}
	return selection.Note(s.Sel.Notes, key, func() *Layout {
		n := len(s.GroupOf)
		y := &Layout{Selected: s, Room: r, most: n}
		// Besides its samples and runs, a series has its windows, or rows of at least as many values.
		y.cost = max(8*r.Steps, r.Rest/Lanes) + r.Runs/Lanes
		if !r.Packed {
			y.cost += 16*int(y.Sel.NumSamples())/n + 64*y.Sel.NumChunks()/n
		}
		return y
	})
}

// SizeBytes implements selection.Sized. It is the host memory that the layout takes once
// it has all its batches.
func (y *Layout) SizeBytes() int64 {
	n := int64(len(y.GroupOf))
	tiles := (n + Lanes - 1) / Lanes
	groups := min(n, int64(y.Groups)+tiles) // a group has parts in several batches
	periods := max(0, y.To-y.From)/period + 2
	return int64(unsafe.Sizeof(*y)) + int64(unsafe.Sizeof(Part{})) + 4*(n+2*groups) +
		tiles*(int64(unsafe.Sizeof(TileSize{}))+periods*int64(unsafe.Sizeof(Block{})))
}

// Since is the time that entries count from, in ms: a little before what is read, as
// the first chunks are.
func (y *Layout) Since() int64 { return y.From - abi.EntrySpan }

// Batch returns batch n, or nil behind the last.
func (y *Layout) Batch(n int) (*Part, error) {
	y.mu.Lock()
	defer y.mu.Unlock()
	from := 0
	if len(y.batches) > 0 {
		last := y.batches[len(y.batches)-1]
		from = last.Base + len(last.Series)
	}
	for n == len(y.batches) && from < len(y.GroupOf) && y.err == nil {
		if b := y.plan(n, from, y.length(n, len(y.GroupOf)-from)); b != nil {
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
func (y *Layout) length(n, left int) int {
	if y.Room.Goal == 0 {
		return min(left, y.most)
	}
	full := y.Room.Goal / max(y.cost, 1)
	if y.Room.Packed && y.Room.Rest > 0 {
		full = min(full, len(y.GroupOf)/8) // rows of one are copied back while the next is computed
	}
	short := full >> max(3-n, 0)
	n = min(max(min(short, left/2), full/8), y.most)
	return min(Aligned(max(n, 1), Lanes), left)
}

// plan makes a batch of the series from from on, fewer than n of them if n do
// not fit. It returns nil if it is to be tried again, or y.err is set.
func (y *Layout) plan(number, from, n int) *Part {
	b := &Part{Number: number, Base: from}
	b.sort(y.GroupOf[from:from+n], y.Groups)
	b.Sizes = make([]TileSize, (n+Lanes-1)/Lanes)
	blocks := make([][]Block, len(b.Sizes))
	parallel.For(len(b.Sizes), func(k int) { b.Sizes[k], blocks[k] = y.size(b, k) })
	for k, t := range b.Sizes {
		b.Bare = b.Bare || len(blocks[k]) == 0
		for _, block := range blocks[k] {
			block.From += b.Total.Positions
			block.To += b.Total.Positions
			b.Blocks = append(b.Blocks, block)
		}
		b.Total.Add(t)
	}
	b.In = newInput(b, y.Room)
	size := b.In.Size + NewOutput(b, y.Room).size
	back := y.Room.Back*len(b.Sizes) + 16*y.Room.Steps + 64 // two counts a step
	if max(b.In.Tables, back) > y.Room.Tables || size > y.Room.Device {
		if n <= Lanes {
			y.err = ErrNoRoom
		}
		y.most = max(n/2&^(Lanes-1), Lanes)
		return nil
	}
	y.cost, y.most = size/n, 2*max(n, y.most)
	return b
}

// sort puts the series of a batch, whose groups are given, in their places.
func (b *Part) sort(groupOf []int32, groups int) {
	first, order := byGroup(groupOf, groups)
	for i := range order {
		order[i] += uint32(b.Base)
	}
	b.Series = order
	for g := range groups {
		if first[g] < first[g+1] {
			b.Groups, b.starts = append(b.Groups, uint32(g)), append(b.starts, first[g])
		}
	}
	b.starts = append(b.starts, uint32(len(groupOf)))
}

// chunksOf returns the chunks of each series of a batch's tile by their positions, where each period
// begins among these, and the number of positions, one at least. A lane may have fewer.
func (y *Layout) chunksOf(b *Part, tile int) (cs [Lanes][]selection.Chunk, periods []int, positions int) {
	for lane := range min(Lanes, len(b.Series)-tile*Lanes) {
		cs[lane] = y.Sel.Overlapping(b.Base+tile*Lanes+lane, y.From, y.To)
		positions = max(positions, len(cs[lane]))
	}
	if !y.Room.Fuses {
		periods, positions = align(&cs)
	}
	return cs, periods, max(positions, 1)
}

// align puts gaps between the chunks of lanes, so that all lanes begin each period at one position, and
// returns these and the number of positions. Lanes without gaps are not copied.
func align(cs *[Lanes][]selection.Chunk) (periods []int, positions int) {
	of := func(c selection.Chunk) int64 { return c.MinT / period }
	from := *cs
	var next [Lanes]int // chunks of from before it are in their places
	*cs = [Lanes][]selection.Chunk{}
	for {
		now, width := int64(math.MaxInt64), 0
		for lane, l := range from {
			if next[lane] < len(l) {
				now = min(now, of(l[next[lane]]))
			}
		}
		if now == math.MaxInt64 {
			return periods, positions
		}
		periods = append(periods, positions)
		for lane, l := range from {
			first, n := next[lane], next[lane]
			for n < len(l) && of(l[n]) == now {
				n++
			}
			if next[lane] = n; first == positions {
				cs[lane] = l[:n:n] // so that what is put behind goes to a copy
			} else if n > first {
				gap := positions - len(cs[lane])
				cs[lane] = append(append(cs[lane], make([]selection.Chunk, gap)...), l[first:n]...)
			}
			width = max(width, n-first)
		}
		positions += width
	}
}

// seed is that of keys.
var seed = maphash.MakeSeed()

// key is that of a block with some positions of a tile: of its chunks, and of where those before it end in
// lanes that have none at first, which is packed in the place of a chunk.
func (y *Layout) key(cs *[Lanes][]selection.Chunk, from, to int) (key uint64) {
	type chunk struct {
		before  uint64 // the key of what is before it
		origin  selection.Origin
		lane, p int
	}
	type gap struct {
		before uint64
		end    int64
		lane   int
	}
	for lane, l := range cs {
		if c := y.at(l, from); c.Len == 0 && c.MaxT > y.Since() {
			key = maphash.Comparable(seed, gap{key, c.MaxT, lane})
		}
		for p := from; p < min(to, len(l)); p++ {
			if c := l[p]; c.Len > 0 {
				key = maphash.Comparable(seed, chunk{key, y.Sel.Origin(c), lane, p - from})
			}
		}
	}
	return key
}

// passed is what stands for a chunk where the lane has none: it has the end of the one before, so that
// those of all positions ascend.
func (y *Layout) passed(l []selection.Chunk, p int) selection.Chunk {
	for p = min(p, len(l)); p > 0; p-- {
		if c := l[p-1]; c.Len > 0 {
			return selection.Chunk{MinT: c.MaxT, MaxT: c.MaxT}
		}
	}
	return selection.Chunk{MinT: y.Since(), MaxT: y.Since()}
}

// at is the chunk of a lane at a position.
func (y *Layout) at(l []selection.Chunk, p int) selection.Chunk {
	if p < len(l) && l[p].Len > 0 {
		return l[p]
	}
	return y.passed(l, p)
}

// Locate finds a chunk by its number in a batch: its series, and the chunk.
func (y *Layout) Locate(b *Part, number int) (series int, c selection.Chunk) {
	tile, position := 0, number/Lanes
	for position >= b.Sizes[tile].Positions {
		position -= b.Sizes[tile].Positions
		tile++
	}
	cs, _, _ := y.chunksOf(b, tile)
	return b.Base + tile*Lanes + number%Lanes, cs[number%Lanes][position]
}

// Members are all series by group: those of group g are members[first[g]:first[g+1]], in their order.
func (y *Layout) Members() (first, members []uint32) { return byGroup(y.GroupOf, y.Groups) }

// byGroup sorts series, whose groups are given, by these: those of group g are
// order[first[g]:first[g+1]].
func byGroup(groupOf []int32, groups int) (first, order []uint32) {
	first = make([]uint32, groups+1)
	for _, g := range groupOf {
		first[g+1]++
	}
	for g := range groups {
		first[g+1] += first[g]
	}
	next, order := slices.Clone(first), make([]uint32, len(groupOf))
	for i, g := range groupOf {
		order[next[g]] = uint32(i)
		next[g]++
	}
	return first, order
}

// TileSize is what a tile of series takes.
type TileSize struct {
	Positions int // tiles of chunks
	Rows      int // of columns
	bytes     int // of chunks, as they are laid out where their slabs are not
	Encoded   int // of chunks
	Chunks    int
	wide      int // of them that do not fit into an entry
	Samples   int64
}

// Add adds the size of another tile.
func (t *TileSize) Add(o TileSize) {
	t.Positions += o.Positions
	t.Rows += o.Rows
	t.bytes += o.bytes
	t.Encoded += o.Encoded
	t.Chunks += o.Chunks
	t.wide += o.wide
	t.Samples += o.Samples
}

// size measures a tile and says what its blocks are, whose positions it counts from the tile's first.
func (y *Layout) size(b *Part, tile int) (t TileSize, blocks []Block) {
	cs, periods, positions := y.chunksOf(b, tile)
	t.Positions = positions
	rows := make([]uint16, positions)
	for lane := range cs {
		for p := range positions {
			c := y.at(cs[lane], p)
			if !abi.EntryFits(c.Len, uint32(c.Samples), c.MinT, c.MaxT, y.Since()) {
				t.wide++
			}
			if c.Len == 0 {
				continue
			}
			rows[p] = max(rows[p], c.Samples)
			t.Samples += int64(c.Samples)
			t.Encoded += int(c.Len)
			t.bytes += Aligned(int(c.Len), 8)
			t.Chunks++
		}
	}
	for _, n := range rows {
		t.Rows += int(n)
	}
	for i, from := range periods {
		to := positions
		if i+1 < len(periods) {
			to = periods[i+1]
		}
		block := Block{Key: y.key(&cs, from, to), From: from, To: to}
		for _, l := range cs {
			if from < len(l) && l[from].Len > 0 {
				block.Slab = l[from].Slab
				break
			}
		}
		blocks = append(blocks, block)
	}
	return t, blocks
}

// Slabs is what a batch needs of slabs for the tiles of chunks that have no word. One call may run at a time.
func (y *Layout) Slabs(b *Part, words []abi.PackedWord) (all []SlabUse) {
	fresh := !slices.ContainsFunc(words, func(w abi.PackedWord) bool { return w != 0 })
	if fresh && b.uses != nil {
		return b.uses
	}
	use := make([]atomic.Int64, y.Sel.NumSlabs()) // bytes of each slab
	first := b.firsts()
	parallel.For(len(b.Sizes), func(k int) {
		cs, _, _ := y.chunksOf(b, k)
		for lane := range cs {
			slab, bytes := uint32(0), 0 // of neighbours in the same one
			for p, c := range cs[lane] {
				if c.Len == 0 || words[first[k]+p] != 0 {
					continue
				}
				if c.Slab != slab {
					use[slab].Add(int64(bytes))
					slab, bytes = c.Slab, 0
				}
				bytes += int(c.Len)
			}
			if bytes > 0 {
				use[slab].Add(int64(bytes))
			}
		}
	})
	for k := range use {
		if n := use[k].Load(); n > 0 {
			all = append(all, SlabUse{k, n})
		}
	}
	if fresh {
		b.uses = all
	}
	return all
}

// firsts are the first tiles of chunks of each tile of series.
func (b *Part) firsts() []int {
	first, n := make([]int, len(b.Sizes)), 0
	for k, t := range b.Sizes {
		first[k], n = n, n+t.Positions
	}
	return first
}

// Some yields the chunks of some series of a selection, from first to last.
func Some(sel *selection.Selection) iter.Seq[[]selection.Chunk] {
	return func(yield func([]selection.Chunk) bool) {
		n := sel.NumSeries()
		for i := 0; i < n; i += max(1, n/64) {
			if !yield(sel.Chunks(i)) {
				return
			}
		}
	}
}

// ChunkSpan is how long a chunk is on average, in ms, by those of some series.
func ChunkSpan(sel *selection.Selection) int64 {
	var span, chunks int64
	for cs := range Some(sel) {
		if len(cs) > 0 {
			span += cs[len(cs)-1].MaxT - cs[0].MinT
			chunks += int64(len(cs))
		}
	}
	return span / max(chunks, 1)
}

// Absent is the address of a slab that is not on the device as a whole.
const Absent = 1<<64 - 1

// Fill writes the tables of a batch to buf. The chunks are packed where there is a word for their tile;
// others are where their slabs are, or from rest on, device addresses both, but written from origin on. It
// returns the transfers that bring the latter there.
func (y *Layout) Fill(b *Part, buf []byte, words []abi.PackedWord, bases []uint64, rest, origin uint64) []resident.Transfer {
	in := b.In
	copy(As[abi.PackedWord](buf, in.Packed), words)
	first, lanes := As[uint32](buf, in.First), As[uint32](buf, in.Lanes)
	for place, series := range b.Series {
		lanes[place] = series - uint32(b.Base)
	}
	copy(As[uint32](buf, in.Groups), b.Groups)
	copy(As[uint32](buf, in.Starts), b.starts)
	// Where each tile begins.
	starts := make([]TileSize, len(b.Sizes))
	var total TileSize
	keyRows := As[uint64](buf, in.KeyRows)
	for k := range starts {
		starts[k] = total
		first[k], keyRows[k] = uint32(total.Positions), uint64(total.Rows)
		total.Add(b.Sizes[k])
	}
	first[len(starts)], keyRows[len(starts)] = uint32(total.Positions), uint64(total.Rows)
	if y.Room.Packed {
		return nil
	}
	table, wide, rows := As[abi.Entry](buf, in.Table), As[abi.SeriesChunk](buf, in.Wide), As[uint64](buf, in.Rows)
	moved := make([][]resident.Transfer, len(starts))
	parallel.For(len(starts), func(k int) {
		at := starts[k]
		cs, _, positions := y.chunksOf(b, k)
		tile := table[at.Positions*Lanes:][:positions*Lanes]
		most := rows[at.Positions:][:positions] // samples, and then the first row
		clear(most)
		for lane := range cs {
			for p := range positions {
				c := y.at(cs[lane], p)
				ref := abi.SeriesChunk{From: c.MinT, To: c.MaxT}
				if most[p] = max(most[p], uint64(c.Samples)); c.Len > 0 && words[at.Positions+p] == 0 {
					to := bases[c.Slab] + uint64(c.Off)
					if bases[c.Slab] == Absent {
						to = rest + uint64(at.bytes)
						whole := Aligned(int(c.Len), 8) // the device reads whole words
						moved[k] = append(moved[k], resident.Transfer{From: y.Sel.Bytes(c)[:whole], To: to})
						at.bytes += whole
					}
					ref.ChunkRef = abi.ChunkRef{Off: to - origin, Len: c.Len, Samples: uint32(c.Samples)}
					if c.Enc == chunkenc.EncXOR2 {
						ref.Samples |= abi.XOR2
					}
				}
				if abi.EntryFits(c.Len, uint32(c.Samples), c.MinT, c.MaxT, y.Since()) {
					tile[p*Lanes+lane] = ref.Entry(y.Since())
				} else {
					tile[p*Lanes+lane] = abi.WideEntry(uint32(at.wide))
					wide[at.wide] = ref
					at.wide++
				}
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
