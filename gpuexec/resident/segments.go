package resident

import (
	"errors"
	"slices"
	"time"
)

// Memory is where the segments of a store come from, and the bytes of one and of all.
type Memory struct {
	Segment, Limit uint64
	Alloc          func(n uint64) (at uint64, err error)
	Free           func(at uint64) error
}

// segment is memory that was allocated at once. No block lies in two.
type segment struct {
	at   uint64
	used int // the round in which a block of it was used last
}

// idleRounds is after how many rounds, of a minute each, a segment that no job used is given back.
const idleRounds = 10

// NewStore makes a store that has one segment. It has more, up to the limit, before they are needed: another
// is allocated in the background when less than half of one is free.
func NewStore(m Memory) (*Store, error) {
	at, err := m.Alloc(m.Segment)
	if err != nil {
		return nil, err
	}
	s := &Store{memory: m, closing: make(chan struct{}), refused: -1, slabs: map[slabID]*Block{}, tiles: map[uint64]*Block{}, packed: map[slabID]int{}}
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

// Close gives all memory back. There must be no job.
func (s *Store) Close() (err error) {
	close(s.closing)
	s.tasks.Wait()
	for _, g := range s.segments {
		err = errors.Join(err, s.memory.Free(g.at))
	}
	return err
}

func (s *Store) include(at uint64) {
	g := &segment{at, s.round}
	s.segments = append(s.segments, g)
	s.free.give(span{at, s.memory.Segment, g})
}

func (s *Store) size() uint64 { return uint64(len(s.segments)) * s.memory.Segment }

// grow begins to allocate a segment, unless one is being allocated, and returns what is closed once that has
// ended; or nil at the limit, or where memory was refused in this round, as another process has it.
func (s *Store) grow() chan struct{} {
	if s.growing != nil || s.refused == s.round || s.size()+s.memory.Segment > s.memory.Limit {
		return s.growing
	}
	s.growing = make(chan struct{})
	s.tasks.Go(func() {
		at, err := s.memory.Alloc(s.memory.Segment)
		s.mu.Lock()
		defer s.mu.Unlock()
		if err == nil {
			s.include(at)
		} else {
			s.refused = s.round
		}
		close(s.growing)
		s.growing = nil
	})
	return s.growing
}

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
