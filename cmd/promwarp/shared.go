package main

import "sync"

// shared is something that several users hold; the last to release it closes
// it.
type shared struct {
	mu    sync.Mutex
	users int
	close func()
}

// newShared returns one with a single user.
func newShared(close func()) *shared { return &shared{users: 1, close: close} }

// hold adds a user. It reports false when it is closed already.
func (s *shared) hold() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.users == 0 {
		return false
	}
	s.users++
	return true
}

// release takes a user away.
func (s *shared) release() {
	s.mu.Lock()
	s.users--
	last := s.users == 0
	s.mu.Unlock()
	if last {
		s.close()
	}
}
