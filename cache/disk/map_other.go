//go:build !unix

package disk

import (
	"io"
	"os"
)

// mapFile reads the first size bytes of f, where files cannot be mapped.
func mapFile(f *os.File, size int64) ([]byte, error) {
	b := make([]byte, size)
	_, err := io.ReadFull(f, b)
	return b, err
}

// unmap undoes mapFile.
func unmap([]byte) error { return nil }
