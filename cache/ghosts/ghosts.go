// Package ghosts keeps how much what is not kept of a selector is worth, so that it is known when
// it is asked for again.
//
// Start with New.
package ghosts

import (
	"container/list"
	"unsafe"

	"github.com/promwarp/promwarp/cache/tile"
)

// Ghosts are the worths of selectors of which nothing is kept. The oldest makes room. They are
// not safe for concurrent use.
type Ghosts struct {
	limit int64 // bytes
	byKey map[string]*list.Element
	order list.List // of *ghost, oldest first
	bytes int64
}

type ghost struct {
	key  string
	used tile.Coverage
	size int64 // bytes
}

// New returns ghosts that take at most limit bytes.
func New(limit int64) *Ghosts { return &Ghosts{limit: limit, byKey: map[string]*list.Element{}} }

// Bytes is the memory that they take.
func (g *Ghosts) Bytes() int64 { return g.bytes }

// Add keeps the worths of the selector with this key.
func (g *Ghosts) Add(key string, used tile.Coverage) {
	m := &ghost{key, used, 256 + 2*int64(len(key)) + int64(cap(used))*int64(unsafe.Sizeof(tile.Stretch{}))}
	if len(used) == 0 || m.size > g.limit {
		return
	}
	g.Remove(key)
	g.byKey[key] = g.order.PushBack(m)
	g.bytes += m.size
	for g.bytes > g.limit {
		g.Remove(g.order.Front().Value.(*ghost).key)
	}
}

// Remove returns the worths of a selector, nil where there are none, and keeps them no longer.
func (g *Ghosts) Remove(key string) tile.Coverage {
	at, ok := g.byKey[key]
	if !ok {
		return nil
	}
	m := at.Value.(*ghost)
	g.order.Remove(at)
	delete(g.byKey, key)
	g.bytes -= m.size
	return m.used
}

// Clear keeps none any longer.
func (g *Ghosts) Clear() { *g = *New(g.limit) }
