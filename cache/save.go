package cache

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promwarp/promwarp/cache/disk"
)

// saver writes to disk what is kept, behind the queries' backs. When writing
// fails, because the disk is full say, it tries again from time to time.
type saver struct {
	c       *Cache
	retry   time.Duration // how long to wait after a failure
	failing atomic.Bool   // whether the last write failed
	wake    chan struct{}
	closing chan struct{}
	ending  context.Context // of writing: it ends some time after closing began
	done    chan struct{}   // closed when it has ended
	// close writes what is still to be written, unless that fails, and ends it: after the
	// grace that it was made with no more is begun, and what is being written is left.
	close func()

	mu      sync.Mutex
	dirty   map[string]*entry   // to be written, by key
	useless map[string]struct{} // keys to be removed
}

const (
	saveRetry = 30 * time.Second
	saveGrace = time.Second // for what is still to be written when the cache is closed
)

func newSaver(c *Cache, retry, grace time.Duration) *saver {
	ctx, cancel := context.WithCancel(context.Background())
	s := &saver{
		c: c, retry: retry, dirty: map[string]*entry{}, useless: map[string]struct{}{},
		wake: make(chan struct{}, 1), closing: make(chan struct{}), ending: ctx, done: make(chan struct{}),
	}
	s.close = sync.OnceFunc(func() {
		close(s.closing)
		late := time.AfterFunc(grace, cancel)
		<-s.done
		late.Stop()
		cancel()
	})
	go s.run()
	return s
}

// save has what is kept of e written.
func (s *saver) save(e *entry) {
	if s != nil {
		s.change(func() { s.dirty[e.key] = e })
	}
}

// drop has what is on disk of a key removed.
func (s *saver) drop(key string) {
	if s != nil {
		s.change(func() { s.useless[key] = struct{}{} })
	}
}

func (s *saver) change(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// run works until s is closed.
func (s *saver) run() {
	defer close(s.done)
	for {
		ok := s.work()
		var again <-chan time.Time
		if !ok {
			again = time.After(s.retry)
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
				if n := s.left(); s.ending.Err() != nil && n > 0 {
					s.c.log.Warn("Not all that is cached was written to cache.path before the end; the rest is fetched again after a restart", "selectors", n)
				}
				return
			}
		}
	}
}

// take takes something to do off the lists: a key to be removed or else an
// entry to be written.
func (s *saver) take() (useless string, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.useless {
		delete(s.useless, key)
		return key, nil
	}
	for key, e := range s.dirty {
		delete(s.dirty, key)
		return "", e
	}
	return "", nil
}

// left is the number of selectors that are still to be written.
func (s *saver) left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dirty)
}

// work removes and writes what there is to be, as long as it may, and reports false when a
// write fails. What was not written is left for the next time.
func (s *saver) work() bool {
	for s.ending.Err() == nil {
		useless, e := s.take()
		switch {
		case useless != "":
			if err := s.c.disk.Drop(useless); err != nil {
				s.c.log.Error("Could not remove cached samples that are of no use from disk", "err", err)
			}
		case e == nil:
			return true
		default:
			wrote, err := s.c.write(s.ending, e)
			if s.ending.Err() != nil && !wrote {
				s.save(e)
				return true
			}
			s.say(wrote, err)
			if err != nil {
				s.save(e)
				return false
			}
		}
	}
	return true
}

// say logs when writing begins to fail and when it works again.
func (s *saver) say(wrote bool, err error) {
	switch {
	case err != nil:
		s.c.metrics.unsaved.add(1)
		if !s.failing.Swap(true) {
			s.c.log.Error("Cannot write to cache.path; samples are cached in memory only until that works again", "err", err)
		}
	case wrote && s.failing.Swap(false):
		s.c.log.Info("Writing to cache.path works again")
	}
}

// write writes what is kept of e and not on disk yet, and reports whether there
// was anything. When ctx ends there was not.
func (c *Cache) write(ctx context.Context, e *entry) (wrote bool, err error) {
	c.files.RLock()
	defer c.files.RUnlock()
	defer c.enter()() // what is kept may be in files
	c.mu.Lock()
	sel, covered := e.sel, e.covered
	c.mu.Unlock()
	if sel == nil {
		return false, nil // evicted meanwhile
	}
	// What grows or is young is not worth a file.
	plan := c.planWrite(covered.old().whole(c.tile, math.MinInt64), c.disk.Files(e.key))
	if len(plan.spans) == 0 {
		return false, nil
	}
	part, err := restrict(ctx, sel, covered.all(), plan.spans)
	if err != nil {
		return false, nil // a corrupt chunk; reading it has dropped the entry
	}
	if plan.merge(part.PayloadBytes()) {
		if part, err = restrict(ctx, sel, covered.all(), plan.spans); err != nil {
			return false, nil
		}
	}
	switch err = c.disk.Put(ctx, e.key, plan.stretches(), part, plan.replaces); {
	case errors.Is(err, disk.ErrTooLarge), errors.Is(err, disk.ErrClosed), err != nil && ctx.Err() != nil:
		return false, nil
	case err == nil:
		c.metrics.saved.add(part.PayloadBytes())
	}
	return true, err
}
