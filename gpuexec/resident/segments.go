package resident

import (
	"cmp"
	"errors"
	"slices"
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

// span is a stretch of a segment in bytes.
type span struct {
	at, size uint64
	in       *segment
}

// spans are the free stretches of segments, by address, none right behind another of the same.
type spans []span

// take takes n bytes from the least stretch that has as many.
func (s *spans) take(n uint64) (_ span, ok bool) {
	best := -1
	for i, f := range *s {
		if f.size >= n && (best < 0 || f.size < (*s)[best].size) {
			best = i
		}
	}
	if best < 0 {
		return span{}, false
	}
	f := &(*s)[best]
	taken := span{f.at, n, f.in}
	f.at, f.size = f.at+n, f.size-n
	if f.size == 0 {
		*s = slices.Delete(*s, best, best+1)
	}
	return taken, true
}

// give gives a stretch back, as one with what is free right before and behind it.
func (s *spans) give(g span) {
	i, _ := slices.BinarySearchFunc(*s, g.at, func(f span, at uint64) int { return cmp.Compare(f.at, at) })
	all := slices.Insert(*s, i, g)
	for _, k := range []int{i + 1, i} {
		if k > 0 && k < len(all) && all[k-1].in == all[k].in && all[k-1].at+all[k-1].size == all[k].at {
			all[k-1].size += all[k].size
			all = slices.Delete(all, k, k+1)
		}
	}
	*s = all
}

// total is the number of free bytes.
func (s spans) total() (n uint64) {
	for _, f := range s {
		n += f.size
	}
	return n
}
