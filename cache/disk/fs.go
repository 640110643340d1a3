package disk

import (
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
	// Tail returns the size of a file in bytes and its last n bytes, or all if
	// there are fewer.
	Tail(name string, n int64) (size int64, b []byte, err error)
	// Mapped returns the content of a file, mapped into memory as OS does.
	Mapped(name string) ([]byte, error)
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

// Tail reads the end of a file.
func (d OS) Tail(name string, n int64) (int64, []byte, error) {
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

// Mapped maps a file.
func (d OS) Mapped(name string) ([]byte, error) {
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
