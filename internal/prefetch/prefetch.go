// Package prefetch has memory bring what a core will look at soon into its first cache, while it
// does something else.
package prefetch

import "unsafe"

// List prefetches all of list.
func List[T any](list []T) {
	if size := len(list) * int(unsafe.Sizeof(*new(T))); size > 0 {
		bytes((*byte)(unsafe.Pointer(&list[0])), size)
	}
}
