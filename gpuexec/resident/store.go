// Package resident is what stays on a device and how it gets there: a Store of slabs, of packed tiles of
// chunks, and of the tables that speak of them, from which what was not used for longest makes room, and a
// Feeder that copies. What a job uses is pinned and stays. Start reading at Store.
package resident

import (
	"container/list"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/promwarp/promwarp/kernels/abi"
	"github.com/promwarp/promwarp/selection"
)

// Store is the part of the device's memory in which slabs stay, packed tiles, and the tables that
// say where chunks are, as long as there is room. What was not used for longest
// makes room for others; what the host has no more goes first; what a
// job uses stays.
type Store struct {
	mu       sync.Mutex
	memory   Memory
	segments []*segment
	round    int           // of Trim
	refused  int           // the last round in which no memory was to be had
	growing  chan struct{} // nil while no segment is being allocated
	tasks    sync.WaitGroup
	closing  chan struct{}
	free     spans
	blocks   list.List         // of *block, least recently used first
	slabs    map[uint64]*Block // by the slabs' IDs
	tiles    map[uint64]*Block // by their keys
	packed   map[uint64]int    // by the IDs of slabs: blocks of packed tiles of chunks that are in them
	died     atomic.Bool       // an owner of a block is gone
}

// Block is a stretch of a store.
type Block struct {
	At, size uint64
	in       *segment
	slab     uint64 // what it holds, if it is a slab
	key      uint64 // what it holds, if it is packed tiles
	of       uint64 // the slab where one of their chunks is
	Words    []abi.PackedWord
	gone     func() bool     // the host has no more what it is of
	pins     int             // jobs that use it
	used     int             // the round in which it was pinned last
	elem     *list.Element   // nil once it is removed
	owner    runtime.Cleanup // of what it is of, says that it died
}

// NewStore makes a store that has one segment. It has more, up to the limit, before they are needed: another
// is allocated in the background when less than half of one is free.
func NewStore(m Memory) (*Store, error) {
	at, err := m.Alloc(m.Segment)
	if err != nil {
		return nil, err
	}
	s := &Store{memory: m, closing: make(chan struct{}), refused: -1, slabs: map[uint64]*Block{}, tiles: map[uint64]*Block{}, packed: map[uint64]int{}}
	s.include(at)
	s.tasks.Go(func() {
		for tick := time.Tick(time.Minute); ; s.Trim() {
			select {
			case <-s.closing:
				return
			case <-tick:
			}
		}
	})
	return s, nil
}

// Find pins the block that holds a slab, if there is one.
func (s *Store) Find(slab *selection.Slab) *Block {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.slabs[slab.ID()]
	if b != nil {
		s.pin(b)
	}
	return b
}

// Used is how many bytes are in use, of how many there are.
func (s *Store) Used() (used, size uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size() - s.free.total(), s.size()
}

// Packed is the number of blocks of packed tiles.
func (s *Store) Packed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.tiles)
}

// PinAll pins blocks if all of them are still there.
func (s *Store) PinAll(blocks []*Block) bool {
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

func (s *Store) pin(b *Block) {
	b.pins++
	b.used, b.in.used = s.round, s.round
	s.blocks.MoveToBack(b.elem)
}

// AddSlab makes a pinned block for a slab, or returns nil if there is no room.
func (s *Store) AddSlab(slab *selection.Slab) *Block {
	return addOf(s, slab, &Block{size: uint64(len(slab.Bytes())), slab: slab.ID()})
}

// Add makes a pinned block of n bytes for what is of owner, or returns nil if there is no room.
func Add[T any](s *Store, owner *T, n int) *Block { return addOf(s, owner, &Block{size: uint64(n)}) }

// FindTiles pins the blocks of packed tiles that have some keys; others are nil.
func (s *Store) FindTiles(keys []uint64) []*Block {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := make([]*Block, len(keys))
	for i, k := range keys {
		if found[i] = s.tiles[k]; found[i] != nil {
			s.pin(found[i])
		}
	}
	return found
}

// Publish has a block of AddTiles, which have come to the device, be found by a key.
func (s *Store) Publish(b *Block, key uint64, words []abi.PackedWord) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tiles[key] != nil || b.elem == nil {
		return
	}
	b.key, b.Words = key, words
	s.tiles[key] = b
	s.packed[b.of]++
}

// AddTiles makes a pinned block of n bytes for packed tiles, one of whose chunks is in a slab, or returns nil if
// there is no room. That the slab died it says when others do.
func (s *Store) AddTiles(slab *selection.Slab, n uint64) *Block {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := weak.Make(slab)
	b := &Block{size: n, of: slab.ID(), gone: func() bool { return of.Value() == nil }}
	return s.add(b)
}

// addOf makes room for a block, which is of owner.
func addOf[T any](s *Store, owner *T, b *Block) *Block {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.add(b) == nil {
		return nil
	}
	if b.slab != 0 {
		s.slabs[b.slab] = b
	}
	of := weak.Make(owner)
	b.gone = func() bool { return of.Value() == nil }
	b.owner = runtime.AddCleanup(owner, func(s *Store) { s.died.Store(true) }, s)
	return b
}

// add makes room for a block and pins it.
func (s *Store) add(b *Block) *Block {
	b.size = (b.size + 255) &^ 255
	f, ok := s.take(b.size)
	if !ok {
		return nil
	}
	b.At, b.in, b.elem = f.at, f.in, s.blocks.PushBack(b)
	s.pin(b)
	return b
}

// take takes n bytes in a row, for which it waits for another segment or removes blocks if need be.
func (s *Store) take(n uint64) (f span, ok bool) {
	f, ok = s.free.take(n)
	for !ok && n <= s.memory.Segment && s.grow() != nil {
		grown := s.growing
		s.mu.Unlock()
		<-grown
		s.mu.Lock()
		f, ok = s.free.take(n)
	}
	if s.free.total() < s.memory.Segment/2 {
		s.grow()
	}
	if ok {
		return f, true
	}
	possible := s.free.total()
	for e := s.blocks.Front(); e != nil && possible < n; e = e.Next() {
		if b := e.Value.(*Block); b.pins == 0 {
			possible += b.size
		}
	}
	if possible < n || n > s.memory.Segment {
		return f, false
	}
	for e := s.blocks.Front(); e != nil && !ok; {
		b := e.Value.(*Block)
		e = e.Next()
		if b.pins == 0 {
			s.remove(b)
			f, ok = s.free.take(n)
		}
	}
	return f, ok
}

// remove takes a block away that no job uses.
func (s *Store) remove(b *Block) {
	s.blocks.Remove(b.elem)
	b.elem = nil
	b.owner.Stop() // what comes and goes often would have ever more of them
	if s.slabs[b.slab] == b {
		delete(s.slabs, b.slab)
	}
	if s.tiles[b.key] == b {
		delete(s.tiles, b.key)
		if s.packed[b.of]--; s.packed[b.of] == 0 {
			delete(s.packed, b.of)
		}
	}
	s.free.give(span{b.At, b.size, b.in})
}

// Unpin ends the use of blocks.
func (s *Store) Unpin(blocks []*Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range blocks {
		b.pins--
	}
}

// Discard ends the use of blocks whose content never came.
func (s *Store) Discard(blocks []*Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range blocks {
		if b.pins--; b.pins == 0 {
			s.remove(b)
		}
	}
}

// Drop removes a block, unless it is used or gone.
func (s *Store) Drop(b *Block) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b.elem != nil && b.pins == 0 {
		s.remove(b)
	}
}

// Sweep removes what the host has no more.
func (s *Store) Sweep() {
	if !s.died.Swap(false) {
		return
	}
	s.removeIf(func(b *Block) bool { return b.gone() })
}

// Clear removes all blocks that no job uses.
func (s *Store) Clear() { s.removeIf(func(*Block) bool { return true }) }

// removeIf removes the blocks of which f is true and that no job uses.
func (s *Store) removeIf(f func(b *Block) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeBlocks(f)
}

func (s *Store) removeBlocks(f func(b *Block) bool) {
	for e := s.blocks.Front(); e != nil; {
		b := e.Value.(*Block)
		e = e.Next()
		if b.pins == 0 && f(b) {
			s.remove(b)
		}
	}
}

// idleRounds is after how many rounds, of a minute each, what no job used makes room for what only later jobs
// need, and a segment is given back.
const idleRounds = 10

// Trim begins a round. It gives back the segments but one that were not used for idleRounds, with what lies in
// them. One that the device does not take back is used as before.
func (s *Store) Trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
	for e := s.blocks.Front(); e != nil; e = e.Next() {
		if b := e.Value.(*Block); b.pins > 0 {
			b.in.used = s.round
		}
	}
	for _, g := range slices.Clone(s.segments) {
		if len(s.segments) > 1 && s.round-g.used > idleRounds && s.memory.Free(g.at) == nil {
			s.removeBlocks(func(b *Block) bool { return b.in == g })
			s.segments = slices.DeleteFunc(s.segments, func(o *segment) bool { return o == g })
			s.free = slices.DeleteFunc(s.free, func(f span) bool { return f.in == g })
		}
	}
}

// Share is the share, from 0 to 1, of all bytes of a selection's slabs that are there, or are packed in part.
func (s *Store) Share(sel *selection.Selection) (share float64, all int) {
	there := 0
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range sel.NumSlabs() {
		slab := sel.Slab(k)
		all += len(slab.Bytes())
		if id := slab.ID(); s.slabs[id] != nil || s.packed[id] > 0 {
			there += len(slab.Bytes())
		}
	}
	return float64(there) / float64(max(all, 1)), all
}

const (
	// WorthWhole says when a slab is copied as a whole, to stay on the device: if at least one in WorthWhole
	// of its bytes is needed. Else only those are copied, for once.
	WorthWhole = 8
	// packedTimes is how many times as much memory slabs take at most with the tiles packed of them.
	packedTimes = 4
)

// Keeps reports whether a selection's slabs, of which a job needs some bytes, stay once they are copied,
// without displacing what jobs have used lately. As slabs are cut unevenly, half of WorthWhole counts.
func (s *Store) Keeps(sel *selection.Selection, needed int64) bool {
	share, all := s.Share(sel)
	s.mu.Lock()
	defer s.mu.Unlock()
	room := s.free.total() + s.memory.Limit - s.size()
	for e := s.blocks.Front(); e != nil; e = e.Next() {
		if b := e.Value.(*Block); b.pins == 0 && s.round-b.used > idleRounds {
			room += b.size
		}
	}
	return needed*WorthWhole/2 >= int64(all) && packedTimes*(1-share)*float64(all) <= float64(room)
}

// Check says what is wrong where no job is under way: a block is in use, or memory is lost.
func (s *Store) Check() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.free.total()
	for e := s.blocks.Front(); e != nil; e = e.Next() {
		b := e.Value.(*Block)
		if b.pins != 0 {
			return fmt.Errorf("a block of %d bytes is in use", b.size)
		}
		all += b.size
	}
	if all != s.size() {
		return fmt.Errorf("%d bytes of %d are free or in blocks", all, s.size())
	}
	return nil
}
