//go:build !amd64

package decode

import "github.com/promwarp/promwarp/selection"

// hasEight says that decodeLanes decodes nothing.
const hasEight = false

func decodeLanes(*selection.Selection, []selection.Chunk, []int64, []float64) (done, stale uint16) {
	return 0, 0
}
