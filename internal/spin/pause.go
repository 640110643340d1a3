//go:build amd64 || arm64

package spin

// pause lets the other thread of the core work while this one waits, n times, at least one.
//
//go:noescape
func pause(n uint32)
