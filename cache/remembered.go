package cache

import (
	"container/list"
	"unsafe"

	"github.com/promwarp/promwarp/cache/tile"
)

// remembered is how much what is not kept of a selector is worth, so that it is
// known when it is asked for again. The oldest makes room.
type remembered struct {
	byKey map[string]*list.Element // of memory
	order list.List                // oldest first
	bytes int64
}

type memory struct {
	key  string
	used tile.Coverage
	size int64 // bytes
}

// remembering is the part of the limit, one in so many bytes, that remembered
// worths may take.
const remembering = 64

// remember keeps the worths of a selector of which nothing is kept. The cache's
// mutex must be held.
func (c *Cache) remember(key string, used tile.Coverage) {
	m := &memory{key, used, 256 + 2*int64(len(key)) + int64(cap(used))*int64(unsafe.Sizeof(tile.Stretch{}))}
	if len(used) == 0 || m.size > c.limit/remembering {
		return
	}
	c.recall(key)
	r := &c.remembered
	r.byKey[key] = r.order.PushBack(m)
	c.bytes += m.size
	c.remembered.bytes += m.size
	for c.remembered.bytes > c.limit/remembering {
		c.recall(r.order.Front().Value.(*memory).key)
	}
}

// recall returns the worths of a selector, which are no longer remembered here.
// The cache's mutex must be held.
func (c *Cache) recall(key string) tile.Coverage {
	at, ok := c.remembered.byKey[key]
	if !ok {
		return nil
	}
	m := at.Value.(*memory)
	c.remembered.order.Remove(at)
	delete(c.remembered.byKey, key)
	c.bytes -= m.size
	c.remembered.bytes -= m.size
	return m.used
}
