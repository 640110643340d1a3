package decode

// Prefetch has memory bring n bytes, above 0, into the core's first cache while it does something else.
func Prefetch(b *byte, n int) { prefetch(b, n) }
