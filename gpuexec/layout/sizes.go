package layout

import (
	"sync/atomic"

	"github.com/promwarp/promwarp/kernels/abi"
)

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

// useCount adds up what a batch needs of a slab.
type useCount struct {
	bytes atomic.Int64
	kept  atomic.Bool
}

// size measures a tile, and adds what it needs of slabs.
func (y *Layout) size(b *Part, tile int, use []useCount) (t TileSize) {
	cs, positions := y.chunksOf(b, tile)
	t.Positions = positions
	rows := make([]uint16, positions)
	kept := y.Sel.KeptUntil()
	for lane := range cs {
		slab, bytes := uint32(0), 0 // of neighbours in the same one
		for p := range cs[lane] {
			c := &cs[lane][p]
			rows[p] = max(rows[p], c.Samples)
			t.Samples += int64(c.Samples)
			t.Encoded += int(c.Len)
			t.bytes += Aligned(int(c.Len), 8)
			t.Chunks++
			if !abi.EntryFits(c.Len, c.MinT, c.MaxT, y.Since()) {
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
		t.Rows += int(n)
	}
	return t
}
