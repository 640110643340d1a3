package layout

import (
	"iter"

	"github.com/promwarp/promwarp/selection"
)

// Some yields the chunks of some series of a selection, from first to last.
func Some(sel *selection.Selection) iter.Seq[[]selection.Chunk] {
	return func(yield func([]selection.Chunk) bool) {
		n := sel.NumSeries()
		for i := 0; i < n; i += max(1, n/64) {
			if !yield(sel.Chunks(i)) {
				return
			}
		}
	}
}

// ChunkSpan is how long a chunk is on average, in ms, by those of some series.
func ChunkSpan(sel *selection.Selection) int64 {
	var span, chunks int64
	for cs := range Some(sel) {
		if len(cs) > 0 {
			span += cs[len(cs)-1].MaxT - cs[0].MinT
			chunks += int64(len(cs))
		}
	}
	return span / max(chunks, 1)
}
