package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/prometheus/tsdb/fileutil"
)

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
