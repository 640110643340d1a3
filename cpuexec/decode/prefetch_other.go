//go:build !amd64

package decode

// Prefetch would have memory bring n bytes into the core's first cache.
func Prefetch(*byte, int) {}
