package prefetch

// bytes prefetches n bytes, above 0.
//
//go:noescape
func bytes(b *byte, n int)
