// Package saving decides what of a cache goes to disk, and has it written behind the queries'
// backs.
//
// Saver is told which selectors have changed and which files are of no use, and has them written
// and removed, one at a time. Plan compares what is kept of a selector with what its files cover:
// what a new file is to have, and which it replaces. Neither writes anything itself.
//
// Start with Saver.
package saving

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Options say what a Saver does. None may be missing.
type Options struct {
	// Write writes what is kept of a selector and not on disk yet, and reports whether there was
	// anything. When ctx ends there was not.
	Write func(ctx context.Context, key string) (wrote bool, err error)
	Drop  func(key string) error // removes what is on disk of a selector
	Retry time.Duration          // how long to wait after a failure
	Grace time.Duration          // for what is still to be written when the saver is closed
	// Failed is called for each write that fails.
	Failed func()
	Logger *slog.Logger
}

// Saver writes to disk what is kept of selectors, which it knows by their keys. When writing
// fails, because the disk is full say, it tries again from time to time. A nil Saver does nothing.
type Saver struct {
	o       Options
	failing atomic.Bool // whether the last write failed
	wake    chan struct{}
	closing context.Context
	close   func()
	ending  context.Context // of writing: it ends some time after closing began
	end     func()
	done    chan struct{} // closed when it has ended

	mu      sync.Mutex
	dirty   map[string]bool // to be written
	useless map[string]bool // to be removed
}

// New returns a saver, which must be closed.
func New(o Options) *Saver {
	s := &Saver{o: o, dirty: map[string]bool{}, useless: map[string]bool{}, wake: make(chan struct{}, 1), done: make(chan struct{})}
	s.closing, s.close = context.WithCancel(context.Background())
	s.ending, s.end = context.WithCancel(context.Background())
	go s.run()
	return s
}

// Close writes what is still to be written, unless that fails, and ends it: after the grace no more
// is begun, and what is being written is left.
func (s *Saver) Close() {
	s.close()
	late := time.AfterFunc(s.o.Grace, s.end)
	<-s.done
	late.Stop()
	s.end()
}

// Save has what is kept of a selector written.
func (s *Saver) Save(key string) {
	if s != nil {
		s.note(s.dirty, key)
	}
}

// Drop has what is on disk of a selector removed.
func (s *Saver) Drop(key string) {
	if s != nil {
		s.note(s.useless, key)
	}
}

// Dropping reports whether what is on disk of a selector is still to be removed: it must not be
// used.
func (s *Saver) Dropping(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.useless[key]
}

// Left is the number of selectors that are still to be written.
func (s *Saver) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dirty)
}

// Failing reports whether the last write failed.
func (s *Saver) Failing() bool { return s.failing.Load() }

// note adds a key to one of the lists.
func (s *Saver) note(list map[string]bool, key string) {
	s.mu.Lock()
	list[key] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run works until s is closed.
func (s *Saver) run() {
	defer close(s.done)
	for {
		wake, again := s.wake, (<-chan time.Time)(nil)
		ok := s.work()
		if !ok {
			wake, again = nil, time.After(s.o.Retry) // while writing fails only time helps
		}
		select {
		case <-wake:
		case <-again:
		case <-s.closing.Done():
			if ok {
				s.work()
			}
			if n := s.Left(); s.ending.Err() != nil && n > 0 {
				s.o.Logger.Warn("Not all that is cached was written to cache.path before the end; the rest is fetched again after a restart", "selectors", n)
			}
			return
		}
	}
}

// next is what there is to be done: what to remove before what to write, which may be noted again from
// then on, as there may be more of it.
func (s *Saver) next() (key string, useless, some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key = range s.useless {
		return key, true, true
	}
	for key = range s.dirty {
		delete(s.dirty, key)
		return key, false, true
	}
	return "", false, false
}

// work removes and writes what there is to be, as long as it may, and reports false when a
// write fails. What was not written is left for the next time.
func (s *Saver) work() bool {
	for s.ending.Err() == nil {
		key, useless, some := s.next()
		if !some {
			return true
		}
		if useless {
			if err := s.o.Drop(key); err != nil {
				s.o.Logger.Error("Could not remove cached samples that are of no use from disk", "err", err)
			}
			s.mu.Lock()
			delete(s.useless, key)
			s.mu.Unlock()
			continue
		}
		wrote, err := s.o.Write(s.ending, key)
		switch {
		case s.ending.Err() != nil && !wrote:
			s.Save(key)
		case err != nil:
			s.o.Failed()
			if !s.failing.Swap(true) {
				s.o.Logger.Error("Cannot write to cache.path; samples are cached in memory only until that works again", "err", err)
			}
			s.Save(key)
			return false
		case wrote && s.failing.Swap(false):
			s.o.Logger.Info("Writing to cache.path works again")
		}
	}
	return true
}
