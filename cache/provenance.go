package cache

import (
	"sync/atomic"

	"github.com/promwarp/promwarp/cache/tile"
)

// Every flight has a revision of its own, which the tiles that it brings have as
// long as they are kept. So tiles that were fetched again, because they were too
// old, dropped or evicted, or that come from disk or a wider selector, have another
// one than before, whether or not their samples have changed.

// revisions is the last revision given away, in all caches.
var revisions atomic.Uint64

// revised is what a joined selection has of what was kept, or of one flight, alone. Chunks of a
// flight may reach into what another has, with samples that the upstream has got since.
func (l *lookup) revised() tile.Coverage {
	all, extents := l.left(), tile.Spans(nil)
	for _, f := range l.flights {
		all = all.Without(tile.Extent(f.sel))
		for _, s := range tile.Without(f.has, extents) {
			all = all.Having(s)
		}
		extents = append(extents, tile.Extent(f.sel))
	}
	return all
}
