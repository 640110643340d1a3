package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
)

// Directory is what a store does with the files of its directory.
type Directory interface {
	List() ([]string, error) // names of what is in it
	Create(name string) (io.WriteCloser, error)
	Rename(from, to string) error
	Remove(name string) error
	// Open opens a file for reading, and returns its size in bytes. What is not a regular file is
	// an error.
	Open(name string) (f ReadAtCloser, size int64, err error)
}

// ReadAtCloser is a file that is read.
type ReadAtCloser interface {
	io.ReaderAt
	io.Closer
}

// OS is a directory of the operating system.
type OS string

func (d OS) path(name string) string { return filepath.Join(string(d), name) }

// List lists the names of what is in the directory.
func (d OS) List() ([]string, error) {
	f, err := os.Open(string(d))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

// Create creates or empties a file to be written.
func (d OS) Create(name string) (io.WriteCloser, error) {
	return os.OpenFile(d.path(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}

// Rename renames a file.
func (d OS) Rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

// Remove removes a file.
func (d OS) Remove(name string) error { return os.Remove(d.path(name)) }

// Open opens a file for reading.
func (d OS) Open(name string) (ReadAtCloser, int64, error) {
	info, err := os.Lstat(d.path(name)) // first, since opening a FIFO waits for who writes to it
	if err != nil {
		return nil, 0, err
	}
	if !info.Mode().IsRegular() {
		return nil, 0, errors.New("it is not a regular file")
	}
	f, err := os.Open(d.path(name))
	return f, info.Size(), err
}
