package gpuexec

import (
	"container/list"
	"runtime"
	"sync"
	"sync/atomic"
	"weak"

	"github.com/promwarp/promwarp/selection"
)

// store is the part of the device's memory in which slabs stay, and the tables that
// say where chunks are, as long as there is room. What was not used for longest
// makes room for others; what nobody on the host has any more goes first; what a
// job uses stays.
type store struct {
	mu     sync.Mutex
	size   uint64
	free   spans
	blocks list.List // of *block, least recently used first
	slabs  map[slabID]*block
	died   atomic.Bool // an owner of a block is gone
}

type slabID = weak.Pointer[selection.Slab]

// block is a stretch of a store.
type block struct {
	at, size uint64
	slab     slabID               // what it holds, or
	tables   weak.Pointer[layout] // whose tables
	pins     int                  // jobs that use it
	passing  bool                 // it will hardly be asked for again
	elem     *list.Element        // nil once it is gone
	owner    runtime.Cleanup      // of the slab, says that it died
}

func newStore(at, size uint64) *store {
	return &store{size: size, free: spans{{at, size}}, slabs: map[slabID]*block{}}
}

// find pins the block that holds a slab, if there is one.
func (s *store) find(slab *selection.Slab) *block {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.slabs[weak.Make(slab)]
	if b != nil {
		s.pin(b)
	}
	return b
}

// pinAll pins blocks if all of them are still there.
func (s *store) pinAll(blocks []*block) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range blocks {
		if b.elem == nil {
			return false
		}
	}
	for _, b := range blocks {
		s.pin(b)
	}
	return true
}

func (s *store) pin(b *block) {
	b.pins++
	s.blocks.MoveToBack(b.elem)
}

// addSlab makes a pinned block for a slab, or returns nil if there is no room. One
// that is passing makes room again before others do.
func (s *store) addSlab(slab *selection.Slab, passing bool) *block {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &block{size: uint64(aligned(len(slab.Bytes()), 256)), slab: weak.Make(slab), passing: passing}
	if !s.add(b) {
		return nil
	}
	s.slabs[b.slab] = b
	b.owner = runtime.AddCleanup(slab, func(s *store) { s.died.Store(true) }, s)
	return b
}

// addTables makes a pinned block for n bytes of a layout's tables.
func (s *store) addTables(y *layout, n int) *block {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &block{size: uint64(aligned(n, 256)), tables: weak.Make(y)}
	if !s.add(b) {
		return nil
	}
	return b
}

func (s *store) add(b *block) bool {
	at, ok := s.free.take(b.size)
	if !ok {
		at, ok = s.makeRoom(b.size)
	}
	if !ok {
		return false
	}
	b.at, b.pins = at, 1
	b.elem = s.blocks.PushBack(b)
	return true
}

// makeRoom removes blocks until n bytes in a row are free, and takes them.
func (s *store) makeRoom(n uint64) (at uint64, ok bool) {
	possible := s.free.total()
	for e := s.blocks.Front(); e != nil && possible < n; e = e.Next() {
		if b := e.Value.(*block); b.pins == 0 {
			possible += b.size
		}
	}
	if possible < n {
		return 0, false
	}
	for e := s.blocks.Front(); e != nil && !ok; {
		b := e.Value.(*block)
		e = e.Next()
		if b.pins == 0 {
			s.remove(b)
			at, ok = s.free.take(n)
		}
	}
	return at, ok
}

// remove takes a block away that nobody uses.
func (s *store) remove(b *block) {
	s.blocks.Remove(b.elem)
	b.elem = nil
	if s.slabs[b.slab] == b {
		delete(s.slabs, b.slab)
		b.owner.Stop() // what comes and goes often would have ever more of them
	}
	s.free.give(b.at, b.size)
}

// unpin ends the use of blocks.
func (s *store) unpin(blocks []*block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range blocks {
		if b.pins--; b.pins == 0 && b.passing {
			s.blocks.MoveToFront(b.elem)
		}
	}
}

// discard ends the use of blocks whose content never came.
func (s *store) discard(blocks []*block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range blocks {
		if b.pins--; b.pins == 0 {
			s.remove(b)
		}
	}
}

// drop removes a block, unless it is used or gone.
func (s *store) drop(b *block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.elem != nil && b.pins == 0 {
		s.remove(b)
	}
}

// sweep removes what nobody on the host has any more.
func (s *store) sweep() {
	if !s.died.Swap(false) {
		return
	}
	s.removeIf(func(b *block) bool {
		return b.slab != (slabID{}) && b.slab.Value() == nil || b.slab == (slabID{}) && b.tables.Value() == nil
	})
}

// removeIf removes the blocks of which f is true, but for those that jobs use.
func (s *store) removeIf(f func(b *block) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.blocks.Front(); e != nil; {
		b := e.Value.(*block)
		e = e.Next()
		if b.pins == 0 && f(b) {
			s.remove(b)
		}
	}
}

// held is the number of bytes in blocks.
func (s *store) held() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size - s.free.total()
}
