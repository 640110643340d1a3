//go:build !amd64

package decode

import "github.com/promwarp/promwarp/selection"

// hasEight says that decodeLanes decodes nothing.
const hasEight = false

func (*Buffer) decodeLanes(*selection.Selection) (done uint16) { return 0 }

func prefetchAll(*selection.Selection, []placed) {}

// Prefetch would have memory bring n bytes into the core's first cache.
func Prefetch(*byte, int) {}
