package cache

import (
	"container/list"
	"unsafe"

	"github.com/promwarp/promwarp/cache/tile"
)

// ghosts say how much what is not kept of a selector is worth, so that it is known
// when it is asked for again. The oldest makes room.
type ghosts struct {
	byKey map[string]*list.Element // of memory
	order list.List                // oldest first
	bytes int64
}

type ghost struct {
	key  string
	used tile.Coverage
	size int64 // bytes
}

// ghostShare is the part of the limit, one in so many bytes, that ghosts may take.
const ghostShare = 64

// addGhost keeps the worths of a selector of which nothing is kept. The cache's
// mutex must be held.
func (c *Cache) addGhost(key string, used tile.Coverage) {
	m := &ghost{key, used, 256 + 2*int64(len(key)) + int64(cap(used))*int64(unsafe.Sizeof(tile.Stretch{}))}
	if len(used) == 0 || m.size > c.limit/ghostShare {
		return
	}
	c.takeGhost(key)
	r := &c.ghosts
	r.byKey[key] = r.order.PushBack(m)
	c.bytes += m.size
	c.ghosts.bytes += m.size
	for c.ghosts.bytes > c.limit/ghostShare {
		c.takeGhost(r.order.Front().Value.(*ghost).key)
	}
}

// takeGhost returns the worths of a selector, which are no longer kept here.
// The cache's mutex must be held.
func (c *Cache) takeGhost(key string) tile.Coverage {
	at, ok := c.ghosts.byKey[key]
	if !ok {
		return nil
	}
	m := at.Value.(*ghost)
	c.ghosts.order.Remove(at)
	delete(c.ghosts.byKey, key)
	c.bytes -= m.size
	c.ghosts.bytes -= m.size
	return m.used
}
