package disk

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/tsdb/fileutil"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/selection"
)

// Stats is what a store holds and has done.
type Stats struct {
	Bytes, Limit     int64 // of files, the most of them
	Files, Selectors int
	Evicted, Bad     int64 // files removed for want of room, and for what was in them
}

// Stats returns the state of the store.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Stats{Bytes: s.bytes, Limit: s.limit, Selectors: len(s.files), Evicted: s.evicted.Load(), Bad: s.bad.Load()}
	for _, files := range s.files {
		out.Files += len(files)
	}
	return out
}

// Files lists what there is of a selector, oldest first.
func (s *Store) Files(key string) []*File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[key]
}

// Load returns of a file the chunks that have something of a stretch of time, or nil where the file is
// gone. A file that is damaged or cannot be read is removed. It fails with ctx's error when that ends,
// once what is being read, some MiB, has come, and with the error of memory that is not to be had.
func (s *Store) Load(ctx context.Context, f *File, of tile.Span) (*selection.Selection, error) {
	s.mu.Lock()
	there := slices.Contains(s.files[f.key], f) && !s.closed
	s.use(f)
	s.mu.Unlock()
	if !there {
		return nil, ctx.Err()
	}
	sel, err := s.load(ctx, f, of)
	switch {
	case err == nil:
		return sel, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case memory.Exhausted(err):
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.forget(f.key, func(o *File) bool { return o == f })) > 0 { // else it was replaced or removed meanwhile
		s.drop(f.name, err)
	}
	return nil, nil
}

func (s *Store) load(ctx context.Context, f *File, of tile.Span) (*selection.Selection, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r, size, err := s.dir.Open(f.name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if f.Size() != size {
		return nil, fmt.Errorf("it has %d bytes instead of %d", size, f.Size())
	}
	return f.load(ctx, r, of, func() error { return s.memory.Room(ctx, memory.Fetched) })
}

// ErrTooLarge is the error of Put when a file would be larger than all files
// may be.
var ErrTooLarge = errors.New("larger than cache.disk-bytes")

// ErrClosed is the error of Put after Close.
var ErrClosed = errors.New("closed")

// Put writes sel, which is what the selector key matched over covered. It takes
// the place of the given files. When ctx ends the file is not finished, and the error is ctx's.
func (s *Store) Put(ctx context.Context, key string, covered tile.Coverage, sel *selection.Selection, replaces []uint64) error {
	s.mu.Lock()
	s.seq++
	f := &File{
		footer: footer{Identity: s.identity, Seq: s.seq},
		head:   head{key: key, Covered: covered, replaces: replaces},
		name:   nameOf(s.seq),
	}
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return ErrClosed
	}
	if sel.PayloadBytes() > s.limit {
		return ErrTooLarge
	}
	tmp := fmt.Sprintf("%016x%s", f.Seq, temporary)
	w, err := s.dir.Create(tmp)
	if err != nil {
		return err
	}
	if err = errors.Join(writeFile(ctx, w, sel, &f.head, &f.footer), w.Close()); err == nil {
		err = s.commit(f, tmp)
	}
	if err != nil {
		s.mu.Lock()
		s.remove(tmp)
		s.mu.Unlock()
	}
	return err
}

// commit gives a written file its name.
func (s *Store) commit(f *File, tmp string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case f.Size() > s.limit:
		return ErrTooLarge
	case s.closed:
		return ErrClosed
	}
	if err := s.dir.Rename(tmp, f.name); err != nil {
		return err
	}
	s.add(f)
	for _, old := range s.forget(f.key, func(o *File) bool { return slices.Contains(f.replaces, o.Seq) }) {
		s.remove(old.name)
	}
	s.shrink(f)
	return nil
}

// Drop removes all that there is of a selector. It fails if a file cannot be
// removed, this or one that should have gone before: it would come back with the
// next process.
func (s *Store) Drop(key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.forget(key, func(*File) bool { return true }) {
		s.remove(f.name)
	}
	return s.tidy()
}

// Tidy removes the files that should have gone before. It fails if one cannot be
// removed.
func (s *Store) Tidy() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tidy()
}

// tidy is Tidy with the mutex held.
func (s *Store) tidy() error {
	for name := range maps.Clone(s.left) {
		s.remove(name)
	}
	if n := len(s.left); n > 0 {
		return fmt.Errorf("%d files of the cache could not be removed; what is in them is not used any more, but will be after a restart unless they are removed", n)
	}
	return nil
}

// Keys lists the selectors of which there is anything.
func (s *Store) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.files))
}

// Clear removes the files of a store that is no more used. It fails with ErrLocked
// when the directory is open.
func Clear(path string) error {
	lock, _, err := fileutil.Flock(filepath.Join(path, lockName))
	if err != nil {
		return ErrLocked
	}
	names, err := OS(path).List()
	for _, name := range names {
		if strings.HasSuffix(name, temporary) || strings.HasSuffix(name, extension) {
			err = errors.Join(err, os.Remove(filepath.Join(path, name)))
		}
	}
	return errors.Join(err, lock.Release())
}

// Close gives the directory free.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	if s.lock != nil {
		return s.lock.Release()
	}
	return nil
}
