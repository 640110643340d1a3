package resident

import (
	"errors"
	"slices"

	"github.com/promwarp/promwarp/gpuexec/cuda"
)

// Memory is where the segments of a store come from.
type Memory struct {
	Segment uint64 // bytes of one, where no block needs more
	Limit   uint64 // bytes of all
	// Alloc allocates n bytes where a store has held bytes already, Free gives back what it allocated.
	Alloc func(n, held uint64) (at uint64, err error)
	Free  func(at uint64) error
}

// segment is memory that was allocated at once. No block lies in two.
type segment struct {
	at, size uint64
	used     int // the round in which a block of it was used last
}

// idleRounds is the number of rounds without use after which a segment is given back.
const idleRounds = 10

// NewStore makes a store that has one segment. It has more, up to the limit, before they are needed: another
// is allocated in the background when less than half of one is free.
func NewStore(m Memory) (*Store, error) {
	s := &Store{memory: m, refused: -1, slabs: map[slabID]*Block{}, tiles: map[uint64]*Block{}, packed: map[slabID]int{}}
	s.mu.Lock()
	grown := s.grow(m.Segment)
	s.mu.Unlock()
	<-grown
	return s, s.err
}

// Close gives all memory back. There must be no job.
func (s *Store) Close() error {
	s.mu.Lock()
	grown := s.growing
	s.mu.Unlock()
	if grown != nil {
		<-grown
	}
	var errs []error
	for _, g := range s.segments {
		errs = append(errs, s.memory.Free(g.at))
	}
	return errors.Join(errs...)
}

// Held is how many bytes of the device's memory the store has.
func (s *Store) Held() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// grows reports whether there may be a segment more for a block of n bytes. Where memory was refused, as
// another process has it, none is asked for before the next round.
func (s *Store) grows(n uint64) bool {
	return s.refused != s.round && (s.size+s.memory.Segment <= s.memory.Limit || n > s.memory.Segment && n <= s.memory.Limit)
}

// grow begins to allocate a segment for a block of n bytes, unless one is being allocated. What it returns is
// closed once that is there or was refused. For a large one, others that no job uses are given back.
func (s *Store) grow(n uint64) <-chan struct{} {
	if s.growing != nil {
		return s.growing
	}
	grown := make(chan struct{})
	s.growing = grown
	go func() {
		if n = max(n, s.memory.Segment); n > s.memory.Segment {
			s.shrink(func(*segment) bool { return s.size+n > s.memory.Limit })
		}
		at, err := uint64(0), error(cuda.OutOfMemory)
		if held := s.Held(); held+n <= s.memory.Limit {
			at, err = s.memory.Alloc(n, held)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err, s.growing = err, nil; err == nil {
			s.include(&segment{at, n, s.round})
		} else {
			s.refused = s.round
		}
		close(grown)
	}()
	return grown
}

func (s *Store) include(g *segment) {
	s.segments = append(s.segments, g)
	s.free.give(span{g.at, g.size, g})
	s.size += g.size
}

// Trim begins a round, and gives back the segments but one that were not used for idleRounds.
func (s *Store) Trim() {
	s.mu.Lock()
	s.round++
	s.mu.Unlock()
	s.shrink(func(g *segment) bool { return len(s.segments) > 1 && s.round-g.used > idleRounds })
}

// shrink gives segments back with what lies in them, while gone is true of that not used for longest
// among those that no job uses. One that the device does not take back is used as before.
func (s *Store) shrink(gone func(*segment) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for {
		pinned := map[*segment]bool{}
		for e := s.blocks.Front(); e != nil; e = e.Next() {
			if b := e.Value.(*Block); b.pins > 0 {
				pinned[b.in] = true
			}
		}
		var oldest *segment
		for _, g := range s.segments {
			if !pinned[g] && (oldest == nil || g.used < oldest.used) {
				oldest = g
			}
		}
		if oldest == nil || !gone(oldest) {
			return
		}
		s.removeBlocks(func(b *Block) bool { return b.in == oldest })
		s.segments = slices.DeleteFunc(s.segments, func(g *segment) bool { return g == oldest })
		s.free = slices.DeleteFunc(s.free, func(f span) bool { return f.in == oldest })
		s.size -= oldest.size
		s.mu.Unlock()
		err := s.memory.Free(oldest.at)
		s.mu.Lock()
		if err != nil {
			s.include(oldest)
			return
		}
	}
}
