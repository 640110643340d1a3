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
// A Saver has files written and removed behind the queries' backs. Plan says what a new file is to
// have, and which it replaces.
package disk

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
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

	// Files is how files are reached; nil means those of the operating system at
	// Path. It is for tests, in which operations fail.
	Files Directory
}

// Store is a directory with files of tiles. It is safe for concurrent use.
type Store struct {
	dir      Directory
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
	s := &Store{dir: o.Files, limit: o.Limit, log: o.Logger, memory: o.Memory, files: map[string][]*File{}, left: map[string]bool{}}
	sum := sha256.Sum256([]byte(o.Identity))
	copy(s.identity[:], sum[:])
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.dir == nil {
		s.dir = OS(o.Path)
		err := Check(o.Path)
		if err == nil {
			err = os.MkdirAll(o.Path, 0o700)
		}
		if err != nil {
			return nil, err
		}
		s.lock, _, err = fileutil.Flock(filepath.Join(o.Path, lockName))
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return nil, fmt.Errorf("%w (%v)", ErrLocked, err)
		case err != nil:
			return nil, fmt.Errorf("it cannot be written to: %w", err)
		}
	}
	if err := s.scan(); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// scan looks at all files and removes those that are of no use.
func (s *Store) scan() error {
	names, err := s.dir.List()
	if err != nil {
		return err
	}
	var found []*File
	foreign, others := 0, 0
	for _, name := range names {
		switch {
		case name == lockName:
		case strings.HasSuffix(name, temporary):
			s.remove(name) // was being written when the program ended
		case strings.HasSuffix(name, extension):
			f := &File{name: name}
			if f.footer, f.head, err = readHead(s.dir, name); err == nil && nameOf(f.Seq) != name {
				err = fmt.Errorf("it is number %d by its content", f.Seq)
			}
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
	if err := s.dir.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		s.left[name] = true
		s.log.Error("Could not remove a file of the cache", "file", name, "err", err)
	}
}
