package disk

import (
	"io"
	"os"
	"path/filepath"
)

// directory is what a store does with the files of its directory. Tests replace
// it to have operations fail.
type directory interface {
	list() ([]string, error) // names of what is in it
	create(name string) (io.WriteCloser, error)
	rename(from, to string) error
	remove(name string) error
	// tail returns the size of a file in bytes and its last n bytes, or all if
	// there are fewer.
	tail(name string, n int64) (size int64, b []byte, err error)
	// mapped returns the content of a file. It is in memory until unmap is given
	// it.
	mapped(name string) ([]byte, error)
}

// realDirectory is a directory of the operating system.
type realDirectory string

func (d realDirectory) path(name string) string { return filepath.Join(string(d), name) }

func (d realDirectory) list() ([]string, error) {
	f, err := os.Open(string(d))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Readdirnames(-1)
}

func (d realDirectory) create(name string) (io.WriteCloser, error) {
	return os.OpenFile(d.path(name), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
}

func (d realDirectory) rename(from, to string) error { return os.Rename(d.path(from), d.path(to)) }

func (d realDirectory) remove(name string) error { return os.Remove(d.path(name)) }

func (d realDirectory) tail(name string, n int64) (int64, []byte, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, nil, err
	}
	b := make([]byte, min(n, info.Size()))
	_, err = f.ReadAt(b, info.Size()-int64(len(b)))
	return info.Size(), b, err
}

func (d realDirectory) mapped(name string) ([]byte, error) {
	f, err := os.Open(d.path(name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return nil, err
	}
	return mapFile(f, info.Size())
}
