//go:build !amd64 && !arm64

package spin

import "runtime"

// pause lets others work.
func pause(uint32) { runtime.Gosched() }
