package selection

import (
	"context"
	"math"

	"github.com/promwarp/promwarp/selection/samples"
)

// Merge returns the union of parts, selections of different sources that may have
// samples of the same series. Of samples of a series at one time the part that is
// named first has its way, whatever time range the parts are for. Prometheus's
// fanout keeps one of them at random. No chunk bytes are copied except where
// different chunks of a series overlap and each has samples that the others have
// not: those are merged into new ones. It fails with ctx's error soon after ctx has ended.
func Merge(ctx context.Context, parts ...*Selection) (*Selection, error) {
	parts = present(parts)
	kept := int64(math.MaxInt64)
	for i, p := range parts {
		kept = min(kept, p.kept)
		parts[i] = p.From(nil) // another source may have something next time
	}
	return union(ctx, parts, kept, (*samples.Writer).Layer)
}
