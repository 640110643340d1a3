package saving

import (
	"slices"

	"github.com/promwarp/promwarp/cache/disk"
	"github.com/promwarp/promwarp/cache/tile"
)

// Plan returns what of covered, a selection of so many bytes, a new file is to have, and which files,
// by number, it takes the place of. That is what is not in files, or not as new, as far as these may
// answer at m, and what the newest of the files have as long as they are not much larger: so there are
// few files, and nothing is written more often than their number.
func Plan(covered tile.Coverage, bytes int64, m tile.Moment, files []*disk.File) (written tile.Coverage, replaces []uint64) {
	missing := covered
	for _, f := range files {
		for _, s := range f.Covered.Usable(m) {
			// What was kept at the same time or before is there.
			for _, k := range missing.Within(s.Span) {
				if k.At <= s.At {
					missing = missing.Without(k.Span)
				}
			}
		}
	}
	spans := missing.All()
	size := float64(bytes) * float64(spans.Tiles(m.Tile)) / float64(max(1, covered.All().Tiles(m.Tile)))
	for _, f := range slices.Backward(files) {
		old := f.Covered.Usable(m)
		// All of it must be kept, as new as it is there.
		lost := func(s tile.Stretch) bool { return len(covered.Since(s.At).All().Missing(s.Span)) > 0 }
		if len(spans) == 0 || float64(f.Size()) > 2*size || slices.ContainsFunc(old, lost) {
			break
		}
		replaces = append(replaces, f.Seq)
		for _, s := range old {
			spans = spans.With(s.Span)
		}
		size += float64(f.Size())
	}
	for _, s := range spans {
		written = append(written, covered.Revised(0).Within(s)...)
	}
	return written, replaces
}
