package disk

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/promwarp/promwarp/cache/tile"
)

// Saver writes to disk what is kept of selectors, which it knows by their keys. When writing
// fails, because the disk is full say, it tries again from time to time. A nil Saver does nothing.
type Saver struct {
	store *Store
	// write writes what is kept of a selector and not on disk yet, and reports whether there was
	// anything. When ctx ends there was not.
	write func(ctx context.Context, key string) (wrote bool, err error)
	retry time.Duration // how long to wait after a failure
	grace time.Duration // for what is still to be written when the saver is closed

	failing atomic.Bool // whether the last write failed
	wake    chan struct{}
	closing context.Context
	close   func()
	ending  context.Context // of writing: it ends some time after closing began
	end     func()
	done    chan struct{} // closed when it has ended

	mu    sync.Mutex
	dirty map[string]bool // to be written
}

// NewSaver returns a saver, which must be closed. It waits for retry after a failure. When it is
// closed it goes on for grace with what is still to be written.
func NewSaver(store *Store, write func(ctx context.Context, key string) (wrote bool, err error), retry, grace time.Duration) *Saver {
	s := &Saver{store: store, write: write, retry: retry, grace: grace, wake: make(chan struct{}, 1), done: make(chan struct{})}
	s.dirty = map[string]bool{}
	s.closing, s.close = context.WithCancel(context.Background())
	s.ending, s.end = context.WithCancel(context.Background())
	go s.run()
	return s
}

// Close writes what is still to be written, unless that fails, and ends it: after the grace no more
// is begun, and what is being written is left.
func (s *Saver) Close() {
	s.close()
	late := time.AfterFunc(s.grace, s.end)
	<-s.done
	late.Stop()
	s.end()
}

// Save has what is kept of a selector written.
func (s *Saver) Save(key string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	s.dirty[key] = true
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// Left is the number of selectors that are still to be written.
func (s *Saver) Left() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.dirty)
}

// Failing reports whether the last write failed.
func (s *Saver) Failing() bool { return s.failing.Load() }

// run works until s is closed.
func (s *Saver) run() {
	defer close(s.done)
	for {
		wake, again := s.wake, (<-chan time.Time)(nil)
		ok := s.work()
		if !ok {
			wake, again = nil, time.After(s.retry) // while writing fails only time helps
		}
		select {
		case <-wake:
		case <-again:
		case <-s.closing.Done():
			if ok {
				s.work()
			}
			if n := s.Left(); s.ending.Err() != nil && n > 0 {
				s.store.log.Warn("Not all that is cached was written to cache.path before the end; the rest is fetched again after a restart", "selectors", n)
			}
			return
		}
	}
}

// next is what there is to be written, which may be noted again from then on, as there may be more
// of it.
func (s *Saver) next() (key string, some bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key = range s.dirty {
		delete(s.dirty, key)
		return key, true
	}
	return "", false
}

// work writes what there is to be, as long as it may, and reports false when a write fails. What was
// not written is left for the next time.
func (s *Saver) work() bool {
	for s.ending.Err() == nil {
		key, some := s.next()
		if !some {
			return true
		}
		wrote, err := s.write(s.ending, key)
		switch {
		case s.ending.Err() != nil && !wrote:
			s.Save(key)
		case err != nil:
			if !s.failing.Swap(true) {
				s.store.log.Error("Cannot write to cache.path; samples are cached in memory only until that works again", "err", err)
			}
			s.Save(key)
			return false
		case wrote && s.failing.Swap(false):
			s.store.log.Info("Writing to cache.path works again")
		}
	}
	return true
}

// Plan returns what of covered, a selection of that size, a new file is to have, and which files,
// by number, it takes the place of. That is what is not in files, or not as new, as far as these may
// answer at m, and what the newest of the files have as long as they are not much larger: so there are
// few files, and nothing is written more often than their number.
func Plan(covered tile.Coverage, bytes int64, m tile.Moment, files []*File) (written tile.Coverage, replaces []uint64) {
	missing := covered
	for _, f := range files {
		for _, s := range f.Covered.Usable(m) {
			// What was kept at the same time or before is there.
			for _, k := range missing.Within(s.Span) {
				if k.At <= s.At {
					missing = missing.Without(k.Span)
				}
			}
		}
	}
	size := float64(bytes) * float64(missing.Tiles(m.Tile)) / float64(max(1, covered.Tiles(m.Tile)))
	spans := missing.All()
	for _, f := range slices.Backward(files) {
		old := f.Covered.Usable(m)
		// All of it must be kept, as new as it is there.
		lost := func(s tile.Stretch) bool { return len(covered.Since(s.At).Missing(s.Span)) > 0 }
		if len(spans) == 0 || float64(f.Size()) > 2*size || slices.ContainsFunc(old, lost) {
			break
		}
		replaces = append(replaces, f.Seq)
		for _, s := range old {
			spans = spans.With(s.Span, 0)
		}
		size += float64(f.Size())
	}
	for _, s := range spans {
		written = append(written, covered.Revised(0).Within(s.Span)...)
	}
	return written, replaces
}
