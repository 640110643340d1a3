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
type Options[E any] struct {
	// Write writes what is kept of e and not on disk yet, and reports whether there was
	// anything. When ctx ends there was not.
	Write func(ctx context.Context, e E) (wrote bool, err error)
	Drop  func(key string) error // removes what is on disk of a key
	Retry time.Duration          // how long to wait after a failure
	Grace time.Duration          // for what is still to be written when the saver is closed
	// Failed is called for each write that fails.
	Failed func()
	Logger *slog.Logger
}

// Saver writes to disk what is kept, of entries of type E. When writing
// fails, because the disk is full say, it tries again from time to time. A nil Saver does nothing.
type Saver[E any] struct {
	o       Options[E]
	failing atomic.Bool // whether the last write failed
	wake    chan struct{}
	closing chan struct{}
	ending  context.Context // of writing: it ends some time after closing began
	done    chan struct{}   // closed when it has ended
	// Close writes what is still to be written, unless that fails, and ends it: after the
	// grace that it was made with no more is begun, and what is being written is left.
	Close func()

	mu       sync.Mutex
	dirty    map[string]E        // to be written, by key
	useless  map[string]struct{} // keys to be removed
	removing string              // the key that is being removed; empty for none
}

// New returns a saver, which must be closed.
func New[E any](o Options[E]) *Saver[E] {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Saver[E]{
		o: o, dirty: map[string]E{}, useless: map[string]struct{}{},
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ending: ctx, done: make(chan struct{}),
	}
	s.Close = sync.OnceFunc(func() {
		close(s.closing)
		late := time.AfterFunc(o.Grace, cancel)
		<-s.done
		late.Stop()
		cancel()
	})
	go s.run()
	return s
}

// Save has what is kept of e, the entry of a key, written.
func (s *Saver[E]) Save(key string, e E) {
	if s != nil {
		s.change(func() { s.dirty[key] = e })
	}
}

// Drop has what is on disk of a key removed.
func (s *Saver[E]) Drop(key string) {
	if s != nil {
		s.change(func() { s.useless[key] = struct{}{} })
	}
}

// Dropping reports whether what is on disk of a key is still to be removed: it must not be used.
func (s *Saver[E]) Dropping(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, waits := s.useless[key]
	return waits || s.removing == key
}

func (s *Saver[E]) change(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run works until s is closed.
func (s *Saver[E]) run() {
	defer close(s.done)
	for {
		ok := s.work()
		var again <-chan time.Time
		if !ok {
			again = time.After(s.o.Retry)
		}
		for waiting := true; waiting; {
			select {
			case <-s.wake:
				waiting = !ok // while writing fails only time helps
			case <-again:
				waiting = false
			case <-s.closing:
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
}

// take takes something to do off the lists: a key to be removed or else an
// entry to be written.
func (s *Saver[E]) take() (useless, key string, e E, some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removing = ""
	for key := range s.useless {
		delete(s.useless, key)
		s.removing = key
		return key, "", e, true
	}
	for key, e = range s.dirty {
		delete(s.dirty, key)
		return "", key, e, true
	}
	return "", "", e, false
}

// Left is the number of selectors that are still to be written.
func (s *Saver[E]) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dirty)
}

// work removes and writes what there is to be, as long as it may, and reports false when a
// write fails. What was not written is left for the next time.
func (s *Saver[E]) work() bool {
	for s.ending.Err() == nil {
		useless, key, e, some := s.take()
		switch {
		case useless != "":
			if err := s.o.Drop(useless); err != nil {
				s.o.Logger.Error("Could not remove cached samples that are of no use from disk", "err", err)
			}
		case !some:
			return true
		default:
			wrote, err := s.o.Write(s.ending, e)
			if s.ending.Err() != nil && !wrote {
				s.Save(key, e)
				return true
			}
			s.say(wrote, err)
			if err != nil {
				s.Save(key, e)
				return false
			}
		}
	}
	return true
}

// say logs when writing begins to fail and when it works again.
func (s *Saver[E]) say(wrote bool, err error) {
	switch {
	case err != nil:
		s.o.Failed()
		if !s.failing.Swap(true) {
			s.o.Logger.Error("Cannot write to cache.path; samples are cached in memory only until that works again", "err", err)
		}
	case wrote && s.failing.Swap(false):
		s.o.Logger.Info("Writing to cache.path works again")
	}
}

// Failing reports whether the last write failed.
func (s *Saver[E]) Failing() bool { return s.failing.Load() }
