// Package disk keeps what selectors matched in files, so that a cache is warm
// after a restart.
//
// A file has one fetch, or several merged, of one selector. It is written under
// a temporary name, given its own name when it is whole, and never changed. So
// whatever interrupts the program leaves whole files and temporary ones. All of
// a file is covered by checksums: its end is checked when the directory is
// opened, the rest before any of it is used. A file that does not match is
// removed.
//
// A Saver has files written behind the queries' backs. Plan says what a new file is to have, and
// which it replaces.
package disk

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/prometheus/prometheus/tsdb/fileutil"

	"github.com/promwarp/promwarp/cache/tile"
	"github.com/promwarp/promwarp/internal/memory"
	"github.com/promwarp/promwarp/selection"
)

// Options configure a Store.
type Options struct {
	// Path is the directory, which is made if there is none. Only one store can
	// have it open.
	Path string
	// Limit is the most bytes of files.
	Limit int64
	// Identity names the source of the samples and all else that they depend on.
	// Files of another identity are removed.
	Identity string
	// Logger is told of files that are removed because of what is in them; nil
	// means none.
	Logger *slog.Logger
	// Memory is asked for room for what is read; nil means that there is no limit.
	Memory *memory.Pool

	// Before is called before each operation on a file, which has its error. It is for tests, in which
	// operations fail or wait; nil does nothing. The operations are create, write, close, rename,
	// remove, open and read.
	Before func(operation string) error
}

// Store is a directory with files of tiles. It is safe for concurrent use.
type Store struct {
	dir      string
	before   func(operation string) error
	limit    int64
	identity [16]byte
	log      *slog.Logger
	lock     fileutil.Releaser
	memory   *memory.Pool
	bad      atomic.Int64 // files removed because of what was in them
	evicted  atomic.Int64 // files removed to stay within the limit

	mu     sync.Mutex
	files  map[string][]*File // of each selector, oldest first
	uses   uint64             // so far
	bytes  int64              // of all files
	seq    uint64             // of the newest file
	left   map[string]bool    // files that were to be removed and could not be
	closed bool
}

// File is a whole file that is in use. What is exported never changes.
type File struct {
	footer
	head
	name string
	used uint64 // number of the last use
}

// Size is its size in bytes.
func (f *File) Size() int64 { return int64(f.footer.Size) }

// Empty reports whether there are no samples in it.
func (f *File) Empty() bool { return len(f.slabs) == 0 }

// overlaps reports whether f and o have something of the same time.
func (f *File) overlaps(o *File) bool {
	return slices.ContainsFunc(o.Covered, func(s tile.Stretch) bool { return len(f.Covered.Within(s.Span)) > 0 })
}

const (
	extension = ".tiles"
	temporary = ".tiles.tmp"
	lockName  = "lock"
	// activeName is the file of the queries that run, which Prometheus's tracker writes there.
	activeName = "queries.active"
)

func nameOf(seq uint64) string { return fmt.Sprintf("%016x%s", seq, extension) }

// ErrLocked is the error of Open when another process has the directory open.
var ErrLocked = errors.New("another process has it open")

// Check says why Open would fail at path, but for a lock. It leaves nothing behind.
func Check(path string) error {
	for _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist); _, err = os.Stat(path) {
		path = filepath.Dir(path) // in which it would be made
	}
	f, err := os.CreateTemp(path, "*"+temporary)
	if err != nil {
		return fmt.Errorf("%w; name a directory that promwarp's user may write to", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Open opens the directory and looks at the files in it.
func Open(o Options) (*Store, error) {
	s := &Store{dir: o.Path, before: o.Before, limit: o.Limit, log: o.Logger, memory: o.Memory, files: map[string][]*File{}, left: map[string]bool{}}
	sum := sha256.Sum256([]byte(o.Identity))
	copy(s.identity[:], sum[:])
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.before == nil {
		s.before = func(string) error { return nil }
	}
	err := Check(o.Path)
	if err == nil {
		err = os.MkdirAll(o.Path, 0o700)
	}
	if err != nil {
		return nil, err
	}
	s.lock, _, err = fileutil.Flock(s.path(lockName))
	switch {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, fmt.Errorf("%w (%v)", ErrLocked, err)
	case err != nil:
		return nil, fmt.Errorf("it cannot be written to: %w", err)
	}
	if err := s.scan(); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }

// scan goes through all files and removes files that are of no use.
func (s *Store) scan() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return err
	}
	var found []*File
	foreign, others := 0, 0
	for _, entry := range entries {
		switch name := entry.Name(); {
		case name == lockName || name == activeName:
		case strings.HasSuffix(name, temporary):
			s.remove(name) // was being written when the program ended
		case strings.HasSuffix(name, extension):
			f, err := s.look(name)
			switch {
			case err != nil:
				s.drop(name, err)
			case f.Identity != s.identity:
				others++
				s.remove(name)
			default:
				found = append(found, f)
			}
		default:
			foreign++
		}
	}
	if foreign > 0 {
		s.log.Warn("The cache's directory has files that are not the cache's; they are left alone", "files", foreign)
	}
	if others > 0 {
		s.log.Warn("Removed cached samples of another source, or kept with other settings", "files", others)
	}
	slices.SortFunc(found, func(a, b *File) int { return cmp.Compare(a.Seq, b.Seq) })
	replaced := map[uint64]bool{}
	for _, f := range found {
		for _, seq := range f.replaces {
			replaced[seq] = true
		}
	}
	for _, f := range found {
		s.seq = max(s.seq, f.Seq)
		if replaced[f.Seq] {
			s.remove(f.name)
			continue
		}
		s.add(f)
	}
	s.shrink(nil)
	return nil
}

// look reads what is in a file.
func (s *Store) look(name string) (*File, error) {
	r, size, err := s.open(name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	f := &File{name: name}
	if f.footer, f.head, err = readHead(r, size); err == nil && nameOf(f.Seq) != name {
		err = fmt.Errorf("it is number %d by its content", f.Seq)
	}
	return f, err
}

// open opens a file for reading, and returns its size in bytes. What is not a regular file is an
// error.
func (s *Store) open(name string) (*os.File, int64, error) {
	if err := s.before("open"); err != nil {
		return nil, 0, err
	}
	info, err := os.Lstat(s.path(name)) // first, since opening a FIFO waits for who writes to it
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("it is not a regular file")
	}
	f, err := os.Open(s.path(name))
	return f, info.Size(), err
}

// add takes f into the books as the newest of its selector. The mutex must be
// held, but by Open.
func (s *Store) add(f *File) {
	s.use(f)
	s.files[f.key] = append(s.files[f.key], f)
	s.bytes += f.Size()
}

// use marks f as the most recently used. The mutex must be held, but by Open.
func (s *Store) use(f *File) {
	s.uses++
	f.used = s.uses
}

// forget takes files out of the books. The mutex must be held.
func (s *Store) forget(key string, which func(*File) bool) (gone []*File) {
	left := slices.DeleteFunc(slices.Clone(s.files[key]), func(f *File) bool {
		if !which(f) {
			return false
		}
		gone = append(gone, f)
		s.bytes -= f.Size()
		return true
	})
	if s.files[key] = left; len(left) == 0 {
		delete(s.files, key)
	}
	return gone
}

// shrink removes the least recently used files but keep until the limit is met.
// With a file go those of its selector that it is to be read before: what they
// have of the same time is older. The mutex must be held, but by Open.
func (s *Store) shrink(keep *File) {
	for s.bytes > s.limit {
		var least *File
		for _, files := range s.files {
			for _, f := range files {
				if f != keep && (least == nil || f.used < least.used) {
					least = f
				}
			}
		}
		if least == nil {
			return
		}
		with := []*File{least}
		for _, o := range slices.Backward(s.files[least.key]) {
			if o.Seq < least.Seq && slices.ContainsFunc(with, o.overlaps) {
				with = append(with, o)
			}
		}
		for _, o := range s.forget(least.key, func(o *File) bool { return slices.Contains(with, o) }) {
			s.evicted.Add(1)
			s.remove(o.name)
		}
	}
}

// drop removes a file that is of no use because of err. The mutex must be held,
// but by Open.
func (s *Store) drop(name string, err error) {
	s.bad.Add(1)
	s.log.Warn("Dropped a file of the cache; what was in it is fetched again when asked for", "file", name, "err", err)
	s.remove(name)
}

// remove removes a file, or notes that it could not. The mutex must be held, but
// by Open.
func (s *Store) remove(name string) {
	delete(s.left, name)
	err := s.before("remove")
	if err == nil {
		err = os.Remove(s.path(name))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.left[name] = true
		s.log.Error("Could not remove a file of the cache", "file", name, "err", err)
	}
}

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
	r, size, err := s.open(f.name)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if f.Size() != size {
		return nil, fmt.Errorf("it has %d bytes instead of %d", size, f.Size())
	}
	if err := s.before("read"); err != nil {
		return nil, err
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
	if err := s.before("create"); err != nil {
		return err
	}
	w, err := os.OpenFile(s.path(tmp), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if err = s.before("write"); err == nil {
		err = writeFile(ctx, w, sel, &f.head, &f.footer)
	}
	if err = errors.Join(err, s.before("close"), w.Close()); err == nil {
		err = s.commit(ctx, f, tmp)
	}
	if err != nil {
		s.mu.Lock()
		s.remove(tmp)
		s.mu.Unlock()
	}
	return err
}

// commit gives a written file its name, unless ctx has ended.
func (s *Store) commit(ctx context.Context, f *File, tmp string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case f.Size() > s.limit:
		return ErrTooLarge
	case s.closed:
		return ErrClosed
	}
	err := s.before("rename")
	if err == nil {
		err = os.Rename(s.path(tmp), s.path(f.name))
	}
	if err != nil {
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
	entries, err := os.ReadDir(path)
	for _, entry := range entries {
		if name := entry.Name(); strings.HasSuffix(name, temporary) || strings.HasSuffix(name, extension) {
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
